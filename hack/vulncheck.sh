#!/usr/bin/env bash
# Fails when our programs reach code that is known to be vulnerable. Without a way to the database of vulnerabilities
# nothing is known: that is said, and is a failure only where VULNCHECK=required, as in a release. GOVULNDB names another
# database, such as a copy on disk: file:///var/lib/vulndb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

database=${GOVULNDB:-https://vuln.go.dev}
code=0
out=$("${GOVULNCHECK:-bin/tools/govulncheck}" -db "$database" "${@:-./cmd/...}" 2>&1) || code=$?
if ((code == 0)); then
  echo "no known vulnerability is reached"
  exit
fi
if ((code == 1)) && [[ $out == *"fetching vulnerabilities"* ]]; then
  echo "vulnerabilities were NOT looked for: $database cannot be reached (${out##*: })" >&2
  [[ ${VULNCHECK:-} != required ]] && exit
  exit 1
fi
printf '%s\n' "$out" >&2
exit 1

#!/usr/bin/env bash
# Fails when something that can be checked without running tests is not as it should be. `make verify` generates
# and lints first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [[ -n $unformatted ]]; then
  printf 'not formatted, run gofmt -w:\n%s\n' "$unformatted" >&2
  exit 1
fi
# Not that of Prometheus, whose go.mod says why.
for module in $(git ls-files 'go.mod' '*/go.mod' | grep -v '^hack/tools/monitoring/' | xargs -n1 dirname); do
  (cd "$module" && go mod tidy -diff) || { echo "run go mod tidy in $module" >&2; exit 1; }
done
go vet ./...
if ! git diff --exit-code --stat; then
  echo "generated files are not up to date: commit the difference above" >&2
  exit 1
fi
echo "verified"

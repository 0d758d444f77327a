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
for module in . hack/tools/cluster hack/tools/node hack/tools/bundle hack/tools/kwok hack/tools/dev hack/tools/helm hack/tools/release hack/tools/compat/* hack/tools/operators/*; do
  (cd "$module" && go mod tidy -diff) || { echo "run go mod tidy in $module" >&2; exit 1; }
done
go vet ./...
if ! git diff --exit-code --stat; then
  echo "generated files are not up to date: commit the difference above" >&2
  exit 1
fi
echo "verified"

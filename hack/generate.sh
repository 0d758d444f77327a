#!/usr/bin/env bash
# Writes every generated file. `make verify` fails when this changes anything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

make --no-print-directory bin/tools/controller-gen
bin/tools/controller-gen object:headerFile=/dev/null paths=./pkg/apis/...

# A page of docs/cli for each command of gpuctl.
go test ./cli -run '^TestReferencePages$' -update >/dev/null

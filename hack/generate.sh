#!/usr/bin/env bash
# Writes every generated file. `make verify` fails when this changes anything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

make --no-print-directory bin/tools/controller-gen
bin/tools/controller-gen object:headerFile=/dev/null paths=./pkg/apis/...
bin/tools/controller-gen crd paths=./pkg/apis/g8s/... output:crd:dir=manifests/crds

# A page of docs/cli for each command of gpuctl.
go test ./cli -run '^TestReferencePages$' -update >/dev/null

# The tables of docs/yaml.md, and the skeletons of gpuctl init, from the tables of fields.
go test ./pkg/workload -run '^(TestDocs|TestSkeletonsAreValid)$' -update >/dev/null
# The routes of docs/api.md, and the document.
go test ./pkg/server -run '^TestDocs' -update >/dev/null
chmod 644 docs/api.md docs/openapi-3.0.json

# The console, from its sources.
hack/console.sh

# The CRD of PodGroups, from the types of the very scheduler-plugins that we build, within bounds. Its others are not used
# here.
[ -x bin/tools/kubectl ] || make --no-print-directory tools
crds=$(mktemp -d)
trap 'rm -rf "$crds"' EXIT
bin/tools/controller-gen crd paths=sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1 output:crd:dir="$crds"
{ echo ---; echo '# Written by "make generate" from the types of scheduler-plugins: the bounds are in hack/podgroup-bounds.yaml.'
  bin/tools/kubectl patch --local --type json --patch-file hack/podgroup-bounds.yaml -o yaml \
  -f "$crds"/scheduling.x-k8s.io_podgroups.yaml; } >manifests/crds/scheduling.x-k8s.io_podgroups.yaml

# The Helm chart, from the kustomizations.
go run ./hack/chart -kubectl bin/tools/kubectl -manifests manifests

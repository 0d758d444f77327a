#!/usr/bin/env bash
# Builds the programs of another release into bin/releases/COMMIT/bin, with its manifests beside them: what test/upgrade
# upgrades from. What is there and was built by this Go is left alone. The last line on standard output is the folder.
#
#   upgrade.sh v0.1.0
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ $# != 1 ]]; then
  echo "usage: ${BASH_SOURCE[0]} REF, a tag or a commit" >&2
  exit 2
fi
if ! commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}"); then
  echo "$1 is no commit of this repository: name another with OLD=REF, or fetch it (git fetch --tags --unshallow)" >&2
  exit 2
fi
out=$root/bin/releases/${commit:0:12}
want="$commit $(go version) $(go env CGO_ENABLED GOFLAGS | tr '\n' ' ')"
if [[ ! -f $out/stamp || $(<"$out/stamp") != "$want" ]]; then
  begin=$SECONDS
  printf 'building the release %s ... ' "$1" >&2
  rm -rf "$out"
  mkdir -p "$out/source" "$out/bin"
  git -C "$root" archive "$commit" | tar -x -C "$out/source"
  kubernetes=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$out/source/go.mod")
  programs=(./cmd/gpu-scheduler ./cmd/gpu-controller ./cmd/gpuctl-server ./cmd/gpuctl)
  if [[ -d $out/source/cmd/gpu-ledger ]]; then programs+=(./cmd/gpu-ledger); fi
  # The flags of the Makefile, so that what both releases link is compiled once.
  (cd "$out/source" && CGO_ENABLED=0 go build -o "$out/bin/" \
    -ldflags "-X k8s.io/component-base/version.gitVersion=$kubernetes+g8s.${commit:0:12} -X g8s.host/gpu-scheduler/cli.version=${commit:0:12}" \
    "${programs[@]}")
  mv "$out/source/manifests" "$out/manifests"
  find "$out/manifests" -name '*.go' -delete # go ./... would take them for packages of ours
  rm -rf "$out/source"
  printf '%s\n' "$want" >"$out/stamp"
  printf '%ds\n' $((SECONDS - begin)) >&2
fi
echo "$out"

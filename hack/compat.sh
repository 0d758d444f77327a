#!/usr/bin/env bash
# Builds the API server and the controllers of another Kubernetes into bin/kubernetes-VERSION, from the module pinned in
# hack/tools/compat, with the rest of the sandbox's tools beside them. What is there and of that module is left alone.
#
#   compat.sh 1.34
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=$root/hack/tools/compat/${1:-}
if [[ $# != 1 || ! -f $module/go.mod ]]; then
  echo "usage: ${BASH_SOURCE[0]} VERSION, one of $(cd "$root/hack/tools/compat" && echo *)" >&2
  exit 2
fi
bin=$root/bin/kubernetes-$1
mkdir -p "$bin"
for name in etcd kubectl kwok; do
  ln -sfn "$root/bin/tools/$name" "$bin/$name"
done

version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" {print $3} $1 == "k8s.io/kubernetes" {print $2}' "$module/go.mod")
want=$(cd "$module" && { cat go.mod go.sum; go version; go env GOOS GOARCH CGO_ENABLED GOFLAGS; } | cksum)
IFS=. read -r major minor _ <<<"${version#v}"
stamped="-s -w -X k8s.io/component-base/version.gitVersion=$version"
stamped+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"
for name in kube-apiserver kube-controller-manager; do
  if [[ -x $bin/$name && -f $bin/.$name.stamp && $(<"$bin/.$name.stamp") == "$want" ]]; then
    continue
  fi
  begin=$SECONDS
  printf 'building %-24s of %s ... ' "$name" "$version" >&2
  (cd "$module" && go build -ldflags "$stamped" -o "$bin/$name" "k8s.io/kubernetes/cmd/$name")
  printf '%s\n' "$want" >"$bin/.$name.stamp"
  printf '%ds\n' $((SECONDS - begin)) >&2
done

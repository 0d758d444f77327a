#!/usr/bin/env bash
# Builds what the sandbox runs (etcd, kube-apiserver, kube-controller-manager, kubectl, kwok) into bin/tools
# from the modules pinned in hack/tools/cluster and hack/tools/kwok. A tool that is there and whose stamp is
# that of its module and of the Go toolchain is left alone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/hack/tools
bin=$root/bin/tools
mkdir -p "$bin"

started=$SECONDS
built=0

# version prints the version of a module that the module in directory $1 requires: the only place it is written down.
version() {
  awk -v path="$2" '$1 == path {print $2; exit} $1 == "require" && $2 == path {print $3; exit}' "$1/go.mod"
}

# stamp prints what a build in directory $1 depends on, beside its sources in the read-only module cache.
stamp() {
  {
    cat "$1/go.mod" "$1/go.sum" "${BASH_SOURCE[0]}"
    (cd "$1" && go version && go env GOOS GOARCH CGO_ENABLED GOFLAGS)
  } | cksum
}

# build MODULE NAME PACKAGE LDFLAGS builds one tool, with a line that says how long it took.
build() {
  local dir=$tools/$1 name=$2 package=$3 ldflags=$4 begin=$SECONDS
  local stamp=$1_stamp
  local want=${!stamp}
  if [[ -x $bin/$name && -f $bin/.$name.stamp && $(<"$bin/.$name.stamp") == "$want" ]]; then
    return
  fi
  printf 'building %-24s from %s ... ' "$name" "$package" >&2
  (cd "$dir" && go build -ldflags "$ldflags" -o "$bin/$name" "$package")
  printf '%s\n' "$want" >"$bin/.$name.stamp"
  printf '%ds (%ds in all)\n' $((SECONDS - begin)) $((SECONDS - started)) >&2
  built=$((built + 1))
}

cluster_stamp=$(stamp "$tools/cluster")
kwok_stamp=$(stamp "$tools/kwok")

# Kubernetes' binaries report v0.0.0-master unless they are told their version, and clients choke on that.
kubernetes=$(version "$tools/cluster" k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
stamped="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"
stamped+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"

build cluster etcd go.etcd.io/etcd/server/v3 '-s -w'
build cluster kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$stamped"
build cluster kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$stamped"
build cluster kubectl k8s.io/kubernetes/cmd/kubectl "$stamped"
build kwok kwok sigs.k8s.io/kwok/cmd/kwok '-s -w'

if ((built == 0)); then
  echo "bin/tools is up to date" >&2
fi

#!/usr/bin/env bash
# Builds what the sandbox runs into bin/tools, from the modules pinned beside this script. A tool that is there and whose
# stamp is that of its module and of the Go toolchain is left alone.
#
#   build.sh        the cluster: etcd, kube-apiserver, kube-controller-manager, kubectl, kwok
#   build.sh node   what a real node runs: kubelet, containerd, runc, network plugins
#   build.sh monitoring   what tests manifests/monitoring: promtool, prometheus
set -euo pipefail

what=${1:-cluster}

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

# build MODULE NAME PACKAGE LDFLAGS [FLAG...] builds one tool, with a line that says how long it took.
build() {
  local dir=$tools/$1 name=$2 package=$3 ldflags=$4 begin=$SECONDS
  shift 4
  local stamp=${dir##*/}_stamp
  local want=${!stamp}
  if [[ -x $bin/$name && -f $bin/.$name.stamp && $(<"$bin/.$name.stamp") == "$want" ]]; then
    return
  fi
  printf 'building %-24s from %s ... ' "$name" "$package" >&2
  (cd "$dir" && go build "$@" -ldflags "$ldflags" -o "$bin/$name" "$package")
  printf '%s\n' "$want" >"$bin/.$name.stamp"
  printf '%ds (%ds in all)\n' $((SECONDS - begin)) $((SECONDS - started)) >&2
  built=$((built + 1))
}

# runc_from_debian puts Debian's runc into bin/tools, unpacked and not installed: it needs a C compiler to build, which a
# machine with only Go, make and git has not.
runc_from_debian() {
  local begin=$SECONDS dir
  printf 'fetching %-24s from Debian ... ' runc >&2
  dir=$(mktemp -d)
  chmod 755 "$dir" # apt fetches as a user of its own
  if ! (cd "$dir" && { apt-get download runc || { apt-get update && apt-get download runc; }; } && dpkg -x runc_*.deb .) >"$dir/log" 2>&1; then
    printf 'failed\n' >&2
    cat "$dir/log" >&2
    echo "put a runc into $bin, or on the PATH, and run this again" >&2
    exit 1
  fi
  mv "$dir/usr/sbin/runc" "$bin/runc"
  rm -rf "$dir"
  printf '%ds\n' $((SECONDS - begin)) >&2
  built=$((built + 1))
}

cluster_stamp=$(stamp "$tools/cluster")

# Kubernetes' binaries report v0.0.0-master unless they are told their version, and clients choke on that.
kubernetes=$(version "$tools/cluster" k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
stamped="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"
stamped+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"

case $what in
cluster)
  kwok_stamp=$(stamp "$tools/kwok")
  build cluster etcd go.etcd.io/etcd/server/v3 '-s -w'
  build cluster kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$stamped"
  build cluster kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$stamped"
  build cluster kubectl k8s.io/kubernetes/cmd/kubectl "$stamped"
  build kwok kwok sigs.k8s.io/kwok/cmd/kwok '-s -w'
  ;;
node)
  node_stamp=$(stamp "$tools/node")
  build cluster kubelet k8s.io/kubernetes/cmd/kubelet "$stamped"
  containerd=github.com/containerd/containerd/v2
  versioned="-s -w -X $containerd/version.Version=$(version "$tools/node" "$containerd")"
  export CGO_ENABLED=0 # containerd's snapshotters for btrfs and others need C, and are left out
  for name in containerd containerd-shim-runc-v2 ctr; do
    build node "$name" "$containerd/cmd/$name" "$versioned" -tags 'no_btrfs no_devmapper no_zfs'
  done
  build node ptp github.com/containernetworking/plugins/plugins/main/ptp '-s -w'
  build node host-local github.com/containernetworking/plugins/plugins/ipam/host-local '-s -w'
  if [[ ! -x $bin/runc ]]; then
    if own=$(command -v runc); then ln -s "$own" "$bin/runc"; else runc_from_debian; fi
  fi
  ;;
monitoring)
  monitoring_stamp=$(stamp "$tools/monitoring")
  prometheus=github.com/prometheus/prometheus
  # The module of Prometheus v3.16.0 is v0.316.0.
  IFS=. read -r _ minor patch <<<"$(version "$tools/monitoring" "$prometheus")"
  versioned="-s -w -X github.com/prometheus/common/version.Version=3.$((minor - 300)).$patch"
  export CGO_ENABLED=0
  for name in promtool prometheus; do
    build monitoring "$name" "$prometheus/cmd/$name" "$versioned" -tags remove_all_sd
  done
  ;;
*)
  echo "usage: ${BASH_SOURCE[0]} [cluster|node|monitoring]" >&2
  exit 2
  ;;
esac

if ((built == 0)); then
  echo "bin/tools is up to date" >&2
fi

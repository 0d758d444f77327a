#!/usr/bin/env bash
# Builds what the sandbox runs into bin/tools, from the modules pinned beside this script. A tool that is there and whose
# stamp is that of its module and of the Go toolchain is left alone.
#
#   build.sh        the cluster: etcd, kube-apiserver, kube-controller-manager, kubectl, kwok
#   build.sh demo   the same for make demo: our programs that it runs are built beside kwok
#   build.sh node   what a real node runs: kubelet, containerd, runc, network plugins
#   build.sh operators   operators of other projects whose workloads are gangs: KubeRay, JobSet, LWS, Kubeflow
#   build.sh monitoring   what tests manifests/monitoring: promtool, prometheus
set -euo pipefail

# As our own programs are built (Makefile): what both import is compiled once then. With cgo, as is the default where there is a C
# compiler, all that imports net would be another package.
export CGO_ENABLED=0

what=${1:-cluster}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/hack/tools
bin=$root/bin/tools
mkdir -p "$bin"

started=$SECONDS
built=0

# What is left when this script ends early: the folder of a build, and make that runs beside one.
out=""
beside=""
trap 'tidy' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tidy() {
  if [[ -n $beside ]]; then kill "$beside" 2>/dev/null || true; fi # make ends what it started
  if [[ -n $out ]]; then rm -rf "$out"; fi
}

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

# build MODULE LDFLAGS FLAGS NAME=PACKAGE... builds those of the tools that are not up to date in one call of go: what they share is
# compiled once, and while one is linked, which takes one core, the next is compiled. FLAGS are words for go build.
build() {
  local dir=$tools/$1 ldflags=$2 flags=$3 begin=$SECONDS tool
  shift 3
  local stamp=${dir##*/}_stamp names=() packages=()
  local want=${!stamp}
  for tool in "$@"; do
    if [[ ! -x $bin/${tool%%=*} || ! -f $bin/.${tool%%=*}.stamp || $(<"$bin/.${tool%%=*}.stamp") != "$want" ]]; then
      names+=("${tool%%=*}")
      packages+=("${tool#*=}")
    fi
  done
  if ((${#names[@]} == 0)); then
    return
  fi
  printf 'building %s ...\n' "${names[*]}" >&2
  out=$(mktemp -d "$bin/.build.XXXXXX")
  # shellcheck disable=SC2086 # they are words
  if ! (cd "$dir" && go build -v $flags -ldflags "$ldflags" -o "$out/" "${packages[@]}" 2>&1 >/dev/null | progress "$dir" "${packages[@]}"); then
    return 1
  fi
  for tool in "${!names[@]}"; do
    mv -f "$out/$(program "${packages[tool]}")" "$bin/${names[tool]}"
    printf '%s\n' "$want" >"$bin/.${names[tool]}.stamp"
  done
  rmdir "$out"
  out=""
  printf 'built %s in %ds (%ds in all)\n' "${names[*]}" $((SECONDS - begin)) $((SECONDS - started)) >&2
  built=$((built + ${#names[@]}))
}

# program prints what go calls the program of a package: its last word that is no version.
program() {
  local path=$1
  if [[ ${path##*/} =~ ^v[0-9]+$ ]]; then path=${path%/*}; fi
  printf '%s' "${path##*/}"
}

# progress DIR PACKAGE... reads what go build -v says, and tells every few seconds how many packages are compiled, and of how many;
# those that were compiled before are not among them. What is no name of a package is passed on.
progress() {
  local dir=$1 line count=0 told=$SECONDS all=""
  shift
  while IFS= read -r line; do
    case $line in
    'go: downloading '* | '') continue ;;
    *[[:space:]:]*) printf '%s\n' "$line" >&2; continue ;;
    esac
    count=$((count + 1))
    if ((SECONDS - told < 15)); then
      continue
    fi
    told=$SECONDS
    all=${all:-$(cd "$dir" && go list -deps "$@" 2>/dev/null | wc -l)}
    printf '  %d of %d packages (%ds in all)\n' "$count" "$all" $((SECONDS - started)) >&2
  done
}

# prefetch has what the other modules need downloaded beside the first build, which does not wait for it: a machine that downloads
# computes nothing.
prefetch() {
  (
    cd "$tools/kwok" && go list -deps sigs.k8s.io/kwok/cmd/kwok
    cd "$root" && go list -deps ./cmd/...
  ) >/dev/null 2>&1 &
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
cluster | demo)
  kwok_stamp=$(stamp "$tools/kwok")
  [[ -x $bin/kube-apiserver ]] || prefetch
  build cluster "$stamped" "" etcd=go.etcd.io/etcd/server/v3 kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver \
    kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager kubectl=k8s.io/kubernetes/cmd/kubectl
  # They share no library but Go's own: one is linked while the other is compiled.
  if [[ $what == demo ]]; then
    make -C "$root" --no-print-directory demo-programs &
    beside=$!
  fi
  build kwok '-s -w' "" kwok=sigs.k8s.io/kwok/cmd/kwok
  if [[ $what == demo ]]; then
    wait "$beside" || exit 1
    beside=""
  fi
  ;;
node)
  node_stamp=$(stamp "$tools/node")
  build cluster "$stamped" "" kubelet=k8s.io/kubernetes/cmd/kubelet
  containerd=github.com/containerd/containerd/v2
  versioned="-s -w -X $containerd/version.Version=$(version "$tools/node" "$containerd")"
  # containerd's snapshotters for btrfs and others need C, and are left out.
  build node "$versioned" '-tags no_btrfs,no_devmapper,no_zfs' containerd="$containerd/cmd/containerd" \
    containerd-shim-runc-v2="$containerd/cmd/containerd-shim-runc-v2" ctr="$containerd/cmd/ctr"
  build node '-s -w' "" ptp=github.com/containernetworking/plugins/plugins/main/ptp \
    host-local=github.com/containernetworking/plugins/plugins/ipam/host-local
  if [[ ! -x $bin/runc ]]; then
    if own=$(command -v runc); then ln -s "$own" "$bin/runc"; else runc_from_debian; fi
  fi
  ;;
operators)
  kuberay_stamp=$(stamp "$tools/operators/kuberay")
  jobset_stamp=$(stamp "$tools/operators/jobset")
  lws_stamp=$(stamp "$tools/operators/lws")
  training_stamp=$(stamp "$tools/operators/training")
  trainer_stamp=$(stamp "$tools/operators/trainer")
  build operators/kuberay '-s -w' "" operator-kuberay=github.com/ray-project/kuberay/ray-operator
  build operators/jobset '-s -w' "" operator-jobset=sigs.k8s.io/jobset
  build operators/lws '-s -w' "" operator-lws=sigs.k8s.io/lws/cmd
  build operators/training '-s -w' "" operator-training=github.com/kubeflow/training-operator/cmd/training-operator.v1
  build operators/trainer '-s -w' "" operator-trainer=github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager
  ;;
monitoring)
  monitoring_stamp=$(stamp "$tools/monitoring")
  prometheus=github.com/prometheus/prometheus
  # The module of Prometheus v3.16.0 is v0.316.0.
  IFS=. read -r _ minor patch <<<"$(version "$tools/monitoring" "$prometheus")"
  versioned="-s -w -X github.com/prometheus/common/version.Version=3.$((minor - 300)).$patch"
  build monitoring "$versioned" '-tags remove_all_sd' promtool="$prometheus/cmd/promtool" prometheus="$prometheus/cmd/prometheus"
  ;;
*)
  echo "usage: ${BASH_SOURCE[0]} [cluster|demo|node|monitoring|operators]" >&2
  exit 2
  ;;
esac

if ((built == 0)); then
  echo "bin/tools is up to date" >&2
fi

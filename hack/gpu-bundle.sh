#!/usr/bin/env bash
# Packs all that test/card needs into bin/gpu-bundle.tar.xz, for a machine with a driver of NVIDIA and without a network: unpack it there as root, and
# start run.sh. The programs in bin and bin/tools are built before (make gpu-bundle). XZ_OPT is how hard xz tries.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/gpu-bundle
mkdir -p "$bundle/tools" "$bundle/cuda/lib"

# version prints the version of module $2 that the module in directory $1 requires.
version() {
  awk -v path="$2" '$1 == path {print $2; exit} $1 == "require" && $2 == path {print $3; exit}' "$1/go.mod"
}

version=$(version "$root" k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
stamped="-s -w -X k8s.io/component-base/version.gitVersion=$version"
stamped+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"
containerd=github.com/containerd/containerd/v2
of_containerd=$(version "$root/hack/tools/node" "$containerd")

# Programs that share most of their code are one.
(cd "$root/hack/tools/bundle" && CGO_ENABLED=0 go build -ldflags "$stamped" -o "$bundle/kubernetes" ./kubernetes)
(cd "$root/hack/tools/node" && CGO_ENABLED=0 go build -tags no_btrfs,no_devmapper,no_zfs \
  -ldflags "-s -w -X $containerd/version.Version=$of_containerd" -o "$bundle/tools/containerd" ./runtime)
ln -s containerd "$bundle/tools/ctr"
for name in etcd kube-apiserver kubelet kubectl; do ln -s ../kubernetes "$bundle/tools/$name"; done
for name in gpu-scheduler card.test; do ln -s kubernetes "$bundle/$name"; done
cp -L "$bin/gpu-agent" "$bin/gpu-probe" "$bundle/"
for name in containerd-shim-runc-v2 runc ptp host-local; do cp -L "$bin/tools/$name" "$bundle/tools/"; done

# What asks the driver from inside containers needs the C library that it was linked with.
"${CC:-gcc}" -O2 -o "$bundle/cuda/cuda" "$root/test/card/probe/cuda.c" -ldl
ldconfig -p | awk '$1 ~ /^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|libgcc_s\.so\.1|ld-linux-x86-64\.so\.2)$/ && /x86-64/ && !seen[$1]++ {print $NF}' |
  while read -r library; do cp -L "$library" "$bundle/cuda/lib/"; done

cat >"$bundle/run.sh" <<'RUN'
#!/bin/sh
# Shows on this machine's card what test/card shows. Needs root and a driver of NVIDIA; changes no setting of a card. Ends within 8 minutes,
# with a table. Arguments are go test's, such as -test.run 'TestCards/inventory'. CARD_LOGS names a folder for the programs' logs.
cd "$(dirname "$0")" || exit 1
echo "card: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>&1 | head -1); kernel $(uname -r); $(date -u +%Y-%m-%d)"
./gpu-agent check || echo "gpu-agent check ends with code $?"
CARD_FILES=$PWD/cuda exec timeout 480 ./card.test -test.v -test.failfast=false -test.timeout 470s "$@"
RUN
chmod +x "$bundle/run.sh"

tar -C "$work" --owner=0 --group=0 --sort=name -cf - gpu-bundle | xz ${XZ_OPT:--9e -T2} -c >"$bin/gpu-bundle.tar.xz.new"
mv "$bin/gpu-bundle.tar.xz.new" "$bin/gpu-bundle.tar.xz"
size=$(wc -c <"$bin/gpu-bundle.tar.xz")
echo "bin/gpu-bundle.tar.xz has $size bytes" >&2
[[ $size -lt 60000000 ]] || { echo "that is more than 60 MB" >&2; exit 1; }

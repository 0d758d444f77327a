#!/usr/bin/env bash
# Makes a release in bin/release: gpuctl for every system with its manual and completions, the chart, what is in gpuctl, and
# checksums of all of it. The images are apart: make image. The Makefile sets VERSION, LDFLAGS and the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$PWD/bin/release
if [[ ! $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$ ]]; then
  echo "VERSION is $VERSION: give a semantic version, such as make release VERSION=v1.2.3, or v1.2.3-rc.1" >&2
  exit 2
fi
if [[ $VERSION != *-* ]] && ! grep -qE "^## $VERSION( |$)" CHANGELOG.md; then
  echo "CHANGELOG.md says nothing of $VERSION: make its \"## Unreleased\" a \"## $VERSION\"" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
epoch=$(git log -1 --format=%ct)

go run ./hack/man -out "$work/extra" -date "$(date -u -d "@$epoch" +%F)" -version "$VERSION"
(cd hack/tools/release && go run ./binaries -root ../../.. -extra "$work/extra" -out "$out" -version "$VERSION" -epoch "$epoch" \
  -ldflags "$LDFLAGS" -url "$RELEASE_URL" ${RELEASE:-})

# The chart installs the images of its own version, from where the release has them.
cp -r manifests/chart "$work/g8s"
sed -i "s|^  registry: .*|  registry: $REGISTRY|" "$work/g8s/values.yaml"
bin/tools/helm package "$work/g8s" --version "${VERSION#v}" --app-version "$VERSION" -d "$out" >/dev/null
(cd "$out" && sha256sum g8s-*.tgz gpu.yaml gpuctl.cdx.json >>SHA256SUMS && sha256sum --check --quiet SHA256SUMS)
echo "bin/release has $VERSION:" >&2
(cd "$out" && ls) >&2

#!/usr/bin/env bash
# Makes a release in bin/release: gpuctl for every system with its manual and completions, the chart, what is in gpuctl, a
# statement of what all of it was built of, and checksums. The images are apart: make image. The Makefile sets VERSION, LDFLAGS
# and the others.
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
if [[ -n $(git status --porcelain) ]]; then
  echo "the tree has changes that are in no commit, so that the release could not say what it is built of: commit or stash them" >&2
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

commit=$(git rev-parse HEAD)
provenance=$work/provenance
(cd hack/tools/release && go build -o "$provenance" ./provenance)
"$provenance" -dir "$out" -source "$SOURCE_URL" -commit "$commit" -build-type "$SOURCE_URL/blob/$commit/SECURITY.md" -builder "$BUILDER_ID" \
  -ldflags "$LDFLAGS" -parameter "VERSION=$VERSION" -parameter "REGISTRY=$REGISTRY" -parameter "RELEASE_URL=$RELEASE_URL" -parameter "RELEASE=${RELEASE:-}"
"$provenance" -dir "$out" -verify
(cd "$out" && sha256sum g8s-*.tgz gpu.yaml gpuctl.cdx.json provenance.intoto.json >>SHA256SUMS && sha256sum --check --quiet SHA256SUMS)
echo "bin/release has $VERSION:" >&2
(cd "$out" && ls) >&2

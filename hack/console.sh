#!/usr/bin/env bash
# Bundles the console into pkg/server/console/dist, which gpuctl-server embeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../console/build"
CGO_ENABLED=0 go run .

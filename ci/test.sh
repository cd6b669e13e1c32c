#!/bin/sh
# Every test of the repository; arguments go to pytest: ci/test.sh packages/sidecar-core -k align
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
exec ci/uv.sh run --quiet pytest "$@"

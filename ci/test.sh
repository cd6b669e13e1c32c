#!/bin/sh
# Every test of the repository, side by side; or, in one process, what arguments to pytest choose:
# ci/test.sh packages/sidecar-core -k align
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
if [ $# -eq 0 ]; then # one process more than cores: many tests wait for programs; at most 4, for the memory of Ray
    cores=$(getconf _NPROCESSORS_ONLN)
    set -- --numprocesses $((cores < 3 ? cores + 1 : 4)) --dist worksteal
fi
exec ci/uv.sh run --quiet pytest "$@"

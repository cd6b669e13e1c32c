#!/bin/sh
# The exact versions in pyproject.toml (constraint-dependencies, build-constraint-dependencies).
#   ci/pins.sh           takes the newest versions that the packages' ranges allow
#   ci/pins.sh --keep    keeps the pinned versions, adds what is new, drops what is no longer needed
#   ci/pins.sh --check   fails when the resolved set differs from the pins, or a file names a registry
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
exec ci/uv.sh run --quiet --no-project --python '>=3.11' python ci/pins.py "$@"

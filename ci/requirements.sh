#!/bin/sh
# What the images of deploy/ install besides this repository's own packages: deploy/requirements/*.txt.
#   ci/requirements.sh             writes them from the pins; what only an image has keeps its version
#   ci/requirements.sh --upgrade   takes the newest versions of that too
#   ci/requirements.sh --check     fails when a file differs from what would be written
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
exec ci/uv.sh run --quiet --no-project --python '>=3.11' python ci/requirements.py "$@"

#!/usr/bin/env bash
# Checks of the repository as a whole.
#   ci/workspace.sh [-v] [STEP…]
# Steps, all of them when none is named:
#   format lint types imports   ruff, ruff, pyright, import-linter
#   pins                        what uv resolves is what is pinned; no file names a registry
#   requirements                what the images install is exported from the pins
#   configs                     the shipped configs are valid, their JSON Schemas are current
#   reference                   docs/reference/ says what the code says
#   api                         docs/api/ says what the packages offer to Python
#   tests                       tests/: the workspace's own and the end-to-end tests
set -euo pipefail

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

steps= verbose=0
for argument in "$@"; do
    case $argument in
        -v) verbose=1 ;;
        format | lint | types | imports | pins | requirements | configs | reference | api | tests) steps="$steps $argument" ;;
        *) usage ;;
    esac
done
. "$(dirname -- "$0")/steps.sh"

check_format() { uv run --quiet ruff format --check --diff; }
check_lint() { uv run --quiet ruff check; }
check_types() { uv run --quiet pyright; }
check_imports() { uv run --quiet lint-imports; }
check_pins() { ci/pins.sh --check; }
check_requirements() { ci/requirements.sh --check; }
check_reference() { uv run --quiet python ci/reference.py --check; }
check_api() { uv run --quiet python ci/public_api.py --check; }
check_tests() { uv run --quiet pytest -q tests; }

check_configs() {
    local kind
    uv run --quiet sidecar check configs/pipelines/*.yaml
    for kind in dataset pipeline schema; do
        uv run --quiet sidecar schema --json-schema "$kind" >"$scratch/$kind.json"
        diff -u "configs/json-schema/$kind.json" "$scratch/$kind.json"
    done
}

for step in ${steps:-format lint types imports pins requirements configs reference api tests}; do
    step "workspace: $step" "check_$step"
done
finish workspace

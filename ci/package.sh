#!/usr/bin/env bash
# Every check of one package, in environments that hold only what it declares.
#   ci/package.sh NAME [-v] [STEP…]     NAME as in packages/, with or without "sidecar-"
# Steps, all of them when none is named:
#   deps     what it imports is what it declares
#   slim     installed without extras, importing it brings nothing heavy
#   tests    its tests, with its extras and test group and nothing else
#   wheel    its wheel is complete, and its tests pass on it outside the repository
#   floors   its tests on Python 3.11 with the lowest versions that it allows
set -euo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

name= steps= verbose=0
for argument in "$@"; do
    case $argument in
        -v) verbose=1 ;;
        deps | slim | tests | wheel | floors) steps="$steps $argument" ;;
        -*) usage ;;
        *) [ -z "$name" ] || usage; name=sidecar-${argument#sidecar-} ;;
    esac
done
[ -n "$name" ] || usage
. "$(dirname -- "$0")/steps.sh"
[ -f "packages/$name/pyproject.toml" ] || { echo "no packages/$name; there are: $(ls packages | tr '\n' ' ')" >&2; exit 2; }
module=${name/-/_}

only_declared() {  # uv options…, then -- command…: runs in a fresh environment of this package
    uv run --quiet --isolated --exact --no-default-groups --package "$name" "$@"
}

check_deps() {
    uv run --quiet deptry --config "packages/$name/pyproject.toml" "packages/$name/src"
}

check_slim() {
    only_declared -- python ci/slim_import.py "$module"
}

check_tests() {
    only_declared --all-extras --group test -- pytest -q "packages/$name"
}

check_wheel() {
    local dist="$scratch/dist" outside="$scratch/outside" python="$scratch/outside/venv/bin/python"
    mkdir -p "$outside"
    uv build --quiet --all-packages --out-dir "$dist" # the wheel is built from the source distribution
    uv run --quiet --no-project python ci/wheel_contents.py "packages/$name" "$dist"/"$module"-*.whl
    uv export --quiet --package "$name" --all-extras --no-default-groups --group test --no-emit-workspace \
        --no-hashes --no-header --no-annotate --output-file "$outside/requirements.txt" >/dev/null
    uv venv --quiet "$outside/venv"
    (
        cd "$outside"
        uv pip install --quiet --python "$python" --requirements requirements.txt
        # Siblings come from their wheels too, and with --no-deps nothing undeclared comes along.
        uv pip install --quiet --python "$python" --offline --find-links "$dist" "$dist"/"$module"-*.whl
        cp -R "$root/packages/$name/tests" "$outside/tests"
        # Not `python -m pytest`: that would put the tests' folder on the import path.
        venv/bin/pytest -q -p no:cacheprovider -c "$root/pyproject.toml" --rootdir "$outside" "$outside/tests"
    )
}

check_floors() {
    local copy="$scratch/floors" path
    mkdir -p "$copy"
    git ls-files -co --exclude-standard | while IFS= read -r path; do
        [ -f "$path" ] || continue
        mkdir -p "$copy/$(dirname "$path")"
        cp -p "$path" "$copy/$path"
    done
    # The exact pins would forbid the lowest versions.
    sed -i.bak '/^constraint-dependencies = \[$/,/^\]$/d' "$copy/pyproject.toml"
    (
        cd "$copy"
        lowest() { only_declared --python 3.11 --resolution lowest-direct --all-extras --group test -- "$@"; }
        lowest python ci/floors.py "packages/$name"
        lowest pytest -q "packages/$name"
    )
}

for step in ${steps:-deps slim tests wheel floors}; do
    step "$name: $step" "check_$step"
done
finish "$name"

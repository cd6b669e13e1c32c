#!/usr/bin/env bash
# Every check of one package, in environments that hold only what it declares.
#   ci/package.sh NAME [-v] [STEP…]     NAME as in packages/, with or without "sidecar-"
# Steps; without any: deps, slim, tests, wheel, floors.
#   deps      what it imports is what it declares
#   slim      installed without extras, importing it brings nothing heavy
#   tests     its tests, with its extras and test group and nothing else
#   contents  its wheel is complete, asks for nothing more than it may, and is imported outside the repository
#   wheel     the same, and its tests pass on it there
#   floors    its tests outside the repository, on its wheel and those of its siblings, on Python 3.11 with the
#             lowest versions that it allows
# SIDECAR_DIST names a folder that has all wheels and source distributions built.
set -euo pipefail

usage() { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }

name= steps= verbose=0
for argument in "$@"; do
    case $argument in
        -v) verbose=1 ;;
        deps | slim | tests | contents | wheel | floors) steps="$steps $argument" ;;
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

# Installs the wheel, with what it may need besides and its siblings' wheels, into $scratch/outside/venv.
check_contents() {
    local dist="${SIDECAR_DIST:-$scratch/dist}" outside="$scratch/outside" python="$scratch/outside/venv/bin/python"
    mkdir -p "$outside"
    [ -n "${SIDECAR_DIST:-}" ] || uv build --quiet --all-packages --out-dir "$dist" # wheels from source distributions
    uv run --quiet --no-project python ci/wheel_contents.py "packages/$name" "$dist/$module"-*.whl "$dist/$module"-*.tar.gz
    uv export --quiet --package "$name" --all-extras --no-default-groups --group test --no-emit-workspace \
        --no-hashes --no-header --no-annotate --output-file "$outside/requirements.txt" >/dev/null
    uv venv --quiet --clear "$outside/venv"
    (
        cd "$outside"
        uv pip install --quiet --python "$python" --requirements requirements.txt
        # Siblings come from their wheels too, and with --no-deps nothing undeclared comes along.
        uv pip install --quiet --python "$python" --offline --find-links "$dist" "$dist/$module"-*.whl
        "$python" "$root/ci/slim_import.py" "$module" --shared
    )
}

check_wheel() {
    check_contents
    test_outside "$scratch/outside/venv/bin/pytest"
}

# Runs the package's tests from a copy of them. Not `python -m pytest`: that would put their folder on the import path.
test_outside() { # command… that runs pytest
    local outside="$scratch/outside"
    rm -rf "$outside/tests"
    mkdir -p "$outside"
    cp -R "$root/packages/$name/tests" "$outside/tests"
    (cd "$outside" && "$@" -q -p no:cacheprovider -c "$root/pyproject.toml" --rootdir "$outside" "$outside/tests")
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
    # Not editable: the package and its siblings are built into wheels.
    lowest() {
        only_declared --project "$copy" --no-editable --python 3.11 --resolution lowest-direct --all-extras --group test \
            -- "$@"
    }
    (cd "$copy" && lowest python ci/floors.py "packages/$name")
    test_outside lowest pytest
}

for step in ${steps:-deps slim tests wheel floors}; do
    step "$name: $step" "check_$step"
done
finish "$name"

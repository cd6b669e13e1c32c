# Sourced by the scripts here: `step HEADLINE COMMAND…` prints one line, and the command's output only
# when it fails (or always with verbose=1). A failing step does not stop the ones after it.
# shellcheck shell=bash

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sidecar-ci.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
verbose=${verbose:-0}
failed=0
cd "$root" || exit 1

uv() { "$root/ci/uv.sh" "$@"; }

step() {
    local headline=$1 output="$scratch/output" started=$SECONDS status=0
    shift
    # Not `"$@" || status=$?`: behind `||` a function goes on after a command of its own fails.
    set +e
    if [ "$verbose" = 1 ]; then
        printf '== %s\n' "$headline"
        : >"$output"
        (set -e; "$@")
        status=$?
    else
        (set -e; "$@") >"$output" 2>&1
        status=$?
    fi
    set -e
    if [ "$status" = 0 ]; then
        printf 'ok    %s (%ss)%s\n' "$headline" $((SECONDS - started)) "$(test_counts "$output")"
        return 0
    fi
    [ "$verbose" = 1 ] || cat "$output"
    printf 'FAIL  %s (%ss, exit %s)\n' "$headline" $((SECONDS - started)) "$status"
    failed=1
}

# The line of counts that pytest ends with, without its decoration.
test_counts() {
    if [ -f "$1" ]; then
        tail -n 1 "$1" | sed -n 's/^[= ]*\([0-9][0-9]* [a-z]*[ ,].*\) in [0-9.]*s.*$/: \1/p'
    fi
}

finish() {
    if [ "$failed" != 0 ]; then
        printf 'FAIL  %s\n' "$1"
        exit 1
    fi
}

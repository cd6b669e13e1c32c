#!/bin/sh
# Runs uv with the given arguments. Where uv is missing or too old, a copy of it is first put with pip
# into .uv/ beside this repository's README; nothing else on the machine changes.
# SIDECAR_OWN_UV=1 takes that version alone, even where another uv is installed.
set -eu

uv_version=0.13.9
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
own="$root/.uv/$uv_version"

# What pip was told about mirrors and certificates holds for uv too; proxies it reads by itself.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"; fi
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"; fi

say() { printf 'sidecar: %s\n' "$*" >&2; }

fetch_uv() {
    for python in python3 python; do
        if "$python" -m pip --version >/dev/null 2>&1; then
            say "getting uv $uv_version with pip into $own (once)"
            part="$own.part.$$"
            if PIP_USER=0 PIP_ROOT_USER_ACTION=ignore PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 \
                "$python" -m pip install -qq --no-input --target "$part" "uv==$uv_version" >&2; then
                rm -rf "$own"
                mv "$part" "$own"
                return
            fi
            rm -rf "$part"
            say "pip could not install uv $uv_version: see its message above"
            say "fix: install uv yourself and put it on PATH, or set pip's proxy and index options"
            exit 1
        fi
    done
    say "neither uv nor a python3 with pip was found on PATH"
    say "fix: install Python 3.11 to 3.13 with pip (or uv), and run this again"
    exit 1
}

# Any uv command reads required-version from pyproject.toml; an uv that is too old refuses here.
if [ "${SIDECAR_OWN_UV:-0}" = 0 ]; then
    if uv --project "$root" cache dir >/dev/null 2>&1; then exec uv "$@"; fi
elif [ "$(uv --version 2>/dev/null | cut -d' ' -f2)" = "$uv_version" ]; then
    exec uv "$@"
fi
[ -x "$own/bin/uv" ] || fetch_uv
PATH="$own/bin:$PATH"
export PATH
exec "$own/bin/uv" "$@"

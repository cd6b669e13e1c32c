#!/usr/bin/env bash
# Builds an image, runs its smoke job in it, pushes it, and prints the reference to put in a job.
#   deploy/build_and_push.sh [--image cpu|resize|filters] [--ray] [--base IMAGE] [--no-push] TAG
# TAG is the whole name: registry.example.com/team/sidecar-resize:2026-11-29
#   --image    which Dockerfile; default cpu, which holds everything
#   --ray      with Ray, for clusters (cpu always has it)
#   --base     another base image, with Python 3.11 to 3.13, venv and useradd
#   --no-push  build and try only
# It uses docker, podman or buildah, whichever is there first; SIDECAR_BUILDER names another order or path.
set -euo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
say() { printf '%s\n' "$*" >&2; }

image=cpu ray='' base='' push=1 tag=''
while [ $# -gt 0 ]; do
    case $1 in
        --image) [ $# -gt 1 ] || usage; image=$2; shift ;;
        --ray) ray=1 ;;
        --base) [ $# -gt 1 ] || usage; base=$2; shift ;;
        --no-push) push=0 ;;
        -*) usage ;;
        *) [ -z "$tag" ] || usage; tag=$1 ;;
    esac
    shift
done
[ -n "$tag" ] || usage
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
[ -f "deploy/Dockerfile.$image" ] || { say "no deploy/Dockerfile.$image; there are:" deploy/Dockerfile.*; exit 2; }

builder=''
for candidate in ${SIDECAR_BUILDER:-docker podman buildah}; do
    if command -v "$candidate" >/dev/null && "$candidate" info >/dev/null 2>&1; then builder=$candidate; break; fi
done
[ -n "$builder" ] || { say "no docker, podman or buildah that answers"; say "fix: start one, or SIDECAR_BUILDER=…"; exit 2; }

arguments=(-f "deploy/Dockerfile.$image" -t "$tag")
[ -z "$ray" ] || arguments+=(--build-arg RAY=1)
[ -z "$base" ] || arguments+=(--build-arg "BASE_IMAGE=$base")
[ -z "${PIP_INDEX_URL:-}" ] || arguments+=(--build-arg "PIP_INDEX_URL=$PIP_INDEX_URL")

run_smoke() {
    case $builder in
        *buildah)
            local container status=0
            container=$("$builder" from --pull-never "$tag")
            "$builder" run ${SIDECAR_BUILDER_OPTIONS:-} --user 10001 "$container" -- python - "$image" <deploy/smoke.py || status=$?
            "$builder" rm "$container" >/dev/null
            return "$status"
            ;;
        *) "$builder" run --rm -i --entrypoint python "$tag" - "$image" <deploy/smoke.py ;;
    esac
}

say "building $tag with $builder"
# SIDECAR_BUILDER_OPTIONS: what this machine needs besides, such as --network host or a volume with certificates
"$builder" build ${SIDECAR_BUILDER_OPTIONS:-} "${arguments[@]}" . >&2
say "running the smoke job in it"
run_smoke >&2
[ "$push" = 1 ] || { printf '%s\n' "$tag"; exit 0; }
say "pushing it"
name=${tag##*/}
repository="${tag%"$name"}${name%%:*}"
case $builder in
    *docker)
        "$builder" push "$tag" >&2
        # the same image may have been pushed to other places before
        digests=$("$builder" inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$tag")
        reference=$tag # where docker calls it otherwise: docker.io/… is left out
        while read -r each; do
            case $each in "$repository@"*) reference=$each ;; esac
        done <<<"$digests"
        ;;
    *)
        digest=$(mktemp)
        trap 'rm -f "$digest"' EXIT
        "$builder" push --digestfile "$digest" "$tag" >&2
        reference="$repository@$(cat "$digest")"
        ;;
esac
printf '%s\n' "$reference"

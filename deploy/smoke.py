"""A small real job inside an image, or in an environment like it. Nothing of this file is in the image.

    docker run --rm -i --entrypoint python IMAGE - resize <deploy/smoke.py

It makes a main dataset, runs what the image is for, verifies the result, and looks at it.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SHARDS, ROWS = 2, 6
BROKEN = 2  # the row of each shard whose file is none


def main() -> int:
    """Runs the job of the image that is named on the command line."""
    jobs = {"resize": resize, "filters": filters, "cpu": cpu}
    job = jobs[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        make_main(Path(folder) / "main")
        job(Path(folder))
    print(f"smoke job of {sys.argv[1]}: ok")
    return 0


def make_main(main_folder: Path) -> None:
    """Writes a main dataset of pictures in several formats, one of them broken in each shard."""
    main_folder.mkdir()
    for shard in range(SHARDS):
        keys, images = [], []
        for row in range(ROWS):
            picture = Image.linear_gradient("L").convert("RGB").resize((700 + 90 * row, 900 - 40 * shard))
            data = io.BytesIO()
            picture.save(data, ("JPEG", "PNG", "WEBP")[row % 3])
            keys.append(f"{shard}-{row}")
            images.append(b"<html>not a picture</html>" if row == BROKEN else data.getvalue())
        pq.write_table(pa.table({"image_key": keys, "image": images}), main_folder / f"part-{shard:05}.parquet")


def resize(folder: Path) -> None:
    """Builds both resized datasets with the pipeline of the image, and verifies them."""
    targets = {512: folder / "r512", 1024: folder / "r1024"}
    outputs = [word for side, prefix in targets.items() for word in ("--output", f"{side}={prefix}")]
    report = sidecar_run(pipeline("resized"), "--set", f"dataset.main_prefix={folder}/main", *outputs)
    check("rows", report["rows"], SHARDS * ROWS)
    verified = [word for side, prefix in targets.items() for word in ("--target", f"{side}={prefix}")]
    found = sidecar_run("verify-resized", "--main-prefix", f"{folder}/main", *verified, "--all")
    for side, prefix in targets.items():
        check(f"valid rows of {side}", found["targets"][str(side)]["valid"], SHARDS * (ROWS - 1))
        check("SUCCESS", (prefix / "_sidecar" / "SUCCESS").is_file(), True)
        images = pq.read_table(prefix / "part-00000.parquet", columns=["image"]).column("image")
        check(f"nulls of {side}", images.null_count, 1)
        width, height = Image.open(io.BytesIO(images[0].as_py())).size
        check(f"a picture of {side}", abs(width * height / side**2 - 1) < 0.1, True)
    again = sidecar_run(pipeline("resized"), "--set", f"dataset.main_prefix={folder}/main", *outputs, "--skip-existing")
    check("shards skipped by a second run", again["shards"]["skipped"], SHARDS)


def filters(folder: Path) -> None:
    """Computes the standard filters with the pipeline of the image, and verifies the sidecar."""
    given = ("--set", f"dataset.main_prefix={folder}/main", "--output-prefix", str(folder / "out"))
    report = sidecar_run(pipeline("filters_v1"), *given)
    check("rows", report["rows"], SHARDS * ROWS)
    sidecar_run("verify", pipeline("filters_v1"), *given, "--all")
    luma = pq.read_table(folder / "out" / "part-00001.parquet").column("filter_luma").to_pylist()
    measured = [row is not None and row["mean"] is not None for row in luma]
    check("measured rows", measured, [row != BROKEN for row in range(ROWS)])


def cpu(folder: Path) -> None:
    """Does what both slim images do, and lets `sidecar` say what it has."""
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    for part, job in (("one", resize), ("two", filters)):
        shutil.copytree(folder / "main", folder / part / "main")
        job(folder / part)
    ops = json.loads(run("sidecar", "ops", "--json"))
    check("ops", {"compute_filters", "resize_image", "join_from_parquet"} <= {op["name"] for op in ops["ops"]}, True)


def pipeline(name: str) -> str:
    """Returns the path of a pipeline, in the working folder of the image."""
    return f"configs/pipelines/{name}.yaml"


def sidecar_run(*arguments: str) -> dict:
    """Returns what `sidecar-run` says of a job that went well."""
    return json.loads(run("sidecar-run", *arguments, "--json"))


def run(*command: str) -> str:
    """Returns what a program wrote to stdout."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}\n{result.stdout}")
    return result.stdout


def check(what: str, found: object, expected: object) -> None:
    """Ends the job when something is not as it must be."""
    if found != expected:
        sys.exit(f"{what}: {found!r}, expected {expected!r}")


if __name__ == "__main__":
    sys.exit(main())

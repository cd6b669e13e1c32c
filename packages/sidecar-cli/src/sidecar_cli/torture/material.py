"""The dataset of a torture: good pictures, malformed ones, and rows on which an op aborts, hangs or eats memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.reasons import Reason

from sidecar_cli.demo_pictures import PictureRecipe, draw_picture

ROW_TIMEOUT_S = 3.0
_ROW_DELAY_S = 0.04  # so that a driver can be killed in the middle
_SHARDS = 6
_GOOD_ROWS = 12
_HTML = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n"
_DRAW_TIMEOUT_S = 60.0

PIPELINE = f"""\
# Real ops on malformed pictures, and one whose rows abort, hang and eat memory when their bytes say so.
dataset: torture
plugins: [sidecar_core.testing.ops]
operations:
  - type: resize_image
    targets: [{{area: 512}}]
  - type: compute_filters
    filters: [luma, clarity, exif_metadata]
  - type: measure_bytes
    row_timeout_s: {ROW_TIMEOUT_S}
    delay_s: {_ROW_DELAY_S}
"""
_DATASET = """\
name: torture
main_prefix: ../main/
sidecar_prefix: ../sidecar/
key_column: image_key
image_column: image
"""
_GOOD = (
    PictureRecipe(160, 120, "JPEG"),
    PictureRecipe(120, 160, "PNG", mode="RGBA"),
    PictureRecipe(128, 128, "WEBP"),
    PictureRecipe(160, 120, "JPEG", orientation=6),
)
_MALFORMED = {
    "truncated JPEG": PictureRecipe(300, 200, "JPEG", damage="truncated"),
    "truncated PNG": PictureRecipe(300, 200, "PNG", damage="truncated"),
    "PNG that declares 30,000 x 30,000 px": PictureRecipe(160, 120, "PNG", damage="bomb_header"),
    "APNG with a damaged frame": PictureRecipe(160, 120, "PNG", frames=3, damage="apng_frame"),
    "JPEG with garbage EXIF": PictureRecipe(160, 120, "JPEG", damage="garbage_exif"),
}
_POISON = {
    "aborts": (b"!abort", Reason.CRASHED),
    "segfaults": (b"!segv", Reason.CRASHED),
    "kills its process": (b"!kill", Reason.CRASHED),
    "hangs": (b"!hang", Reason.TIMEOUT),
    "eats memory": (b"!eat", Reason.OUT_OF_MEMORY),
}


@dataclass(frozen=True)
class Row:
    """A row of the dataset, and what a run must make of it.

    Attributes:
        kind: what it is, for people.
        image: its bytes, or None.
        op_reason: why `measure_bytes` gives no value; None when it must give the length.
        picture: whether it is a whole picture, which every op must be able to use; None where either is right.
    """

    kind: str
    image: bytes | None
    op_reason: str | None = None
    picture: bool | None = False


def make_material(folder: Path) -> dict[str, list[Row]]:
    """Draws the pictures in isolated children and writes dataset, pipeline and main shards below a folder.

    Returns:
        The rows of each shard by its rel_path.

    Raises:
        WorkerCallFailed: a picture could not be drawn.
    """
    recipes = [*_GOOD, *_MALFORMED.values()]
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        drawn = [_drawn(each) for each in pool.map_rows(draw_picture, recipes, timeout_s=_DRAW_TIMEOUT_S)]
    good = [Row("whole picture", image, picture=True) for image in drawn[: len(_GOOD)]]
    hard = [
        *(_malformed(kind, image) for kind, image in zip(_MALFORMED, drawn[len(_GOOD) :], strict=True)),
        Row("HTML page saved as .jpg", _HTML),
        Row("random bytes", bytes(range(256)) * 4),
        Row("empty file", b""),
        Row("null", None, Reason.MISSING),
        *(Row(f"op that {kind}", image, reason) for kind, (image, reason) in _POISON.items()),
    ]
    rows: dict[str, list[Row]] = {}
    for number in range(_SHARDS):
        shard = [good[row % len(good)] for row in range(_GOOD_ROWS)]
        for position, row in enumerate(hard[number::3] if number < 3 else ()):
            shard.insert(2 * position + 1, row)  # good neighbours before and after
        rows[f"part-{number:05d}.parquet"] = shard
    _write(folder, rows)
    return rows


def _malformed(kind: str, image: bytes) -> Row:
    return Row(kind, image, picture=None if "garbage EXIF" in kind or "APNG" in kind else False)


def _drawn(picture: object) -> bytes:
    if isinstance(picture, WorkerCallFailed):
        raise picture
    return bytes(picture)  # pyright: ignore[reportArgumentType] - draw_picture returns bytes


def _write(folder: Path, rows: dict[str, list[Row]]) -> None:
    for name in ("main", "pipelines", "datasets"):
        (folder / name).mkdir()
    (folder / "datasets/torture.yaml").write_text(_DATASET, encoding="utf-8")
    (folder / "pipelines/torture.yaml").write_text(PIPELINE, encoding="utf-8")
    for rel_path, shard in rows.items():
        keys = [f"{rel_path}/{number}" for number in range(len(shard))]
        images = pa.array([row.image for row in shard], pa.binary())
        pq.write_table(pa.table({"image_key": keys, "image": images}), folder / "main" / rel_path)

"""A dataset as dirty as text gets, and a sidecar of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo_pictures import PictureRecipe, draw_picture
from sidecar_core.align import key_digest
from sidecar_core.footer import FooterInfo, InputVersion
from sidecar_core.isolation import IsolationOptions, IsolationPool

HOSTILE = (
    "<script>window.hacked=1</script>",
    "\"'><img src=x onerror=window.hacked=1>",
    "javascript:window.hacked=1",
    "\u202egpj.exe",
    "{{ 7*7 }}{% raw %}",
    "x" * 10_000,
    "]]>--><svg/onload=window.hacked=1>",
    "nul\0tab\tline\n</style></title></script>",
)
MEASURE = pa.struct([("mean", pa.float32()), ("level", pa.int32()), ("dhash", pa.int64())])
STATUS = pa.struct(
    [
        ("status", pa.string()),
        ("failed", pa.list_(pa.struct([("filter", pa.string()), ("reason", pa.string())]))),
        ("detail", pa.string()),
    ]
)


@pytest.fixture(scope="session")
def pictures():
    """Three small pictures, one of them cut short."""
    whole = PictureRecipe(60, 40, "JPEG")
    recipes = [
        whole,
        PictureRecipe(40, 60, "PNG", tint=(20, 200, 40)),
        PictureRecipe(600, 400, "JPEG", damage="truncated"),
    ]
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        return [bytes(each) for each in pool.map_rows(draw_picture, recipes)]


@dataclass
class Dirty:
    """A main dataset and a sidecar of it, in two shards."""

    root: Path
    main: Path
    out: Path
    tables: list[pa.Table] = field(default_factory=list)

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(self.tables)

    def finite(self, name: str) -> list[float]:
        values = pa.compute.struct_field(self.table["filter_x"].combine_chunks(), name).to_pylist()
        return [value for value in values if value is not None and math.isfinite(value)]


@pytest.fixture(scope="session")
def make_dirty(pictures):
    """Returns a function that makes the dirty dataset below a folder."""
    return lambda root: write_dirty(root, pictures)


@pytest.fixture
def dirty(tmp_path, make_dirty):
    return make_dirty(tmp_path)


def write_dirty(root, pictures):
    """Two shards of 12 rows, every third of them invalid, with hostile keys, details, captions and manifests."""
    made = Dirty(root, root / "main <b>ü", root / "out <i>'\"")
    for number in range(2):
        rel_path = f"deep <x>/part-{number}.parquet"
        rows = range(12)
        keys = [f"{number}-{row} {HOSTILE[row % len(HOSTILE)]}" for row in rows]
        bad = [row % 3 == 2 for row in rows]
        images = [pictures[2] if each else pictures[row % 2] for row, each in zip(rows, bad, strict=True)]
        images[2] = b"<html><script>window.hacked=1</script>"
        images[5] = None
        write(made.main / rel_path, pa.table({"image_key": keys, "image": pa.array(images, pa.binary())}))
        info = (made.main / rel_path).stat()
        table = pa.table(
            {
                "image_key": keys,
                "caption": [HOSTILE[(row + number) % len(HOSTILE)] if row % 4 else None for row in rows],
                "filter_x": pa.array(
                    [
                        {"mean": None, "level": None, "dhash": None}
                        if each
                        else {"mean": special(row + 12 * number), "level": row % 3, "dhash": row * 2**50}
                        for row, each in zip(rows, bad, strict=True)
                    ],
                    MEASURE,
                ),
                "filter_status": pa.array(
                    [
                        {
                            "status": HOSTILE[0] if each and row == 11 else "truncated" if each else "ok",
                            "failed": [{"filter": HOSTILE[1], "reason": "truncated"}] if each else [],
                            "detail": HOSTILE[row % len(HOSTILE)] if each else None,
                        }
                        for row, each in zip(rows, bad, strict=True)
                    ],
                    STATUS,
                ),
            }
        )
        digest = key_digest(table["image_key"])
        footer = FooterInfo(
            fingerprint="f" * 64,
            run_id="20260101T000000Z-1",
            version="0.1.0",
            inputs=(InputVersion("main", f"{made.main}/{rel_path}", info.st_size, None, info.st_mtime_ns),),
            rows=12,
            key_digest=digest,
            key_digest_row_groups=(digest,),
            invalid={"filter_x": {"truncated": 3, HOSTILE[0]: 1}},
        )
        write(made.out / rel_path, table.replace_schema_metadata(footer.to_metadata()))
        made.tables.append(table)
    write_run_folder(made.out / "_sidecar")
    return made


def special(row):
    return {3: math.nan, 4: math.inf, 6: -1e6}.get(row, row / 7)


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=5)


def write_run_folder(folder):
    """Manifests that hold anything JSON can, halves of surrogate pairs too."""
    (folder / "runs").mkdir(parents=True)
    for number, state in enumerate(("interrupted", "done")):
        manifest = {
            "run_id": f"2026010{number + 1}T000000Z-{HOSTILE[0]}",
            "outcome": state,
            "started": f"2026-01-0{number + 1}T00:00:00+00:00",
            "written": f"2026-01-0{number + 1}T00:10:00+00:00",
            "elapsed_s": 600.5,
            "command": ["sidecar", "run", HOSTILE[1], "\ud800"],
            "dataset": {"name": f"data {HOSTILE[0]}", "key_column": "image_key", "image_column": "image"},
            "pipeline": {"operations": [{"type": HOSTILE[6]}], "\ud800": "\u202e"},
            "runtime": {"name": f"local {HOSTILE[1]}"},
            "shards": {"total": 2, "done": 1 + number, "skipped": 0, "failed": 1 - number},
            "rows": 24,
            "rows_per_s": 0.04,
            "invalid": {HOSTILE[0]: 8},
            "packages": {"pyarrow": HOSTILE[0]},
        }
        name = f"2026010{number + 1}T000000Z.json"
        (folder / "runs" / name).write_text(json.dumps(manifest), encoding="utf-8")
    failed = {"shard": HOSTILE[0], "error_type": "X\ud800", "error": HOSTILE[1], "attempts": HOSTILE[2]}
    (folder / "failed_shards.jsonl").write_text(json.dumps(failed) + "\n[]\n", encoding="utf-8")

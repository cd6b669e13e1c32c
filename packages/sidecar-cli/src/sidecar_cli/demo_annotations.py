"""What the demo knows about its pictures from elsewhere: an OCR sidecar, and tables of captions by key."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.dataset import StorageOptions
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import open_storage

from sidecar_cli.demo_data import SEED, DemoRow, demo_rows
from sidecar_cli.pack import KEY_COLUMN

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar_core.storage import Storage

DATASET = """\
# The demo's main dataset, for one sidecar that holds all that is known about each picture.
name: annotated
main_prefix: ../../main/
sidecar_prefix: ../../annotated/
key_column: image_key
image_column: image
schema_extensions:
  - {name: filter_luma, type_ref: filter_luma_v1}
  - {name: filter_clarity, type_ref: filter_clarity_v1}
  - {name: ocr_text, type: string}
  - {name: ocr_confidence, type: float32}
  - {name: rating, type: int8}
"""
PIPELINE = """\
# Measures, another sidecar's OCR, a table's ratings, and the best caption, in one sidecar.
dataset: annotated
operations:
  - type: extract_scaffold
  - type: compute_filters
    filters: [luma, clarity]
  - type: merge_from_sidecar                       # row by row: the same shards, the same keys
    source_prefix: ../../ocr/
    columns: [ocr_text, ocr_confidence]
  - type: join_from_parquet                        # by key: another order, some of the keys
    source: ../../tables/editors.parquet
    source_key_column: id
    columns: [rating]
  - type: recaption_merge
    sources:                                       # by priority; then the caption of the main dataset
      - {name: editors, source: ../../tables/editors.parquet, key_column: id, text_column: text}
      - {name: model, source: ../../tables/model/, text_column: caption}
    existing_name: main
"""
_COLUMNS = ("ocr_text", "ocr_confidence", "rating", "caption", "caption_source")


def make_annotations(folder: Path, main: Storage) -> None:
    """Writes the OCR sidecar, aligned with the main shards, and the tables, in other orders; what is there stays.

    Args:
        folder: the demo's folder; gets `ocr/` and `tables/`.
        main: the main dataset.
    """
    rows = {row.key: row for row in demo_rows()}
    ocr = open_storage(f"{folder}/ocr/", StorageOptions())
    for info in main.list_shards():
        with open_parquet(main, info.rel_path) as file:
            keys: list[Any] = file.read(columns=[KEY_COLUMN]).column(0).to_pylist()
        found = [_ocr(rows[key]) for key in keys]
        shard = {
            KEY_COLUMN: pa.array(keys, pa.string()),
            "ocr_text": pa.array([text for text, _ in found], pa.string()),
            "ocr_confidence": pa.array([confidence for _, confidence in found], pa.float32()),
        }
        _write(ocr, info.rel_path, pa.table(shard))
    tables = open_storage(f"{folder}/tables/", StorageOptions())
    edited = [(key, text, rating) for key, (text, rating) in _by_editors().items()]
    edited.append(("elsewhere/of another dataset.jpg", "A picture that is not in this dataset.", 5))
    Random(SEED).shuffle(edited)
    editors = {
        "id": pa.array([key for key, _, _ in edited], pa.large_string()),
        "text": pa.array([text for _, text, _ in edited], pa.large_string()),
        "rating": pa.array([rating for _, _, rating in edited], pa.int64()),
    }
    _write(tables, "editors.parquet", pa.table(editors))
    said = list(_by_model().items())[::-1]
    for number, part in enumerate((said[: len(said) // 3], said[len(said) // 3 :])):
        model = {
            KEY_COLUMN: pa.array([key for key, _ in part], pa.string()),
            "caption": pa.array([text for _, text in part], pa.string()),
        }
        _write(tables, f"model/part-{number}.parquet", pa.table(model))


def find_annotation_surprises(output: Storage) -> list[str]:
    """Returns one sentence for each row of the annotated sidecar that is not what a plain loop says."""
    found: dict[str, dict[str, object]] = {}
    for info in output.list_shards():
        with open_parquet(output, info.rel_path) as file:
            for row in file.read(columns=[KEY_COLUMN, *_COLUMNS]).to_pylist():
                found[row.pop(KEY_COLUMN)] = row
    editors, model = _by_editors(), _by_model()
    surprises: list[str] = []
    for row in demo_rows():
        text, rating = editors.get(row.key, (None, None))
        candidates = [("editors", text), ("model", model.get(row.key)), ("main", row.caption)]
        source, caption = next(((name, said) for name, said in candidates if said and said.strip()), (None, None))
        expected = dict(zip(_COLUMNS, (*_ocr(row), rating, caption, source), strict=True))
        actual = found.get(row.key)
        if actual is None:
            surprises.append(f"{output.prefix}: {row.key} is no row of it")
            continue
        surprises += [
            f"{output.prefix}: {column} of {row.key} is {actual[column]!r}, and must be {value!r}"
            for column, value in expected.items()
            if actual[column] != value
        ]
    return surprises


def _ocr(row: DemoRow) -> tuple[str | None, float | None]:
    """What text reading found: nothing in what cannot be decoded."""
    if row.recipe is None or row.recipe.damage:
        return None, None
    return f"{len(row.recipe.shapes)} × {row.kind}", len(row.recipe.shapes) / 8  # eighths are exact in float32


def _by_editors() -> dict[str, tuple[str | None, int]]:
    """Text and rating of a third of the rows; some texts are blank."""
    texts = {0: "  ", 1: None}
    return {
        row.key: (texts.get(number % 7, f"Seen by an editor: {row.kind}."), 1 + number % 5)
        for number, row in enumerate(demo_rows()[::3])
    }


def _by_model() -> dict[str, str]:
    """Captions of half of the rows."""
    return {row.key: f"A model's words for {row.kind}." for row in demo_rows()[1::2]}


def _write(storage: Storage, rel_path: str, table: pa.Table) -> None:
    if storage.stat(rel_path) is None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        storage.write_bytes(rel_path, sink.getvalue().to_pybytes())

"""What a report says of the last verifier."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.report.history import read_verdict
from sidecar_core.storage import open_storage
from sidecar_runtimes.verify import verify_dataset


@pytest.mark.parametrize(("shards", "words"), [(1, ": its one shard, 2 rows."), (2, ": all 2 shards, 4 rows.")])
def test_what_was_verified_is_counted_as_people_count(tmp_path, shards, words):
    for folder in ("main", "out"):
        (tmp_path / folder).mkdir()
        for shard in range(shards):
            keys = [f"{shard}-{row}" for row in range(2)]
            pq.write_table(pa.table({"image_key": keys, "score": [1, 2]}), tmp_path / folder / f"{shard}.parquet")
    out = open_storage(f"{tmp_path}/out/")
    verify_dataset(open_storage(f"{tmp_path}/main/"), out, key_column="image_key")
    verdict = read_verdict(out, out.list_shards())
    assert verdict.words.endswith(words)

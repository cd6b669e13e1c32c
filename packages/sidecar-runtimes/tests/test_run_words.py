"""What a run did, in words."""

from __future__ import annotations

from sidecar_core.errors import OpError
from sidecar_core.outcome import ShardReport
from sidecar_runtimes.run_words import run_view
from sidecar_runtimes.shard_loop import RunReport
from sidecar_runtimes.text_view import plain_text


def test_a_message_of_several_lines_stays_in_its_row():
    error = str(OpError("a.parquet: op 'x' returned list", "a pyarrow.Table", "mend it"))
    assert "\n" in error
    failed = ShardReport("a.parquet", "failed", error=error, error_type="OpError", attempts=2)
    shards = {"done": 0, "skipped": 0, "failed": 1, "not_reached": 0}
    report = RunReport("1", {"sidecar": "/out/"}, shards, 0, {}, [failed], None, 1.0)
    lines = plain_text(run_view(report)).splitlines()
    row = lines[lines.index("Failed shards") + 2]
    said = "a.parquet: op 'x' returned list; expected: a pyarrow.Table; fix: mend it"
    assert " ".join(row.split()) == f"a.parquet OpError {said} 2"

"""Runs start only on resized datasets that have been proven as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.errors import RefusedError
from sidecar_core.proof import compare_listings, write_receipt
from sidecar_core.storage import open_storage
from sidecar_resize.verify import VERIFIER, VerifyResizedReport

SHARD = "a b/part-0.parquet"
SIDES = (512, 1024)
TEXT = '{"objects": [{"label": "a", "box_2d": [100, 200, 300, 400]}]}'


def write_receipt_of(described, side, *, passed=True, all_shards=True, of="main"):
    main, output = open_storage(f"{described.folder}/{of}/"), open_storage(described.resized[side])
    listings = compare_listings(main, output)
    report = VerifyResizedReport(
        *(main.prefix, output.prefix, len(listings.main), 1, len(listings.output), 1),
        *(1, all_shards, 8, 8, 8, {}, {}, () if passed else (object(),), 0),
    )
    write_receipt(output, VERIFIER, report, listings, problems=[] if passed else ["row 3: no picture"])


def start(described, **params):
    pipeline = described.pipeline(**params)
    return pipeline.operations[-1].check_start(pipeline.dataset, open_storage)


def test_a_run_starts_when_both_receipts_pass(described):
    described.fill([TEXT])
    for side in SIDES:
        write_receipt_of(described, side)
    assert list(start(described)) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda _: None, r"resized 1024/ has no receipt of verify-resized"),
        (lambda described: write_receipt_of(described, 1024, passed=False), r"says that it failed: row 3: no picture"),
        (lambda described: write_receipt_of(described, 1024, all_shards=False), r"covers 1 of 1 shard\n"),
        (
            lambda described: (
                described.write("other", pa.table({"image_key": ["a"]})),
                write_receipt_of(described, 1024, of="other"),
            ),
            r"is about another main dataset, .*/other/",
        ),
        (
            lambda described: (write_receipt_of(described, 1024), described.fill([TEXT] * 3, rel_path="later.parquet")),
            r"is of other shards than are there now, 2 shards",
        ),
        (
            lambda described: (
                (described.folder / "resized 1024/_sidecar").mkdir()
                or (described.folder / "resized 1024/_sidecar/verify-resized.json").write_text("{")
            ),
            r"has no receipt",
        ),
    ],
    ids=["missing", "failed", "sampled", "of another main", "stale", "unreadable"],
)
def test_a_run_is_refused_without_a_passing_receipt(described, spoil, said):
    described.fill([TEXT])
    spoil(described)
    write_receipt_of(described, 512)
    with pytest.raises(RefusedError, match=said) as refused:
        start(described)
    assert f"1024={described.resized[1024]}" in refused.value.fix
    assert "512=" not in refused.value.fix
    assert refused.value.fix.startswith("sidecar verify-resized --main-prefix ")
    assert refused.value.fix.endswith(" --all")
    remarks = list(start(described, allow_unverified=True))
    assert len(remarks) == 1
    assert remarks[0].startswith("allow_unverified: ")


def test_the_command_that_is_named_proves_datasets_with_other_audit_columns(described):
    described.fill([TEXT])
    with pytest.raises(RefusedError) as refused:
        start(described, audit_prefixes={1024: "big one"})
    first, second = refused.value.fix.split(" && ")
    assert first.endswith(f"--target '512={described.resized[512]}' --image-column image --all")
    assert second.endswith(
        f"--target '1024={described.resized[1024]}' --image-column image --audit-prefix 'big one' --all"
    )


def test_both_refusals_are_told_at_once_and_an_empty_dataset_is_one(described):
    with pytest.raises(RefusedError, match=r"512: no shards at .*; 1024: no shards at "):
        start(described)


def test_a_run_that_rewrites_a_shard_makes_the_receipt_stale(described):
    described.fill([TEXT])
    for side in SIDES:
        write_receipt_of(described, side)
    (described.folder / "resized 512" / SHARD).unlink()
    described.fill([TEXT + " "])
    with pytest.raises(RefusedError, match=r"512: .*is of other shards"):
        start(described)

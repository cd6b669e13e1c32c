"""What `sidecar verify-resized` verifies, and how it words the findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.storage import normalise_prefix, open_storage
from sidecar_resize.row_checks import ResizeRules
from sidecar_resize.shard_checks import ResizedColumns, Sample
from sidecar_resize.verify import VerifyResizedReport, verify_resized

from sidecar_cli.output import Block, Facts, Table
from sidecar_cli.verifying import verdict


def verify_targets(
    main_prefix: str, targets: Mapping[int, str], options: Mapping[str, Any]
) -> dict[int, VerifyResizedReport]:
    """Verifies each resized dataset of a main dataset; returns the reports by side."""
    main = open_storage(main_prefix, StorageOptions())
    pool = IsolationOptions() if options["workers"] is None else IsolationOptions(workers=options["workers"])
    flags = {"patch": "patch_size", "output_format": "output_format", "max_crop_loss": "max_crop_loss"}
    given = {name: options[flag] for name, flag in flags.items() if options[flag] is not None}
    everything = options["all"]
    sample = Sample(
        shards=None if everything else options["sample"],
        rows=None if everything else options["sample_rows"],
        seed=options["seed"],
    )
    with IsolationPool(pool) as isolation:
        return {
            side: verify_resized(
                main,
                open_storage(normalise_prefix(prefix), StorageOptions()),
                columns=ResizedColumns(options["key_column"], options["image_column"], options["audit_prefix"]),
                rules=ResizeRules(area_px=side * side, **given),
                isolation=isolation,
                sample=sample,
                subprefix=options["input_subprefix"],
            )
            for side, prefix in targets.items()
        }


def resized_view(side: int, report: VerifyResizedReport, *, sampled: bool) -> list[Block]:
    """Returns the findings for people; the last line says whether all is well."""
    main = f"{report.main_prefix}  ({report.main_shards:,} shards, {report.main_bytes:,} bytes)"
    output = f"{report.output_prefix}  ({report.output_shards:,} shards, {report.output_bytes:,} bytes)"
    checked = f"{report.checked_shards:,} shards, {report.rows:,} rows, {report.checked_rows:,} pictures"
    view: list[Block] = [
        Facts(
            [
                ("main dataset", main),
                (f"{side} dataset", output),
                ("checked", checked),
                ("valid rows", report.valid),
                ("invalid rows", sum(report.invalid.values())),
            ]
        )
    ]
    if report.invalid:
        rows = [
            (reason, count, "; ".join(f"{each.rel_path} row {each.row}" for each in report.examples.get(reason, ())))
            for reason, count in sorted(report.invalid.items(), key=lambda item: (-item[1], item[0]))
        ]
        view.append(Table(("reason", "rows", "examples"), rows))
    return [*view, *verdict(report, sampled=sampled)]

"""The verifier that programs run: several resized datasets of one main dataset, told by options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.storage import normalise_prefix, open_storage

from sidecar_resize.row_checks import ResizeRules
from sidecar_resize.shard_checks import ResizedColumns, Sample
from sidecar_resize.verify import VerifyResizedReport, verify_resized

if TYPE_CHECKING:
    from collections.abc import Mapping


def verify_targets(
    main_prefix: str, targets: Mapping[int, str], options: Mapping[str, Any]
) -> dict[int, VerifyResizedReport]:
    """Verifies each resized dataset of a main dataset.

    Args:
        main_prefix: the main dataset.
        targets: the prefix of each resized dataset, by the side of a square of its area.
        options: by name: key_column, image_column, audit_prefix, patch_size, output_format, max_crop_loss,
            input_subprefix, sample, sample_rows, all, seed, workers; None is the default.

    Returns:
        The reports by side.
    """
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

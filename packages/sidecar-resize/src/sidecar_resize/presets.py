"""The pipelines behind `build-0-262mp`, `build-1-05mp` and `build-resized`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.dataset import Dataset, StorageOptions
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.storage import normalise_prefix

from sidecar_resize.audit import default_audit_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.pipeline import Pipeline


@dataclass(frozen=True)
class ResizedTarget:
    """One resized dataset to build.

    Attributes:
        side_px: 512 or 1024: pictures of about side_px² pixels.
        prefix: where the dataset is written; default beside the main dataset, `<main prefix>_<side_px>/`.
        audit_prefix: the first part of the audit columns' names; default the customary one.
    """

    side_px: int
    prefix: str | None = None
    audit_prefix: str | None = None


def resized_pipeline(
    main_prefix: str,
    targets: Sequence[ResizedTarget],
    *,
    key_column: str = "image_key",
    image_column: str = "image",
    storage: StorageOptions | None = None,
    params: Mapping[str, object] | None = None,
) -> Pipeline:
    """Returns the pipeline that makes resized datasets from one decode of each picture.

    Args:
        main_prefix: the main dataset.
        targets: one per dataset to write; each becomes an output named by its side.
        key_column: the main dataset's key column.
        image_column: the main dataset's image column, and the name of the image column in each output.
        storage: how to reach the prefixes.
        params: further parameters of the `resize_image` op, such as quality.

    Raises:
        ConfigError: a parameter is wrong, or prefixes overlap.
    """
    main = normalise_prefix(main_prefix)
    beside_main = main.rstrip("/")
    dataset = Dataset(
        name=beside_main.rsplit("/", 1)[-1] or "main",
        main_prefix=main,
        sidecar_prefix=f"{beside_main}_sidecar/",
        key_column=key_column,
        image_column=image_column,
        storage=storage or StorageOptions(),
    )
    specs: list[dict[str, object]] = []
    outputs: list[OutputSpec] = []
    for target in targets:
        column = f"image_{target.side_px}"
        audit_prefix = target.audit_prefix or default_audit_prefix(target.side_px)
        specs.append({"area": target.side_px, "column": column, "audit_prefix": audit_prefix})
        outputs.append(
            OutputSpec(
                name=str(target.side_px),
                prefix=target.prefix or f"{beside_main}_{target.side_px}/",
                columns={image_column: column, f"{audit_prefix}_*": f"{audit_prefix}_*"},
            )
        )
    return build_pipeline(dataset, [{"type": "resize_image", "targets": specs, **(params or {})}], outputs=outputs)

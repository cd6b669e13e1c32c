"""The audit columns that stand beside each resized picture: names and Arrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_resize.audit import Audit

_TYPES = {
    "valid": pa.bool_(),
    "reason": pa.string(),
    "detail": pa.string(),
    "source_width": pa.int32(),
    "source_height": pa.int32(),
    "source_format": pa.string(),
    "source_mode": pa.string(),
    "source_bytes": pa.int64(),
    "orientation": pa.int8(),
    "frames": pa.int32(),
    "resized_width": pa.int32(),
    "resized_height": pa.int32(),
    "crop_left": pa.int32(),
    "crop_top": pa.int32(),
    "width": pa.int32(),
    "height": pa.int32(),
    "crop_loss": pa.float64(),
    "upscaled": pa.bool_(),
    "color_note": pa.string(),
    "output_bytes": pa.int64(),
}
AUDIT_NAMES = tuple(_TYPES)


def audit_fields(audit_prefix: str) -> list[pa.Field]:
    """Returns the audit columns of one target, in order."""
    return [pa.field(f"{audit_prefix}_{name}", dtype) for name, dtype in _TYPES.items()]


def audit_columns(audit_prefix: str, audits: Sequence[Audit]) -> dict[str, pa.Array]:
    """Returns the audit columns of one target, one value per element of `audits`."""
    return {
        f"{audit_prefix}_{name}": pa.array([_storable(getattr(audit, name)) for audit in audits], dtype)
        for name, dtype in _TYPES.items()
    }


def _storable(value: object) -> object:
    """Returns the value with what is no Unicode escaped: messages of decoders may quote a file's bytes."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value

"""Image measures, each computed in an isolated child process, for sidecars and for any other project.

from sidecar_filters import score

score(image_bytes, filters=["luma", "clarity"])
"""

from __future__ import annotations

from sidecar_filters.api import filter_names, score, struct_type
from sidecar_filters.base import Filter, Need, Picture
from sidecar_filters.registry import register_filter

__all__ = ["Filter", "Need", "Picture", "filter_names", "register_filter", "score", "struct_type"]

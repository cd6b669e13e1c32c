from __future__ import annotations

import pytest
from sidecar_core.problems import counted


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [
        (0, ("shard",), "0 shards"),
        (1, ("shard",), "1 shard"),
        (12_345, ("shard",), "12,345 shards"),
        (1, ("box", "boxes"), "1 box"),
        (2, ("box", "boxes"), "2 boxes"),
    ],
)
def test_a_number_of_things_is_worded(number, what, said):
    assert counted(number, *what) == said

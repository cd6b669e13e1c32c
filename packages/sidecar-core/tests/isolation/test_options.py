from __future__ import annotations

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.isolation import IsolationOptions


@pytest.mark.parametrize("name", ["workers", "memory_cap_bytes", "recycle_rows", "start_timeout_s"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_are_above_zero(name, value):
    with pytest.raises(UsageError, match=f"{name} is {value}"):
        IsolationOptions(**{name: value})


def test_equal_options_are_one_key():
    assert IsolationOptions(workers=2) == IsolationOptions(workers=2)
    assert len({IsolationOptions(workers=2), IsolationOptions(workers=2), IsolationOptions(workers=3)}) == 2
    assert IsolationOptions().workers >= 1

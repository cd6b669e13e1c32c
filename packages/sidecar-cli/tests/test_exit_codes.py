from __future__ import annotations

import pytest
from sidecar_cli.exit_codes import ExitCode, exit_code_of
from sidecar_core.errors import AlignmentError, ConfigError, RefusedError, ShardError, StorageNotFoundError, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([]), 2),
        (UsageError("x"), 2),
        (RefusedError("x"), 3),
        (ShardError("x"), 1),
        (AlignmentError("x"), 1),
        (StorageNotFoundError("x"), 1),
        (KeyError("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_each_kind_of_error_has_its_exit_code(error, code):
    assert exit_code_of(error) == code


def test_the_codes_are_the_documented_ones():
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 130]

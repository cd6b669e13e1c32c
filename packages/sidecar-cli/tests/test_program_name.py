"""Commands that are proposed begin with what was typed."""

from __future__ import annotations

import shlex

import pytest
from sidecar_cli.commands.pack import next_commands
from sidecar_cli.program_name import program_name


@pytest.mark.parametrize(
    ("given", "shown"),
    [(None, "sidecar"), ("", "sidecar"), ("./sidecar", "./sidecar"), ("../a b/sidecar", "'../a b/sidecar'")],
)
def test_the_program_is_called_what_the_script_says(monkeypatch, given, shown):
    monkeypatch.delenv("SIDECAR_PROGRAM", raising=False)
    if given is not None:
        monkeypatch.setenv("SIDECAR_PROGRAM", given)
    assert program_name() == shown
    for line in next_commands("/data/main/"):
        assert shlex.split(line)[0] == (given or "sidecar")

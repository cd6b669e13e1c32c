"""A team's own code that raises: what `check` and `run` say of it, and what `--debug` adds."""

from __future__ import annotations

import json

import pytest

OPS = """\
import sys
from sidecar_core.op import BaseOp
from sidecar_core.registry import register_op


@register_op("divide_of_test")
class Divide(BaseOp):
    def apply(self, table, ctx):
        return table.slice(0, 1 // 0)


@register_op("leave_of_test")
class Leave(BaseOp):
    def apply(self, table, ctx):
        sys.exit(4)
"""


@pytest.fixture
def with_plugin(sidecar, team):
    """Returns a function that runs a command on a pipeline with a plugin, which `text` is, and one op."""

    def run(command, text, op, *arguments):
        (team.root / "plugin_of_test.py").write_text(text)
        pipeline = team.pipeline.parent / "plugin.yaml"
        pipeline.write_text(
            f"dataset: team\nplugins: [plugin_of_test]\noperations:\n  - type: extract_scaffold\n  - type: {op}\n"
        )
        return sidecar(command, pipeline, *arguments, env={"PYTHONPATH": str(team.root)})

    return run


def test_an_op_that_raises_names_its_line_and_with_debug_the_whole_way(with_plugin, team):
    arguments = ("--output-prefix", team.root / "out", "--overwrite", "--json")
    done = with_plugin("run", OPS, "divide_of_test", *arguments)
    assert done.returncode == 1
    place = f"at {team.root}/plugin_of_test.py:9"
    said = f"op 'divide_of_test' raised ZeroDivisionError: integer division or modulo by zero, {place}"
    assert [failed["error"].partition(": ")[2] for failed in json.loads(done.stdout)["failed_shards"]] == [said, said]
    assert "Traceback" not in done.stderr
    debugged = with_plugin("run", OPS, "divide_of_test", *arguments, "--debug")
    assert debugged.returncode == 1
    assert debugged.stderr.count("ZeroDivisionError: integer division or modulo by zero\n") == 2
    assert 'plugin_of_test.py", line 9, in apply\n' in debugged.stderr


def test_an_op_that_ends_the_program_fails_its_shards(with_plugin, team):
    done = with_plugin("run", OPS, "leave_of_test", "--output-prefix", team.root / "out", "--json")
    assert done.returncode == 1
    errors = [failed["error"] for failed in json.loads(done.stdout)["failed_shards"]]
    assert len(errors) == 2
    assert all("op 'leave_of_test' raised SystemExit: it called sys.exit(4), at " in error for error in errors)
    (manifest,) = (team.root / "out/_sidecar/runs").iterdir()
    assert json.loads(manifest.read_text())["outcome"] == "failed"


@pytest.mark.parametrize("command", ["check", "run", "verify"])
def test_a_plugin_that_ends_the_program_proves_nothing(with_plugin, command):
    done = with_plugin(command, "import sys\nsys.exit()\n", "divide_of_test")
    assert done.returncode == 2
    assert "plugin 'plugin_of_test' cannot be imported: SystemExit: it called sys.exit(), at " in done.stderr
    assert "unknown operation" not in done.stderr


def test_of_a_plugin_that_cannot_be_imported_debug_shows_the_way(with_plugin):
    text = "def start():\n    return {}['key']\n\nstart()\n"
    assert "Traceback" not in with_plugin("check", text, "divide_of_test").stderr
    done = with_plugin("check", text, "divide_of_test", "--debug")
    assert done.returncode == 2
    assert 'plugin_of_test.py", line 2, in start\n' in done.stderr
    assert "plugin_of_test.py:2\n" in done.stderr

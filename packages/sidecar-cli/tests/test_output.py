from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from sidecar_cli.output import Facts, Table, open_output, plain_text

from_here = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR", "PY_COLORS")}


def test_plain_tables_are_aligned_numbers_at_the_right_and_nothing_trails():
    table = Table(("name", "rows", "note"), [("a", 5, None), ("longer", 12_345, "x")], title="Title")
    assert plain_text([table]) == "Title\nname      rows  note\na            5  -\nlonger  12,345  x\n"


def test_plain_facts_are_aligned():
    assert plain_text([Facts([("a", 1.23456789), ("bcd", True)])]) == "a    1.235\nbcd  yes\n"


def test_blocks_of_several_lines_stand_apart_and_lines_do_not():
    text = plain_text(["one", "two", Facts([("a", 1), ("b", 2)]), "three"])
    assert text == "one\ntwo\n\na  1\nb  2\nthree\n"


def test_an_empty_table_still_has_its_head():
    assert plain_text([Table(("a", "b"), [])]) == "a  b\n"


def test_json_ignores_the_view_and_keeps_unicode(capsys):
    open_output(json=True).show({"name": "größe", "path": "a=b"}, ["not this"])
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": "größe", "path": "a=b"}
    assert "not this" not in out


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_what_ops_and_plugins_print_goes_to_stderr(sidecar, team, as_json):
    with team.pipeline.open("a") as file:
        file.write("  - type: noisy\nplugins: [sidecar_core.testing.noisy_ops]\n")
    out = ["--output-prefix", team.root / "out"]
    jobs = {
        ("run", team.pipeline, *out): ("an import", "an op", "native code"),
        ("check", team.pipeline): ("an import",),
        ("verify", team.pipeline, *out, "--all"): ("an import",),
    }
    for words, noises in jobs.items():
        done = sidecar(*words, *(["--json"] if as_json else []))
        assert done.returncode == 0, (words, done.stderr)
        assert "noise" not in done.stdout
        assert not as_json or json.loads(done.stdout)
        assert done.stdout
        for noise in noises:
            assert f"noise of {noise}\n" in done.stderr


def on_terminal(*arguments, **env):
    """Runs the program with both streams on a terminal; returns what appeared there."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", *arguments],
        stdout=terminal,
        stderr=terminal,
        stdin=terminal,
        env={**from_here, "TERM": "xterm-256color", "COLUMNS": "120", **env},
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(controller)
    assert process.wait(timeout=60) == 0
    return seen.decode()


@pytest.mark.parametrize("arguments", [["ops"], ["--help"]], ids=" ".join)
def test_a_terminal_gets_styles_and_no_color_takes_the_colors_away(arguments):
    color = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m")
    styled, uncolored = on_terminal(*arguments), on_terminal(*arguments, NO_COLOR="1", FORCE_COLOR="1")
    assert "\x1b[" in styled
    assert not color.search(uncolored)
    if arguments == ["--help"]:
        assert color.search(styled)


def test_values_are_never_read_as_markup():
    program = (
        "import sys; from sidecar_cli.output import *; from sidecar_cli import output;"
        "output._show_on_terminal([Table(('a',), [('[red]x[/red]',)]), Facts([('k', '[b]')]), '[i]y'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for literal in ("[red]x[/red]", "[b]", "[i]y"):
        assert literal in done.stdout

"""The program itself: help, exit codes, streams, and what it does not load."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version

import pytest
from sidecar_cli.command_table import COMMANDS
from sidecar_cli.main import main

HEAVY = ["PIL", "boto3", "botocore", "cv2", "numpy", "pyarrow", "pydantic", "pyvips", "ray", "yaml"]
LOADED = f"""
import sys
from sidecar_cli.main import main
status = main(sys.argv[1:])
print("loaded:", [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""


def loaded_by(*arguments):
    return subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    assert loaded_by(*arguments).stderr.splitlines()[-1] == "loaded: []"


def test_help_looks_up_no_installed_package():
    code = "import sys; from sidecar_cli.main import main; main(['--help']); print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("arguments", [["run", "--help"], ["pack", "--help"], ["nonsense"]], ids=" ".join)
def test_help_of_a_command_loads_no_more_than_typer_does(arguments):
    assert loaded_by(*arguments).stderr.splitlines()[-1] in ("loaded: []", "loaded: ['pydantic']")


def test_help_names_every_command_with_whole_sentences(sidecar):
    done = sidecar("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    listed = done.stdout.partition("Commands:\n")[2]
    for command in COMMANDS:
        line = next(line for line in listed.splitlines() if line.split()[:1] == [command.name])
        assert line.endswith("."), line
        assert not line.endswith("..."), line


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_has_help_with_an_example(command, capsys):
    assert main([command.name, "--help"]) == 0
    text = capsys.readouterr().out
    assert command.examples
    for example in command.examples:
        assert example.startswith(f"sidecar {command.name} ") or example == f"sidecar {command.name}"
        assert example in text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_prints_its_result_as_json_when_asked(command, capsys):
    assert main([command.name, "--help"]) == 0
    words = capsys.readouterr().out.split()
    assert {"--json", "--debug"} <= set(words)


def test_version(sidecar):
    done = sidecar("--version")
    assert (done.returncode, done.stdout) == (0, f"sidecar {version('sidecar-cli')}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["runn"],
        ["run"],
        ["run", "x.yaml", "--no-such-flag"],
        ["run", "x.yaml", "--workers", "many"],
        ["run", "x.yaml", "--runtime", "cloud"],
        ["run", "missing.yaml"],
        ["run", "--output-prefix"],
        ["build-0-262mp"],
        ["build-resized", "--main-prefix", "x"],
        ["build-resized", "--main-prefix", "x", "--target", "512"],
        ["build-resized", "--main-prefix", "x", "--target", "big=y"],
        ["check"],
        ["ops", "no_such_op"],
        ["schema", "no_such_type_v1"],
        ["schema", "--json-schema", "table"],
        ["init"],
        ["init", "pets"],
        ["init", "my pets", "--main-prefix", "x"],
        ["doctor", "ftp://host/x"],
        ["doctor", "--torture", "--runtime", "cloud"],
        ["pack", "missing-folder", "out"],
        ["pack", ".", "ftp://host/x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_a_message_and_no_traceback(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_a_mistyped_command_is_answered_with_the_right_one(capsys):
    assert main(["verfy"]) == 2
    assert "'verify'" in capsys.readouterr().err


def test_debug_shows_the_traceback(sidecar):
    quiet, loud = sidecar("ops", "no_such_op"), sidecar("ops", "no_such_op", "--debug")
    assert (quiet.returncode, loud.returncode) == (2, 2)
    assert "Traceback" not in quiet.stderr
    assert "unknown operation 'no_such_op'" in quiet.stderr
    assert "Traceback" in loud.stderr


def test_an_argument_that_looks_like_debug_is_not_the_flag(sidecar):
    done = sidecar("ops", "--", "--debug")
    assert done.returncode == 2
    assert "unknown operation '--debug'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unexpected_error_ends_with_1_and_one_sentence(capsys, monkeypatch):
    from sidecar_core import registry

    def fail():
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(registry, "installed_ops", fail)
    assert main(["ops"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("unexpected ZeroDivisionError: by zero\n")
    assert "Traceback" not in err


def test_a_file_that_the_system_refuses_is_named_with_its_reason(capsys, monkeypatch):
    from sidecar_core import registry

    def fail():
        raise PermissionError(13, "Permission denied", "/closed/x")

    monkeypatch.setattr(registry, "installed_ops", fail)
    assert main(["ops"]) == 1
    said = "/closed/x: Permission denied\n  fix: give this user access, or choose another place\n"
    assert capsys.readouterr().err == said


def test_a_reader_that_has_gone_away_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "sidecar_cli.main", "ops"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_results_go_to_stdout_alone(sidecar):
    done = sidecar("ops", "--json")
    assert done.stderr == ""
    assert {"extract_scaffold", "resize_image"} <= {op["name"] for op in json.loads(done.stdout)["ops"]}


@pytest.mark.parametrize("columns", ["30", "80", "100"])
def test_help_on_a_terminal_names_options_in_full(columns):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", "plan", "--help"],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "COLUMNS": columns, "NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(slave)
    seen = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(master, 4096):
            seen += piece
    assert process.wait(timeout=60) == 0
    os.close(master)
    assert b"--target-rows-per-hour" in seen
    assert (b"\xe2\x95\xad" in seen) == (columns == "100")  # rich help draws frames


def test_names_that_the_terminal_cannot_show_do_not_stop_a_command(sidecar, team):
    done = sidecar("run", team.pipeline, "--dry-run", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "main \\xfc=1" in done.stdout
    as_json = sidecar("run", team.pipeline, "--dry-run", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(as_json.stdout)["main_prefix"] == f"{team.main}/"


WAITS = """
import sys, time
from sidecar_cli import main as program
from sidecar_core import registry
def wait():
    print("waiting", flush=True)
    time.sleep(60)
registry.installed_ops = wait
sys.exit(program.main(["ops"]))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_an_interrupt_ends_with_130_and_no_traceback(sent):
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_an_interrupt_of_code_that_was_made_from_text_ends_with_130_too(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS.replace("time.sleep(60)", "exec('time.sleep(60)')"))
    with subprocess.Popen(
        [sys.executable, "-m", "waits"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.parametrize("flags", [["--help"], ["--version"], ["run", "--help"], ["--show-completion", "bash"]])
def test_help_for_a_reader_that_has_gone_is_no_failure(flags):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "sidecar_cli.main", *flags]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")

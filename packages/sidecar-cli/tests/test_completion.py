"""The Tab key, by the protocols that shells speak, in a real bash where there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sidecar_cli import completion
from sidecar_cli.command_table import COMMANDS
from sidecar_core.reasons import Reason
from sidecar_filters.registry import filter_names

PIPELINE = "dataset: x\noperations: []\n"
HEAVY = ["PIL", "boto3", "cv2", "numpy", "pyarrow", "ray", "yaml"]
LOADED = f"""
import sys
from sidecar_cli.main import main
main([])
print("loaded:", [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def asked(line, cwd, *, program=(sys.executable, "-m", "sidecar_cli.main"), **environment):
    """Asks as the function does that `--show-completion` prints for bash: words by line feeds."""
    words = line.split(" ")
    return subprocess.run(
        program,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={
            **os.environ,
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
            "_SIDECAR_COMPLETE": "complete_bash",
            **environment,
        },
    )


@pytest.fixture
def here(tmp_path):
    for name, text in {
        "configs/pipelines/pets.yaml": PIPELINE,
        "configs/pipelines/deep/birds.yml": f"# words\n{PIPELINE}",
        "configs/datasets/pets.yaml": "name: pets\n",
        "configs/with space.yaml": PIPELINE,
        "own.yaml": PIPELINE,
        ".hidden/x.yaml": PIPELINE,
        "notes.txt": PIPELINE,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sidecar ", [command.name for command in COMMANDS]),
        ("sidecar verify", ["verify", "verify-resized"]),
        ("sidecar run ", ["configs/pipelines/pets.yaml", "own.yaml"]),
        ("sidecar check own.yaml conf", ["configs/pipelines/deep/birds.yml", "configs/pipelines/pets.yaml"]),
        ("sidecar run configs/pipelines/p", ["configs/pipelines/pets.yaml"]),
        ("sidecar run nothing/", []),
        ("sidecar run ~/", []),
        ("sidecar run own.yaml --runtime a", ["auto", "actor"]),
        ("sidecar ops resize", ["resize_image"]),
        ("sidecar filters clar", ["clarity"]),
        ("sidecar schema filter_luma", ["filter_luma_v1"]),
        ("sidecar init x --filters luma,clar", ["luma,clarity"]),
        ("sidecar retry own.yaml --reason timeout,cra", ["timeout,crashed"]),
        ("sidecar doctor --tort", ["--torture"]),
    ],
)
def test_what_is_offered(here, line, offered):
    done = asked(line, here)
    assert done.stderr == ""
    assert sorted(done.stdout.split()) == sorted(offered)


@pytest.mark.parametrize(
    "line", ["sidecar ", "sidecar run conf", "sidecar ops ", "sidecar filters ", "sidecar schema "]
)
def test_the_shell_does_not_wait_for_anything_heavy(here, line):
    done = asked(line, here, program=(sys.executable, "-c", LOADED))
    assert done.stdout
    assert done.stderr.splitlines()[-1:] in ([], ["loaded: []"])  # typer ends the process itself


def test_completers_load_nothing_heavy(here):
    code = (
        "import sys\nfrom sidecar_cli import completion as c\n"
        "found = [c.complete_pipeline('conf'), c.complete_op(''), c.complete_filter(''), c.complete_struct_type(''),"
        " c.complete_reasons('')]\nassert all(found)\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered_too(here, shell):
    environment = {"_TYPER_COMPLETE_ARGS": "sidecar ops resi", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = asked("", here, _SIDECAR_COMPLETE=f"complete_{shell}", **environment)
    assert "resize_image" in done.stdout
    assert done.stderr == ""


def bash_with_sidecar(here, script):
    """Runs a script in a real bash whose PATH has the installed program."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(here)}
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=here,
        env={**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    return done.stdout


TYPED = "COMP_WORDS=(sidecar run own); COMP_CWORD=2; _sidecar_completion sidecar; printf '%s\\n' \"${COMPREPLY[@]}\""


def test_bash_completes_with_what_show_completion_prints(here):
    assert bash_with_sidecar(here, f'eval "$(sidecar --show-completion bash)"; {TYPED}') == "own.yaml\n"


def test_bash_completes_with_what_install_completion_installs(here):
    (here / ".bashrc").write_text("# mine\n")
    bash_with_sidecar(here, "sidecar --install-completion bash")
    assert (here / ".bashrc").read_text().startswith("# mine\n")
    assert bash_with_sidecar(here, f"source ~/.bashrc; {TYPED}") == "own.yaml\n"


def test_a_script_in_a_clone_installs_under_its_own_name(here):
    script = "SIDECAR_PROGRAM=./sidecar sidecar --show-completion bash"
    shown = bash_with_sidecar(here, script)
    assert shown.splitlines()[-1] == "complete -o default -F _sidecar_completion sidecar"
    assert "_SIDECAR_COMPLETE=complete_bash" in shown
    done = asked("./sidecar run own", here, SIDECAR_PROGRAM="./sidecar")
    assert done.stdout.split() == ["own.yaml"]


def test_lists_are_completed_at_their_end(here, monkeypatch):
    monkeypatch.chdir(here)
    # other tests of this process may have registered filters of their own, which a fresh one does not offer
    offered = completion.complete_filters("")
    assert offered == sorted(offered)
    assert {"luma", "fingerprint", "exif_metadata"} <= set(offered) <= set(filter_names())
    assert all(offered.startswith("luma,") for offered in completion.complete_filters("luma,"))
    assert "luma,luma" not in completion.complete_filters("luma,")
    assert completion.complete_reasons("") == sorted(Reason)


def test_an_absolute_path_is_completed(here):
    assert completion.complete_pipeline(f"{here}/ow") == [f"{here}/own.yaml"]


def test_a_broken_package_does_not_break_the_line(here, monkeypatch):
    info = here / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sidecar.struct_types]\nbroken = no_such_module:files\n")
    monkeypatch.syspath_prepend(here)
    assert "filter_luma_v1" in completion.complete_struct_type("")


def test_without_a_shell_asking_nothing_is_completed(sidecar):
    done = sidecar("ops", "--json", env={"COMP_WORDS": "sidecar run "})
    assert json.loads(done.stdout)["ops"]

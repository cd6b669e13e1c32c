"""Pages of the docs and READMEs: their blocks, and how those are run as they stand there."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from sidecar_core.isolation import submit_call
from sidecar_resize.testing.pictures import encoded_scene

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"(?:^<!-- not run: ([^\n]+) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
A_FILE = re.compile(r"# ([\w/.-]+\.\w+)\n")
PROGRAMS = str(Path(sys.executable).parent)
NOT_TOLD = re.compile(r"(?:AWS|SIDECAR|XDG)_|(?:FORCE_COLOR|NO_COLOR|PY_COLORS|GITHUB_ACTIONS)\Z")
SETTINGS = {
    "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPYCACHEPREFIX": str(ROOT / ".pytest_cache/compiled"),  # not beside what a page tells to write
    "RAY_ADDRESS": "",
    "BROWSER": "true",  # what --open starts
    "COLUMNS": "160",
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: `sh`, `console`, `python`, `yaml`, …
        text: what stands in it.
        not_run: why it is not run, from the line `<!-- not run: … -->` above it; None for others.
        section: the headline above it.
    """

    language: str
    text: str
    not_run: str | None
    section: str

    @property
    def is_run(self) -> bool:
        """Whether it holds commands that are run as they stand there; not what is a file."""
        runs = self.language in {"sh", "console", "python"} and self.not_run is None
        return runs and not A_FILE.match(self.text)


class Page:
    """A page, by its path in the repository."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.blocks = [
            Block(found[2], found[3], found[1], self._headline(found.start())) for found in FENCED.finditer(self.text)
        ]

    def _headline(self, end: int) -> str:
        """Returns the last headline of a section before this place, or an empty text."""
        return next(reversed(re.findall(r"^##+ (.*)$", self.text[:end], re.MULTILINE)), "")

    def of(self, *languages: str) -> list[str]:
        """Returns the text of each block in one of these languages."""
        return [block.text for block in self.blocks if block.language in languages]

    def write_files(self, folder: Path) -> None:
        """Writes each block whose first line is a comment with nothing but a path, as `# my_team/ops.py`."""
        for block in self.blocks:
            named = A_FILE.match(block.text)
            if named:
                (folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
                (folder / named[1]).write_text(block.text, encoding="utf-8")

    def run(self, folder: Path, *, env=None, before=None, prelude="", sections=()) -> str:
        """Runs what the page says, from its first block to its last, and returns all that was shown on stdout.

        Shell blocks must end with status 0, commands of `console` blocks with the status that is shown, and what such
        a block shows must have been shown, numbers and spaces aside. What is a file (see `write_files`) is not run.

        Args:
            folder: the working directory, and the home.
            env: further variables.
            before: functions to call before the first block that holds a text.
            prelude: Python code before that of the page.
            sections: headlines; only the blocks right below these are run.
        """
        shown: list[str] = []
        waiting = dict(before or {})
        for block in self.blocks:
            for text in [text for text in waiting if text in block.text]:
                waiting.pop(text)()
            if not block.is_run or (sections and block.section not in sections):
                continue
            if block.language == "sh":
                shown += run(folder, ["bash", "-euo", "pipefail", "-c", block.text], env=env).stdout.splitlines()
            elif block.language == "python":
                shown += run(folder, [sys.executable, "-c", prelude + block.text], env=env).stdout.splitlines()
            elif block.language == "console":
                _run_console(folder, block.text, shown, env)
        assert not waiting, f"{self.path}: no block holds {list(waiting)}"
        return "\n".join(shown)


def run(folder, command, *, env=None, status=0, timeout_s=300):
    """Runs a command in a folder, which is its home too, and returns what it did.

    It knows nothing of this machine's settings (see `NOT_TOLD`), and has no terminal. When it takes too long, it is
    ended with all that it started.
    """
    words = [str(word) for word in command]
    told = {name: value for name, value in os.environ.items() if not NOT_TOLD.match(name)}
    with subprocess.Popen(
        words,
        cwd=folder,
        env={**told, "HOME": str(folder), **SETTINGS, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException:  # also Ctrl-C, which does not reach another session
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == status, f"{words}\nended with {process.returncode}\n{stdout}\n{stderr}"
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def _run_console(folder: Path, text: str, shown: list[str], env) -> None:
    """Runs the commands of a console block, and compares what each shows with what stands below it.

    What stands there before the first command must have been shown by a block above.
    """
    for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        said = part.rstrip().splitlines()
        seen = shown
        if part.startswith("$ "):
            command = said.pop(0).removeprefix("$ ")
            while command.endswith("\\"):
                command = command[:-1] + said.pop(0)
            command, asks, _ = command.partition('; echo "exit $?"')
            status = int(said.pop().removeprefix("exit ")) if asks else 0
            done = run(folder, ["bash", "-c", command], env=env, status=status)
            seen = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            shown += seen
        known = {_without_numbers(line) for line in seen}
        said = [line.replace("/home/me", str(folder)) for line in said if line.strip()]
        unknown = [line for line in said if _without_numbers(line) not in known]
        assert not unknown, "\n".join([*unknown, "is not among what was shown:", *seen])


def _without_numbers(line: str) -> str:
    return " ".join(re.sub(r"\b\d[\w.,:+-]*", "#", line).split())


@pytest.fixture(scope="session")
def doc_page():
    """Returns a function that gives the page at a path of the repository."""
    return Page


@pytest.fixture(scope="session")
def api_reader():
    """Returns the module `ci/api_reader.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "ci"))
        return importlib.import_module("api_reader")


@pytest.fixture(scope="session")
def run_in():
    """Returns the function `run(folder, command, env=…, status=…)`."""
    return run


@pytest.fixture(scope="session")
def picture():
    """A JPEG of 200 x 150 px."""
    return submit_call(encoded_scene, 200, 150, "JPEG")

"""Does what a Dockerfile of deploy/ says, below a folder instead of in an image: for machines without Docker.

    python ci/image_steps.py deploy/Dockerfile.resize FOLDER [ARG=VALUE…]

Every COPY and RUN of the stages that build is done as it stands there, with the absolute paths of the image
below FOLDER. Of the last stage, which only puts things together, COPY and ENV are done. The last line printed
is JSON: the environment, working folder and entry point of the image.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE_PATHS = re.compile(r"(?<![\w./-])/(?=(?:build|opt/sidecar|app)\b)")


def main() -> int:
    """Does the steps of the Dockerfile that is named on the command line."""
    if len(sys.argv) < 3 or not all("=" in argument for argument in sys.argv[3:]):
        sys.exit(f"usage: {__doc__.splitlines()[2].strip()}")
    dockerfile, folder = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    if not dockerfile.is_file():
        sys.exit(f"no {dockerfile}; there are {', '.join(sorted(map(str, ROOT.glob('deploy/Dockerfile.*'))))}")
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    given = dict(argument.split("=", 1) for argument in sys.argv[3:])
    stages = stages_of(dockerfile.read_text())
    image = Image(folder, given)
    for number, stage in enumerate(stages):
        for instruction, rest in stage:
            image.do(instruction, rest, last=number == len(stages) - 1)
    kept = {name: image.environment[name] for name in ("PATH", "PYTHONUNBUFFERED")}
    print(json.dumps({"environment": kept, "folder": str(image.here), "entrypoint": image.entrypoint}))
    return 0


def stages_of(text: str) -> list[list[tuple[str, str]]]:
    """Returns the instructions of each stage, with continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            stages.append([])
        elif stages:  # an ARG before the first stage is for FROM
            stages[-1].append((instruction, rest.strip()))
    return stages


class Image:
    """A folder that becomes what the image would hold.

    Args:
        folder: what is the image's root; `python3` of this interpreter's version is put before PATH.
        given: the build arguments.
    """

    def __init__(self, folder: Path, given: dict[str, str]) -> None:
        self.folder = folder
        self.given = given
        self.here = folder
        self.entrypoint: list[str] = []
        tools = folder / "base"
        tools.mkdir(parents=True)
        (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
        passed = ("PIP_", "SSL_", "REQUESTS_", "CURL_", "HTTP", "NO_PROXY", "http", "no_proxy", "LANG")
        self.environment = {name: value for name, value in os.environ.items() if name.startswith(passed)}
        self.environment |= {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tools)}

    def do(self, instruction: str, rest: str, *, last: bool) -> None:
        """Does one instruction; ends this program when it fails or is unknown."""
        steps = {"ARG": self.arg, "ENV": self.env, "WORKDIR": self.workdir, "COPY": self.copy, "RUN": self.run}
        if instruction == "ENTRYPOINT":
            self.entrypoint = json.loads(rest)
        elif instruction in steps:
            if not (last and instruction == "RUN"):  # the last stage makes a user, which is for an image only
                steps[instruction](rest)
        elif instruction not in ("CMD", "USER"):
            sys.exit(f"unknown instruction {instruction} {rest}")

    def arg(self, rest: str) -> None:
        """Takes a build argument, or its default."""
        name, _, default = rest.partition("=")
        if name in self.given or default:
            self.environment[name] = self.given.get(name, default)

    def env(self, rest: str) -> None:
        """Sets variables."""
        for pair in shlex.split(rest):
            name, _, value = pair.partition("=")
            self.environment[name] = self.below(value).replace("$PATH", self.environment["PATH"])

    def workdir(self, rest: str) -> None:
        """Makes a folder and stays there."""
        self.here = Path(self.below(rest))
        self.here.mkdir(parents=True, exist_ok=True)

    def below(self, text: str) -> str:
        """Returns text with the image's absolute paths below the folder."""
        return IMAGE_PATHS.sub(f"{self.folder}/", text)

    def copy(self, rest: str) -> None:
        """Copies from the repository what `.dockerignore` lets through; what another stage made is there."""
        *sources, target = rest.split()
        if sources[0].startswith("--from="):
            if sources[1:] != [target]:
                sys.exit(f"COPY {rest}: only to the same path")
            return
        (source,) = sources
        destination = self.here / self.below(target)
        if not allowed(source):
            sys.exit(f"COPY {rest}: .dockerignore leaves it out")
        if (ROOT / source).is_dir():
            left_out = shutil.ignore_patterns(*ignored_names())
            shutil.copytree(ROOT / source, destination, ignore=left_out, dirs_exist_ok=True)
        else:
            if target.endswith("/"):
                destination /= Path(source).name
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, destination)

    def run(self, rest: str) -> None:
        """Runs a shell command, as RUN does."""
        command = self.below(rest)
        print(f"+ {command}", flush=True)
        done = subprocess.run(["/bin/sh", "-c", command], cwd=self.here, env=self.environment, check=False)
        if done.returncode:
            sys.exit(f"exit {done.returncode}: {command}")


def ignore_lines() -> list[str]:
    """Returns the patterns of `.dockerignore`."""
    lines = map(str.strip, (ROOT / ".dockerignore").read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def ignored_names() -> list[str]:
    """Returns the names that are left out wherever they are."""
    return [line.removeprefix("**/") for line in ignore_lines() if line.startswith("**/")]


def allowed(source: str) -> bool:
    """Returns whether a path is in what Docker is given to build from."""
    exceptions = [line.removeprefix("!") for line in ignore_lines() if line.startswith("!")]
    return any(source == each or source.startswith(f"{each}/") for each in exceptions)


if __name__ == "__main__":
    sys.exit(main())

"""The options of commands that run a pipeline: one table, from which each parser is made.

The table knows neither typer nor argparse, so that `sidecar` and `sidecar-run` offer the same flags
with the same words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RUNTIMES = ("auto", "local", "ray", "actor")
MOST_CORES = 100_000  # more is a slip of the hand, and Ray's integers overflow long after it
MOST_MEMORY_GB = 1 << 20  # of which Ray can still count the bytes


@dataclass(frozen=True)
class Option:
    """One flag of a command line.

    Attributes:
        name: as typed, with its dashes.
        help: what it does, one clause; says the default when `default` is None.
        group: headline under which help lists it.
        type: str, int or float; bool makes it a switch that takes no value.
        default: the value without the flag.
        aliases: other names for it.
        choices: the closed set of values, or empty.
        repeated: whether it may be given several times, its value then being a list.
        metavar: what help calls its value; default the type's name.
        least: smallest value of a number; None when `above` or the command's own check says it.
        above: a number must be larger than this.
        most: largest value of a number.
    """

    name: str
    help: str
    group: str
    type: type[str] | type[int] | type[float] | type[bool] = str
    default: str | float | bool | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    repeated: bool = False
    metavar: str | None = None
    least: float | None = None
    above: float | None = None
    most: float | None = None

    @property
    def parameter(self) -> str:
        """Its name in Python."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def tells_default(self) -> bool:
        """Whether help tells the default: there is one, 0 among them, and it is more than a switch that is off."""
        return not self.repeated and self.default is not None and self.default is not False and self.default != ""

    def check(self, value: object) -> None:
        """Raises UsageError for a number that is none (nan, inf) or out of range."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{self.name} {value}: must be a finite number{self._range(', ')}")
        low = (self.least is not None and value < self.least) or (self.above is not None and value <= self.above)
        if low or (self.most is not None and value > self.most):
            raise UsageError(f"{self.name} {value}: must be {self._range()}")

    def _range(self, joint: str = "") -> str:
        words = [
            f"{word} {bound:,}"
            for word, bound in (("at least", self.least), ("above", self.above), ("at most", self.most))
            if bound is not None
        ]
        return joint + " and ".join(words) if words else ""


_WHERE = "Where"
_WHICH = "Which shards"
_HOW = "How"
_RAY = "On Ray"
_ONE_WRITER = "One writer at a time"
_PICTURES = "Pictures"
_RESULT = "Result"

OUTPUT_PREFIX = Option(
    "--output-prefix",
    "where the output is written; default a new folder beside the dataset's sidecar_prefix",
    _WHERE,
    metavar="PREFIX",
)
OUTPUT = Option(
    "--output",
    "where the output of that name is written, for a pipeline with several",
    _WHERE,
    repeated=True,
    metavar="NAME=PREFIX",
)
INPUT_SUBPREFIX = Option(
    "--input-subprefix",
    "only main shards whose path below the main prefix begins with this, such as flickr/",
    _WHICH,
    default="",
    metavar="SUB",
)
WORKERS = Option(
    "--workers",
    "processes that compute rows; default the machine's cores, on Ray those reserved",
    _HOW,
    type=int,
    aliases=("--threads-per-shard",),
    least=1,
    most=MOST_CORES,
)
LIMIT = Option("--limit", "process at most so many shards", _WHICH, type=int, metavar="N", least=1)
RETRIES = Option(
    "--retries", "further attempts for a shard whose error may pass", _HOW, type=int, default=2, metavar="N", least=0
)
LEASE_OPTIONS: tuple[Option, ...] = (
    Option(
        "--wait-lease",
        "wait so many seconds for an output that somebody else is writing",
        _ONE_WRITER,
        type=float,
        default=0.0,
        metavar="SECONDS",
        least=0,
    ),
    Option(
        "--lease-stale-s",
        "after so many seconds without a heartbeat a writer no longer counts; default 120",
        _ONE_WRITER,
        type=float,
        metavar="SECONDS",
        least=1,
    ),
    Option("--steal-lease", "write although somebody else may be writing there", _ONE_WRITER, type=bool, default=False),
)
DEBUG = Option("--debug", "show the traceback of an error", _RESULT, type=bool, default=False)
JSON = Option("--json", "print the result as JSON", _RESULT, type=bool, default=False)

COMMON_OPTIONS: tuple[Option, ...] = (JSON, DEBUG)

# What every command that runs shards has, besides saying where its outputs go.
RUNTIME_OPTIONS: tuple[Option, ...] = (
    INPUT_SUBPREFIX,
    LIMIT,
    Option(
        "--skip-existing", "leave the shards that are there and made by this pipeline", _WHICH, type=bool, default=False
    ),
    Option(
        "--trust-listing",
        "with --skip-existing, believe that a shard that is there and not empty is done; no footer is read",
        _WHICH,
        type=bool,
        default=False,
    ),
    Option(
        "--redo-stale",
        "with --skip-existing, make shards again that another pipeline or another input made",
        _WHICH,
        type=bool,
        default=False,
    ),
    Option("--keep-stale", "with --skip-existing, leave such shards as they are", _WHICH, type=bool, default=False),
    Option("--overwrite", "replace the shards that are there", _WHICH, type=bool, default=False),
    Option("--runtime", "where shards are processed", _HOW, default="auto", choices=RUNTIMES),
    Option("--use-ray", "short for --runtime ray", _HOW, type=bool, default=False),
    Option("--use-actor", "short for --runtime actor", _HOW, type=bool, default=False),
    WORKERS,
    RETRIES,
    Option(
        "--max-failed-shards",
        "stop once more than so many shards were given up; default never",
        _HOW,
        type=int,
        metavar="N",
        least=0,
    ),
    Option(
        "--max-invalid-fraction",
        "stop once more than this share (0-1) of at least 1,000 rows is invalid; default never",
        _HOW,
        type=float,
        metavar="FRACTION",
        least=0,
        most=1,
    ),
    Option(
        "--ray-address", "the cluster; default RAY_ADDRESS, else one on this machine alone", _RAY, metavar="ADDRESS"
    ),
    Option(
        "--task-cpus",
        "with ray: cores that a task reserves; default 1",
        _RAY,
        type=int,
        metavar="N",
        least=1,
        most=MOST_CORES,
    ),
    Option(
        "--task-memory-gb",
        "with ray: GiB that a task reserves; default none",
        _RAY,
        type=float,
        metavar="GIB",
        above=0,
        most=MOST_MEMORY_GB,
    ),
    Option(
        "--max-inflight",
        "with ray: tasks submitted at a time; default twice what the cluster holds, at least 16",
        _RAY,
        type=int,
        metavar="N",
        least=1,
    ),
    Option(
        "--num-actors", "with actor: how many; default what the cluster holds", _RAY, type=int, metavar="N", least=1
    ),
    Option(
        "--actor-cpus",
        "with actor: cores that each reserves; default 1",
        _RAY,
        type=int,
        metavar="N",
        least=1,
        most=MOST_CORES,
    ),
    Option(
        "--actor-memory-gb",
        "with actor: GiB that each reserves; default none",
        _RAY,
        type=float,
        metavar="GIB",
        above=0,
        most=MOST_MEMORY_GB,
    ),
    Option(
        "--per-actor-inflight",
        "with actor: shards each has at a time; default 2",
        _RAY,
        type=int,
        metavar="N",
        least=1,
        most=MOST_CORES,
    ),
    *LEASE_OPTIONS,
    Option("--dry-run", "do everything except making shards", _RESULT, type=bool, default=False),
    *COMMON_OPTIONS,
)

RUN_OPTIONS: tuple[Option, ...] = (OUTPUT_PREFIX, OUTPUT, *RUNTIME_OPTIONS)

REASON = Option(
    "--reason",
    "compute the rows with these reasons again, such as timeout,crashed",
    _WHICH,
    repeated=True,
    metavar="REASON[,REASON]",
)
RETRY_OPTIONS: tuple[Option, ...] = (
    Option("--output-prefix", "where the output is; default the dataset's sidecar_prefix", _WHERE, metavar="PREFIX"),
    OUTPUT,
    REASON,
    INPUT_SUBPREFIX,
    LIMIT,
    WORKERS,
    RETRIES,
    *LEASE_OPTIONS,
    *COMMON_OPTIONS,
)

KEY_COLUMN = Option("--key-column", "column that names a row", _WHERE, default="image_key", metavar="NAME")
MAIN_PREFIX = Option("--main-prefix", "the main dataset", _WHERE, metavar="PREFIX")
TARGET = Option(
    "--target",
    "a resized dataset: the side of a square of its area (512, 1024), and its prefix",
    _WHERE,
    repeated=True,
    metavar="AREA=PREFIX",
)

# What a resized dataset can be told. A value that is not given is left to the `resize_image` op.
PICTURE_OPTIONS: tuple[Option, ...] = (
    Option(
        "--audit-prefix",
        "first part of the audit columns' names; default 0_26mp_process for 512, 1_05mp_process for 1024",
        _PICTURES,
        metavar="NAME",
    ),
    Option("--patch-size", "sides are multiples of this; default 32", _PICTURES, type=int, metavar="PX"),
    Option("--output-format", "format of the pictures; default webp", _PICTURES, choices=("webp", "png", "jpeg")),
    Option("--quality", "of webp and jpeg, 1-100; default 95", _PICTURES, type=int),
    Option("--webp-method", "the webp encoder's effort, 0-6; default 2", _PICTURES, type=int),
    Option("--max-pixels", "a picture with more pixels is invalid; default 300,000,000", _PICTURES, type=int),
    Option(
        "--accept-truncated",
        "accept a truncated picture when at least this share (0-1) of its rows decodes; default none",
        _PICTURES,
        type=float,
        metavar="FRACTION",
    ),
    Option(
        "--max-crop-loss",
        "a picture that would lose more than this share (0-1) is invalid; default 0.25",
        _PICTURES,
        type=float,
        metavar="FRACTION",
    ),
    Option("--no-upscale", "a picture smaller than its target is invalid", _PICTURES, type=bool, default=False),
    Option(
        "--background",
        "what shows through transparency, as #rrggbb; default white",
        _PICTURES,
        metavar="COLOR",
    ),
    Option(
        "--keep-alpha", "keep transparency instead of composing on the background", _PICTURES, type=bool, default=False
    ),
)

IMAGE_COLUMN = Option("--image-column", "column with the pictures' bytes", _WHERE, default="image", metavar="NAME")

# What the verifiers share. Both prove every key of the shards that they look at.
SAMPLE_OPTIONS: tuple[Option, ...] = (
    Option("--sample", "look at so many shards, drawn at random", _WHICH, type=int, default=50, metavar="N"),
    Option("--all", "look at every shard", _WHICH, type=bool, default=False),
    Option("--seed", "of the sample", _WHICH, type=int, default=0),
)

SAMPLE_ROWS = Option(
    "--sample-rows",
    "decode the pictures of so many rows a shard; with --all, of every row",
    _WHICH,
    type=int,
    default=20,
    metavar="N",
)


def check_numbers(options: Iterable[Option], values: Mapping[str, object]) -> None:
    """Checks the numbers among the values of options.

    Args:
        options: the table.
        values: by parameter name; those of other options, and None, are no matter.

    Raises:
        UsageError: one is no finite number, or out of the range of its option.
    """
    for option in options:
        option.check(values.get(option.parameter))


def parse_named_prefixes(option: str, values: Sequence[str]) -> dict[str, str]:
    """Splits repeated `NAME=PREFIX` values at the first `=`; a prefix may hold more of them.

    Args:
        option: the flag, for messages.
        values: what was given.

    Raises:
        UsageError: a value has no `=`, no name or no prefix, or a name comes twice.
    """
    named: dict[str, str] = {}
    for value in values:
        name, separator, prefix = value.partition("=")
        if not (separator and name and prefix):
            raise UsageError(f"{option} {value!r} is not NAME=PREFIX", fix=f"{option} NAME=s3://bucket/folder/")
        if name in named:
            raise UsageError(f"{option} {name}=… is given twice: {named[name]!r} and {prefix!r}")
        named[name] = prefix
    return named


def chosen_runtime(values: Mapping[str, object]) -> str:
    """Returns the runtime that `--runtime`, `--use-ray` and `--use-actor` name together.

    Args:
        values: options by parameter name.

    Raises:
        UsageError: they name different ones.
    """
    named = {name for flag, name in (("use_ray", "ray"), ("use_actor", "actor")) if values.get(flag)}
    given = str(values["runtime"])
    if len(named) > 1 or (named and given not in ("auto", *named)):
        flags = [f"--use-{name}" for name in sorted(named)] + ([f"--runtime {given}"] if given != "auto" else [])
        raise UsageError(f"{' and '.join(flags)} contradict each other", "one of them")
    return named.pop() if named else given

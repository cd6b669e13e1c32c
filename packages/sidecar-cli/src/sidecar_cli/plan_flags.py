"""The options of `sidecar plan`."""

from __future__ import annotations

from sidecar_runtimes.job_options import SET
from sidecar_runtimes.options import COMMON_OPTIONS, MOST_CORES, MOST_MEMORY_GB, Option
from sidecar_runtimes.sizing import RAY_MEMORY_FRACTION

_RATE, _WORKER, _NODES = "Rate", "Each worker", "Nodes"
# what is beyond these is a slip of the hand, and no arithmetic on what is within them overflows
MOST_ROWS = 10**15
_SLOWEST_SHARDS_PER_S, _FASTEST_SHARDS_PER_S = 1e-6, 1_000_000
_LEAST_MEMORY_GB = 0.01
_MOST_NODES = 1_000_000
_MOST_USD = 1_000_000

PLAN_OPTIONS: tuple[Option, ...] = (
    SET,
    Option(
        "--smoke",
        "measure so many shards here first; the output is thrown away",
        _RATE,
        type=int,
        metavar="N",
        least=1,
    ),
    Option(
        "--observed-rate",
        "shards a second that a run was seen to make",
        _RATE,
        type=float,
        metavar="RATE",
        least=_SLOWEST_SHARDS_PER_S,
        most=_FASTEST_SHARDS_PER_S,
    ),
    Option(
        "--observed-actors",
        "actors, or tasks at a time, of that run",
        _RATE,
        type=int,
        metavar="N",
        least=1,
        most=MOST_CORES,
    ),
    Option(
        "--rows-per-shard",
        "rows of a shard; default as the dataset's first shards have",
        _RATE,
        type=int,
        metavar="N",
        least=1,
        most=MOST_ROWS,
    ),
    Option("--rows", "also say how long so many rows take", _RATE, type=int, metavar="N", least=1, most=MOST_ROWS),
    Option(
        "--actor-cpus",
        "cores that each actor or task reserves",
        _WORKER,
        type=int,
        default=1,
        metavar="N",
        least=1,
        most=MOST_CORES,
    ),
    Option(
        "--actor-memory-gb",
        "GiB that each reserves; default what the smoke run needed, and a quarter more",
        _WORKER,
        type=float,
        metavar="GIB",
        least=_LEAST_MEMORY_GB,
        most=MOST_MEMORY_GB,
    ),
    Option("--instance-type", "kind of the worker nodes", _NODES, default="m5.24xlarge", metavar="NAME"),
    Option("--instance-types", "YAML file with further kinds of nodes", _NODES, metavar="FILE"),
    Option(
        "--memory-fraction",
        "share of a node's memory that Ray gives to workers",
        _NODES,
        type=float,
        default=RAY_MEMORY_FRACTION,
        metavar="FRACTION",
        above=0,
        most=1,
    ),
    Option(
        "--usd-per-hour",
        "price of a node and hour; default the table's",
        _NODES,
        type=float,
        metavar="USD",
        above=0,
        most=_MOST_USD,
    ),
    Option(
        "--nodes",
        "worker nodes that are to be had; the workers and hours at that scale are said too, and --write is for it",
        _NODES,
        type=int,
        metavar="N",
        least=1,
        most=_MOST_NODES,
    ),
    *COMMON_OPTIONS,
)

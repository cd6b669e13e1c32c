"""The options of `sidecar plan`."""

from __future__ import annotations

from sidecar_runtimes.options import COMMON_OPTIONS, Option
from sidecar_runtimes.sizing import RAY_MEMORY_FRACTION

_RATE, _WORKER, _NODES = "Rate", "Each worker", "Nodes"

PLAN_OPTIONS: tuple[Option, ...] = (
    Option("--smoke", "measure so many shards here first; the output is thrown away", _RATE, type=int, metavar="N"),
    Option("--observed-rate", "shards a second that a run was seen to make", _RATE, type=float, metavar="RATE"),
    Option("--observed-actors", "actors, or tasks at a time, of that run", _RATE, type=int, metavar="N"),
    Option(
        "--rows-per-shard",
        "rows of a shard; default as the dataset's first shards have",
        _RATE,
        type=int,
        metavar="N",
    ),
    Option("--rows", "also say how long so many rows take", _RATE, type=int, metavar="N"),
    Option("--actor-cpus", "cores that each actor or task reserves", _WORKER, type=int, default=1, metavar="N"),
    Option(
        "--actor-memory-gb",
        "GiB that each reserves; default what the smoke run needed, and a quarter more",
        _WORKER,
        type=float,
        metavar="GIB",
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
    ),
    Option("--usd-per-hour", "price of a node and hour; default the table's", _NODES, type=float, metavar="USD"),
    Option(
        "--nodes",
        "worker nodes that are to be had; the workers and hours at that scale are said too",
        _NODES,
        type=int,
        metavar="N",
    ),
    *COMMON_OPTIONS,
)

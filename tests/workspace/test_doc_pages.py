"""Every command of every page in docs/ and of every README is run as it stands there, in the page's order.

A page's folder has what the page says is there, no more. What cannot be run here is marked in the page, on the line
above its block, `<!-- not run: why -->`, and listed below.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.command_table import COMMANDS
from sidecar_core.storage.s3 import PART_BYTES, SINGLE_PUT_BYTES
from sidecar_core.storage.s3_client import RetryPolicy

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/README.md"),
    )
)
# What is not run: a page, and the beginning of a block.
NOT_RUN = {
    ("README.md", "./sidecar demo"),
    ("docs/deploying.md", "deploy/build_and_push.sh"),
    ("docs/deploying.md", "ci/pins.sh"),
    ("docs/deploying.md", "# was: --runtime actor"),
    ("docs/ray.md", "export RAY_ADDRESS"),
    ("docs/reading.md", "import torch"),
    ("packages/sidecar-cli/README.md", "uv add"),
    ("packages/sidecar-core/README.md", "uv add"),
    ("packages/sidecar-runtimes/README.md", "uv add"),
}
# Pages that modules of their own run: their blocks are files of a package, or a format that is looked at closely.
RUN_ELSEWHERE = {"docs/adding-a-filter.md", "docs/adding-a-side-input.md", "docs/sidecar-format.md"}
RUN = set()  # pages that a test below runs
LANGUAGES = {"sh", "console", "python", "yaml", "toml", "text", ""}
SOME_JSON = json.dumps({"objects": [{"label": "cat", "bbox": [100, 100, 600, 700]}]})


def rows(count, picture, *, first=0, bad=b"<html>not a picture</html>", **columns):
    """Returns columns with keys and pictures; every fifth picture is a bad one."""
    keys = [f"cats/{first + number:04}.jpg" for number in range(count)]
    pictures = [picture if number % 5 else bad for number in range(count)]
    return {"image_key": keys, "image": pictures, **columns}


def write(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def write_yaml(folder, name, *, main, operations, **dataset):
    """Writes configs/datasets/NAME.yaml and configs/pipelines/NAME.yaml."""
    for part in ("datasets", "pipelines"):
        (folder / "configs" / part).mkdir(parents=True, exist_ok=True)
    held = {
        "name": name,
        "main_prefix": str(main),
        "sidecar_prefix": f"{str(main).rstrip('/')}_sidecar",
        "key_column": "image_key",
        "image_column": "image",
        **dataset,
    }
    (folder / f"configs/datasets/{name}.yaml").write_text(json.dumps(held))
    (folder / f"configs/pipelines/{name}.yaml").write_text(json.dumps({"dataset": name, "operations": operations}))


def copy_configs(folder):
    shutil.copytree(ROOT / "configs", folder / "configs")


def upload(client, folder, prefix):
    for path in sorted(folder.rglob("*.parquet")):
        client.upload_file(str(path), "example-bucket", f"{prefix}/{path.relative_to(folder).as_posix()}")


def runs(*paths):
    """Returns a decorator that says which pages a test runs."""
    RUN.update(paths)
    return lambda test: test


A_CLUSTER = """
import sys
from sidecar_runtimes.ray_cluster import load_ray

ray = load_ray()
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
print("address", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""
MEASURE = [{"type": "compute_filters", "filters": ["luma", "clarity"]}]


# --- every page ---


@pytest.mark.parametrize("path", PAGES)
def test_what_is_not_run_is_listed_here(doc_page, path):
    page = doc_page(path)
    assert {block.language for block in page.blocks} <= LANGUAGES
    marked = [block for block in page.blocks if block.not_run is not None]
    listed = {(where, begins) for where, begins in NOT_RUN if where == path}
    assert len(marked) == len(listed)
    assert all(any(block.text.startswith(begins) for _, begins in listed) for block in marked)
    marks = re.findall("^<!-- not run", page.text, re.MULTILINE)
    assert len(marks) == len(marked), "a mark is not right above its block"
    if any(block.is_run for block in page.blocks):
        assert path in RUN | RUN_ELSEWHERE or path.startswith("docs/api/"), f"no test runs {path}"


@pytest.mark.parametrize("path", PAGES)
def test_links_lead_somewhere(doc_page, path):
    text = doc_page(path).text
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r"<img src=\"([^\"]+)\"", text)]:
        where, _, anchor = target.partition("#")
        if where.startswith(("http:", "https:", "mailto:")):
            continue
        found = (ROOT / path).parent / where if where else ROOT / path
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("path", PAGES)
def test_commands_that_pages_name_are_commands(doc_page, path):
    named = re.findall(r"`(?:\./)?sidecar ([a-z][\w-]*)", doc_page(path).text)
    named += re.findall(r"^(?:\./)?sidecar ([a-z][\w-]*)", doc_page(path).text, re.MULTILINE)
    assert set(named) <= {command.name for command in COMMANDS}


def test_the_index_leads_to_every_page(doc_page):
    linked = {f"docs/{target}" for target in re.findall(r"\]\(([\w/.-]+)\)", doc_page("docs/README.md").text)}
    pages = {path for path in PAGES if path.startswith("docs/") and not path.startswith("docs/api/")}
    assert pages - linked == {"docs/README.md"}


def anchors(text):
    headlines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", headline.lower()).replace(" ", "-") for headline in headlines}


def test_options_that_pages_name_are_options(doc_page):
    known = set(re.findall(r"--[a-z][a-z0-9-]+", doc_page("docs/reference/commands.md").text))
    others = {
        "docs/deploying.md": {
            "--build-arg",
            "--image",
            "--ray",
            "--no-push",
            "--base",
            "--network",
            "--no-deps",
            "--keep",
            "--upgrade",
        },
        "docs/releasing.md": {"--tag", "--keep"},
        "docs/s3.md": {"--profile"},
        "CONTRIBUTING.md": {
            "--no-push",
            "--with",
            "--runs",
            "--runtimes",
            "--stores",
            "--hits",
            "--keep",
            "--all-packages",
        },
        "packages/sidecar-cli/README.md": {"--help"},
        "README.md": {"--help"},
        "docs/reference/commands.md": {"--help"},
    }
    for path in PAGES:
        if path.startswith("docs/api/") or path == "docs/performance.md":
            continue
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", doc_page(path).text))
        assert named - known - others.get(path, set()) == set(), path


@pytest.mark.parametrize("path", PAGES)
def test_every_fence_is_seen(doc_page, path):
    """A block that is indented, or whose language has something behind it, would be run by nobody."""
    page = doc_page(path)
    fences = re.findall(r"^ *(?:```+|~~~+)(.*)$", page.text, re.MULTILINE)
    languages = [fence for fence in fences if fence.split()[:1] and fence.split()[0] in {"sh", "console", "python"}]
    assert languages == [block.language for block in page.blocks if block.language in {"sh", "console", "python"}]


# --- page by page ---


@runs("README.md")
def test_readme(doc_page, tmp_path, picture):
    (tmp_path / "sidecar").write_text('#!/bin/sh\nSIDECAR_PROGRAM="$0" exec sidecar "$@"\n')
    (tmp_path / "sidecar").chmod(0o755)
    copy_configs(tmp_path)
    (tmp_path / "Pictures").mkdir()
    for number in range(4):
        (tmp_path / f"Pictures/{number}.jpg").write_bytes(picture if number else b"<html>")
    doc_page("README.md").run(tmp_path)
    assert json.loads((tmp_path / "data/my_sidecar/_sidecar/verify.json").read_text())["passed"]
    assert (tmp_path / "data/my_sidecar/_sidecar/report.html").is_file()


@runs("docs/boxes.md")
def test_boxes(doc_page, tmp_path, picture):
    page = doc_page("docs/boxes.md")
    page.write_files(tmp_path)
    main = rows(9, picture, structured_description=[SOME_JSON] * 9)
    write(tmp_path / "data/pets_parquet/part-00000.parquet", main)
    page.run(tmp_path)
    assert "cat" in (tmp_path / "boxes.html").read_text()
    assert list((tmp_path / "boxes").glob("*.png"))


@runs("docs/choosing-a-runtime.md")
def test_choosing_a_runtime(doc_page, tmp_path, picture):
    copy_configs(tmp_path)
    write(tmp_path / "data/example/main/part-0.parquet", rows(2, picture))
    assert "local: no Ray cluster is named" in doc_page("docs/choosing-a-runtime.md").run(tmp_path)


@runs("docs/deploying.md")
def test_deploying(doc_page, tmp_path, picture, s3):
    client, environment = s3
    copy_configs(tmp_path)
    write(tmp_path / "main/part-0.parquet", rows(3, picture))
    upload(client, tmp_path / "main", "main")
    doc_page("docs/deploying.md").run(tmp_path, env=environment)
    there = {each["Key"] for each in client.list_objects_v2(Bucket="example-bucket")["Contents"]}
    for name in ("main_512", "main_1024", "main_filters"):
        assert f"{name}/part-0.parquet" in there
    assert {"main_512/_sidecar/verify-resized.json", "main_filters/_sidecar/verify.json"} <= there


@runs("docs/dirty-data.md")
def test_dirty_data(doc_page, tmp_path, picture):
    write_yaml(tmp_path, "crawl", main=tmp_path / "data/crawl", operations=MEASURE)
    write(tmp_path / "data/crawl/part-0.parquet", rows(6, picture))
    doc_page("docs/dirty-data.md").run(tmp_path)
    assert "not_an_image" in (tmp_path / "data/crawl_try/_sidecar/report.html").read_text()


@runs("docs/own-images.md")
def test_own_images(doc_page, tmp_path, picture):
    (tmp_path / "pets").mkdir()
    for number in range(6):
        (tmp_path / f"pets/pet-{number}.jpg").write_bytes(picture if number else picture[:300])
    pictures = [{"bytes": picture, "path": f"{number}.jpg"} for number in range(6)]
    for part in range(2):
        ids = [f"bird-{part}-{number}" for number in range(6)]
        shard = tmp_path / f"birds/data/train-{part:05}-of-00002.parquet"
        write(shard, {"image": pictures, "label": [1] * 6, "image_id": ids})
    write(tmp_path / "flowers/data/train-00000-of-00001.parquet", {"image": pictures, "label": [1, 2] * 3})
    pages = [f"page {number}" for number in range(4)]
    write(tmp_path / "scans/a.parquet", {"page": pages, "note": pages, "scan": [picture] * 4, "mask": [picture] * 4})
    doc_page("docs/own-images.md").run(tmp_path)
    for sidecar in ("pets_parquet_sidecar", "birds_sidecar", "flowers_sidecar", "scans_512", "scans_1024"):
        assert list((tmp_path / sidecar).rglob("*.parquet")), sidecar


def test_own_images_says_what_init_asks_for(run_in, tmp_path, picture):
    pages = [f"page {number}" for number in range(4)]
    write(tmp_path / "scans/a.parquet", {"page": pages, "note": pages, "scan": [picture] * 4, "mask": [picture] * 4})
    done = run_in(tmp_path, ["sidecar", "init", "choice", "--main-prefix", "scans/"], status=2)
    assert "fix: --key-column page" in done.stderr


@runs("docs/reading.md")
def test_reading(doc_page, run_in, tmp_path, picture):
    write(tmp_path / "data/photos/part-0.parquet", rows(3, picture, caption=["a", "b", "c"]))
    write_yaml(tmp_path, "filters", main=tmp_path / "data/photos", operations=MEASURE)
    upper = [{"type": "cast_columns", "columns": {"caption": "large_string"}}]
    write_yaml(tmp_path, "captions", main=tmp_path / "data/photos", operations=upper)
    for name in ("filters", "captions"):
        pipeline = f"configs/pipelines/{name}.yaml"
        run_in(tmp_path, ["sidecar", "run", pipeline, "--output-prefix", f"data/photos_{name}"])
    shown = doc_page("docs/reading.md").run(tmp_path)
    assert "not_an_image" in shown


@runs("docs/resuming.md")
def test_resuming(doc_page, run_in, tmp_path, picture, s3):
    client, environment = s3
    for part in range(3):
        write(tmp_path / f"pets_parquet/part-{part}.parquet", rows(5, picture, first=5 * part, bad=None))
    write_yaml(tmp_path, "pets", main="s3://example-bucket/pets/", operations=MEASURE)
    upload(client, tmp_path / "pets_parquet", "pets")
    build = ["sidecar", "build-0-262mp", "--main-prefix", "pets_parquet", "--output-prefix", "pets_512"]
    run_in(tmp_path, [*build, "--limit", "1"])
    (manifest,) = (tmp_path / "pets_512/_sidecar/runs").glob("*.json")
    told = json.loads(manifest.read_text())
    told["shards"]["done"] = told["rows"] = 0
    manifest.write_text(json.dumps({**told, "outcome": "running"}))  # as SIGKILL leaves it
    run_in(tmp_path, [*build, "--skip-existing"])

    def somebody_writes():
        now = datetime.now(UTC).isoformat()
        lease = {"run_id": "20261129T164336Z-9298ab", "host": "vm", "pid": 16723, "birth": "0", "machine": "another"}
        lease |= {"since": now, "renewed": now, "beats": 3, "beat_every_s": 10.0, "stale_after_s": 120.0}
        (tmp_path / "pets_512/_sidecar/lease.json").write_text(json.dumps(lease))

    page = doc_page("docs/resuming.md")
    page.run(tmp_path, env=environment, before={"is being written": somebody_writes})
    there = {each["Key"] for each in client.list_objects_v2(Bucket="example-bucket")["Contents"]}
    assert "pets_sidecar/part-2.parquet" in there


@runs("docs/sizing.md")
def test_sizing(doc_page, tmp_path, picture, s3):
    client, environment = s3
    copy_configs(tmp_path)
    for part in range(4):
        write(tmp_path / f"main/part-{part}.parquet", rows(3, picture))
    upload(client, tmp_path / "main", "main")
    shown = doc_page("docs/sizing.md").run(tmp_path, env=environment)
    assert "1,447" in shown
    assert re.search(r"nodes\D+33\b", shown)


@runs("docs/s3.md")
def test_s3(doc_page, tmp_path, picture, s3):
    client, environment = s3
    page = doc_page("docs/s3.md")
    page.write_files(tmp_path)
    (tmp_path / "aws-config").write_text("[profile research]\nregion = us-east-1\n")
    (tmp_path / "aws-credentials").write_text("[research]\naws_access_key_id = a\naws_secret_access_key = b\n")
    for part in range(2):
        write(tmp_path / f"photos/part-{part}.parquet", rows(3, picture, first=3 * part))
    upload(client, tmp_path / "photos", "photos")
    shown = page.run(tmp_path, env=environment)
    assert "conditional writes are honoured" in shown
    assert re.search(r"\b2 shards aligned", shown)
    there = {each["Key"] for each in client.list_objects_v2(Bucket="example-bucket")["Contents"]}
    assert {"photos_sidecar/part-1.parquet", "photos_team_sidecar/part-0.parquet"} <= there


def test_s3_says_what_is_tried_again(doc_page):
    text = " ".join(doc_page("docs/s3.md").text.split())
    policy = RetryPolicy()
    assert f"up to {policy.attempts} calls, with waits of up to {policy.longest_wait_s:g} s" in text
    assert f"for {policy.give_up_s / 60:g} minutes at most" in text
    assert f"up to {policy.connect_attempts} calls" in text
    assert f"{policy.silence_s:g} s without a byte; a body that moves less than" in text
    assert f"less than {policy.slow_bytes_per_s / 1024:g} KiB/s for a minute" in text
    assert policy.slow_window_s == 60
    assert f"one object up to {SINGLE_PUT_BYTES >> 20} MiB" in text
    assert f"one PUT a part of {PART_BYTES >> 20} MiB" in text


@runs("docs/adding-an-op.md")
def test_adding_an_op(doc_page, tmp_path, picture):
    page = doc_page("docs/adding-an-op.md")
    page.write_files(tmp_path)
    (tmp_path / "my_team/__init__.py").touch()
    write(tmp_path / "data/crawl/a.parquet", rows(3, picture, caption=["a cat", None, "ü" * 80]))
    shown = page.run(tmp_path)
    assert re.search(r"\d\d passed", shown)
    made = pq.read_table(tmp_path / "data/crawl_captions/a.parquet")
    assert made.column("caption_length").to_pylist() == [5, None, 80]
    assert made.column("caption_is_long").to_pylist() == [False, None, True]


@runs("docs/adding-a-struct-type.md")
def test_adding_a_struct_type(doc_page, tmp_path, picture):
    page = doc_page("docs/adding-a-struct-type.md")
    page.write_files(tmp_path)
    write(tmp_path / "data/photos/a.parquet", rows(3, picture))
    rating = {"mean": 4.5, "votes": 2, "by_group": [{"group": "editors", "mean": 5.0}]}
    write(tmp_path / "tables/ratings.parquet", {"image_key": ["cats/0001.jpg"], "rating": [rating]})
    page.run(tmp_path)
    made = pq.read_table(tmp_path / "data/photos_ratings/a.parquet").column("rating").to_pylist()
    assert made == [dict.fromkeys(rating), rating, dict.fromkeys(rating)]


LAPTOP = ("On a laptop", "Cancelling")
CLUSTER = ("On a cluster that is there",)


@pytest.fixture
def ray_folder(tmp_path, picture):
    write_yaml(tmp_path, "photos", main=tmp_path / "data/photos", operations=MEASURE)
    for part in range(3):
        write(tmp_path / f"data/photos/part-{part}.parquet", rows(3, picture))
    return tmp_path


@runs("docs/ray.md")
def test_ray_is_run_in_two_parts(doc_page):
    assert {block.section for block in doc_page("docs/ray.md").blocks if block.is_run} == {*LAPTOP, *CLUSTER}


@pytest.mark.ray
@pytest.mark.slow
def test_ray_on_a_laptop(doc_page, ray_folder):
    doc_page("docs/ray.md").run(ray_folder, env={"RAY_AUTH_MODE": "disabled"}, sections=LAPTOP)
    made = [pq.read_table(ray_folder / f"data/photos_{name}") for name in ("tasks", "actors")]
    assert made[0].num_rows == 9
    assert made[0].equals(made[1])


@pytest.mark.ray
@pytest.mark.slow
def test_ray_on_a_cluster(doc_page, ray_folder, cluster):
    environment = {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": cluster()}
    shown = doc_page("docs/ray.md").run(ray_folder, env=environment, sections=CLUSTER)
    assert "RAY_ADDRESS names a cluster" in shown
    assert pq.read_table(ray_folder / "data/photos_cluster").num_rows == 9


@pytest.fixture
def cluster():
    """Returns a function that starts a cluster in a process of its own and returns its address."""
    with ExitStack() as scope:

        def start():
            process = scope.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", A_CLUSTER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": ""},
                )
            )
            scope.callback(process.stdin.close)  # which ends it
            return next(line.split()[1] for line in process.stdout if line.startswith("address "))

        yield start


@runs("packages/sidecar-cli/README.md")
def test_cli_readme(doc_page, tmp_path, picture):
    (tmp_path / "pets").mkdir()
    for number in range(3):
        (tmp_path / f"pets/{number}.jpg").write_bytes(picture if number < 2 else b"<html>")
    (tmp_path / "pets/0.txt").write_text("a cat")
    (tmp_path / "configs/pipelines").mkdir(parents=True)
    (tmp_path / "configs/pipelines/bad.yaml").write_text(
        "dataset: pets\noperation: []\n\noperations:\n"
        "  - type: extract_scafold\n  - type: drop_columns\n    colums: [a]\n"
    )
    doc_page("packages/sidecar-cli/README.md").run(tmp_path)


@runs(*(f"packages/sidecar-{name}/README.md" for name in ("core", "filters", "resize", "runtimes")))
@pytest.mark.parametrize("name", ["core", "filters", "resize", "runtimes"])
def test_readme_of_a_package(doc_page, tmp_path, picture, name):
    (tmp_path / "picture.jpg").write_bytes(picture)
    doc_page(f"packages/sidecar-{name}/README.md").run(
        tmp_path, prelude='image_bytes = open("picture.jpg", "rb").read()\n'
    )

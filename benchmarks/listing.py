"""L1: listing 100,000 keys and reading the states of 1,509 shards on S3, beside doing so with boto3 alone.

Usage: uv run python benchmarks/listing.py [--keys 100000] [--shards 1509] [--delay-ms 20] [--rounds 3] [--json FILE]

A small server of the S3 protocol on loopback, in a process of its own, lists made-up keys and serves the
files of a folder. Listing is measured at the server's own speed, against boto3's paginator (to a list of keys
and sizes). The states are what `sidecar run --skip-existing` reads before it begins; each request takes 20 ms
longer then, as it would on the way to a real store, and they stand against reading the same footers one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from xml.sax.saxutils import escape

PAGE = 1000
BUCKET = "example-bucket"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=1509)
    parser.add_argument("--delay-ms", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dataset(folder, options.shards)
        with Server(folder, options.keys, 0.0) as url:
            found = alternate(
                options.rounds, lambda: list_ours(url, options.keys), lambda: list_boto(url, options.keys)
            )
            rows.append({"what": f"list {options.keys} keys", **found, "goal": 1.2})
        with Server(folder, 0, options.delay_ms / 1000) as url:
            found = alternate(
                options.rounds, lambda: states(folder, url, options.shards), lambda: footers(url, options.shards)
            )
            rows.append({"what": f"states of {options.shards} shards", **found, "goal": 0.15})
    print(f"{'':26} {'ours s':>8} {'beside s':>9} {'ratio':>7} {'goal':>6}")
    for row in rows:
        print(f"{row['what']:26} {row['ours_s']:>8} {row['beside_s']:>9} {row['ratio']:>7} {row['goal']:>6}")
    report = {
        "workload": "L1",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("boto3", "botocore", "pyarrow", "sidecar-core")},
        "delay_ms": options.delay_ms,
        "results": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def alternate(rounds, ours, beside):
    """Returns the medians of both, run in turn."""
    times: dict[str, list[float]] = {"ours_s": [], "beside_s": []}
    for _ in range(rounds):
        for name, call in (("ours_s", ours), ("beside_s", beside)):
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    medians = {name: round(statistics.median(values), 3) for name, values in times.items()}
    ratios = [mine / theirs for mine, theirs in zip(times["ours_s"], times["beside_s"], strict=True)]
    return {**medians, "ratio": round(statistics.median(ratios), 3), "all": times}


def list_ours(url, keys):
    from sidecar_core.dataset import StorageOptions
    from sidecar_core.storage import open_storage

    storage = open_storage(f"s3://{BUCKET}/listed/", StorageOptions(endpoint_url=url, region="us-east-1"))
    assert len(storage.list_shards()) == keys


def client_of(url):
    import boto3
    from botocore.config import Config

    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))


def list_boto(url, keys):
    client = client_of(url)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="listed/")
    assert len([(item["Key"], item["Size"]) for page in pages for item in page["Contents"]]) == keys
    client.close()


def pipeline_over(folder, url):
    """Returns the pipeline that made the shards, over the bucket."""
    from sidecar_core.pipeline import load_pipeline

    where = f"s3://{BUCKET}/main/" if url else f"{folder}/main/"
    storage = f"storage: {{endpoint_url: '{url}', region: us-east-1}}\n" if url else ""
    (folder / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {where}\nsidecar_prefix: {where.replace('main', 'yaml')}\n"
        f"key_column: image_key\nschema_extensions:\n  - {{name: score, type: float32}}\n{storage}"
    )
    (folder / "pipeline.yaml").write_text("dataset: dataset.yaml\noperations:\n  - {type: extract_scaffold}\n")
    return load_pipeline(folder / "pipeline.yaml")


def make_dataset(folder, shards):
    """Makes a dataset of small shards and a sidecar of it, locally."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

    (folder / "main").mkdir()
    for shard in range(shards):
        keys = [f"{shard:05}-{row:04}" for row in range(150)]
        pq.write_table(pa.table({"image_key": keys}), folder / f"main/part-{shard:05}.parquet")
    options = RunOptions(output_prefix=f"{folder}/out/", runtime="local", workers=1)
    assert execute_run(prepare_run(pipeline_over(folder, None), options)).ok


def states(folder, url, shards):
    """Reads the states as a resumed run does, the footers of the main shards too: they were not on S3 before."""
    from sidecar_core.dataset import StorageOptions
    from sidecar_core.plan import plan_run
    from sidecar_core.storage import open_storage
    from sidecar_runtimes.resume import count_states, stand_of_shards

    pipeline = pipeline_over(folder, url)
    options = StorageOptions(endpoint_url=url, region="us-east-1")
    main_storage = open_storage(f"s3://{BUCKET}/main/", options)
    listed = main_storage.list_shards()
    plan = plan_run(pipeline, main_storage, listed, {pipeline.outputs[0].name: f"s3://{BUCKET}/out/"})
    out = open_storage(f"s3://{BUCKET}/out/", options)
    assert count_states(stand_of_shards(plan, main_storage, [out], listed))["done"] == shards


def footers(url, shards):
    """Reads the same footers one by one: one request each, of the output and of the main shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    client = client_of(url)
    read = 0
    for prefix in ("out", "main"):
        for shard in range(shards):
            key = f"{prefix}/part-{shard:05}.parquet"
            tail = client.get_object(Bucket=BUCKET, Key=key, Range="bytes=-65536")["Body"].read()
            read += pq.read_metadata(pa.BufferReader(tail)).num_rows == 150
    assert read == 2 * shards
    client.close()


class Server:
    """The server, in a process of its own, for a `with` block."""

    def __init__(self, folder, keys, delay_s):
        self._arguments = [sys.executable, __file__, "--serve", str(folder), str(keys), str(delay_s)]

    def __enter__(self):
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.PIPE, text=True)
        return self._process.stdout.readline().strip()

    def __exit__(self, *exc_info):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def serve(folder, keys, delay_s):
    """Serves a folder as a bucket, and below `listed/` keys that are not there."""
    listed = [(f"listed/part-{number // 100:04}/shard-{number:06}.parquet", 1000 + number) for number in range(keys)]
    files = [
        (path.relative_to(folder).as_posix(), path.stat().st_size)
        for top in ("main", "out")
        for path in (folder / top).rglob("*.parquet")
    ]
    contents = sorted(listed + files)
    pages: dict[tuple[str, int], bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            time.sleep(delay_s)
            path, _, query = self.path.partition("?")
            if "list-type=2" in query:
                asked = dict(urllib.parse.parse_qsl(query))
                place = asked.get("prefix", ""), int(asked.get("continuation-token", "0"))
                if place not in pages:
                    pages[place] = listing(contents, *place)
                self.reply(200, pages[place], {"Content-Type": "application/xml"})
                return
            data = (folder / urllib.parse.unquote(path).removeprefix(f"/{BUCKET}/")).read_bytes()
            headers = {"ETag": '"0123456789abcdef0123456789abcdef"', "Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}
            asked = self.headers.get("Range")
            if not asked:
                self.reply(200, data, headers)
                return
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(data) - int(last))
            end = int(last) + 1 if first and last else len(data)
            headers["Content-Range"] = f"bytes {start}-{min(end, len(data)) - 1}/{len(data)}"
            self.reply(206, data[start:end], headers)

        def reply(self, status, body, headers):
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def listing(contents, prefix, start):
    """Returns a page of a listing, as S3 words it."""
    found = [item for item in contents if item[0].startswith(prefix)]
    items = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
        f'<ETag>"0123456789abcdef0123456789abcdef"</ETag><Size>{size}</Size>'
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for key, size in found[start : start + PAGE]
    )
    more = start + PAGE < len(found)
    token = f"<NextContinuationToken>{start + PAGE}</NextContinuationToken>" if more else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{PAGE}</MaxKeys>"
        f"<EncodingType>url</EncodingType><KeyCount>{min(PAGE, len(found) - start)}</KeyCount>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
    ).encode()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()

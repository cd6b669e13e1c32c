"""Transfers that go on, but too slowly: each byte resets the time after which silence is a failure."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_READ_BYTES = 256 * 1024


class SlowTransferError(TimeoutError):
    """Fewer bytes went over the wire than the least that counts as a transfer."""


class Pacer:
    """Bounds the time of a transfer by its size: at most `size / least_bytes_per_s` seconds, and a window.

    Args:
        least_bytes_per_s: the mean over a window must not be lower.
        window_s: seconds; a transfer may pause within it as it likes.
        clock: seconds that only go up.
    """

    def __init__(
        self, least_bytes_per_s: float, window_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._least_bytes_per_s = least_bytes_per_s
        self._window_s = window_s
        self._clock = clock
        self._began_s = clock()
        self._bytes = 0

    def moved(self, size: int) -> None:
        """Notes that so many bytes came, or went.

        Raises:
            SlowTransferError: a window is over, and too few did in it.
        """
        self._bytes += size
        now_s = self._clock()
        elapsed_s = now_s - self._began_s
        if elapsed_s < self._window_s:
            return
        if self._bytes < self._least_bytes_per_s * elapsed_s:
            raise SlowTransferError(
                f"{self._bytes:,} bytes in {elapsed_s:.1f} s, less than {self._least_bytes_per_s:,.0f} a second"
            )
        self._began_s, self._bytes = now_s, 0

    def restart(self) -> None:
        """Begins anew, for a body that is sent from its start again."""
        self._began_s, self._bytes = self._clock(), 0


class PacedBody:
    """The body of an answer, in place of urllib3's, from which it reads what is there instead of waiting for all.

    Args:
        raw: urllib3's response.
        pacer: of this answer.
    """

    def __init__(self, raw: Any, pacer: Pacer) -> None:  # noqa: ANN401 - botocore's stubs have no type for it
        self._raw = raw
        self._pacer = pacer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._raw, name)

    def read(self, amount: int | None = None) -> bytes:
        """Reads so many bytes, or all that are left."""
        parts: list[bytes] = []
        left = amount
        while left is None or left > 0:
            part: bytes = self._raw.read1(_READ_BYTES if left is None else min(left, _READ_BYTES))
            if not part:
                break
            parts.append(part)
            try:
                self._pacer.moved(len(part))
            except SlowTransferError:
                self._raw.close()  # the rest would come before the next answer on this connection
                raise
            left = None if left is None else left - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stream(self) -> Iterator[bytes]:
        """Yields what is left."""
        while part := self.read(_READ_BYTES):
            yield part


class PacedFile(io.FileIO):
    """A file that is read as fast as its bytes can be sent, and no longer once that is too slow."""

    def __init__(self, path: Path, pacer: Pacer) -> None:
        super().__init__(path, "rb")
        self._pacer = pacer

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self._pacer.moved(len(data))  # whoever reads on has sent what he read before
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._pacer.restart()
        return super().seek(offset, whence)


def pace_answers(api: Any, make_pacer: Callable[[], Pacer]) -> None:  # noqa: ANN401 - boto3 makes its clients' classes while running
    """Has every answer to a client read at a pacer's pace, those that botocore parses included.

    Args:
        api: boto3's client.
        make_pacer: returns the pacer of one answer.
    """
    session: Any = api._endpoint.http_session  # noqa: SLF001 - botocore has no other door

    def send(request: Any, **_: object) -> Any:  # noqa: ANN401
        streamed = request.stream_output
        request.stream_output = True  # or the session reads it itself, before it can be paced
        response = session.send(request)
        response.raw = PacedBody(response.raw, make_pacer())
        if not streamed:
            response.content  # noqa: B018 - reads it, and keeps it
        return response

    api.meta.events.register("before-send.s3", send)

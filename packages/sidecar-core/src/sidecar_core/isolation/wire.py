"""Messages between the parent and one child, over the socket that only these two have.

A message is a fixed header and a pickle. Large bytes are neither joined nor copied before they are
written: the pickler hands them over as they are, and the kernel gathers the parts.

Both sides import this module, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections import deque
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# From the parent.
JOB: Final = 1  # what to call on the rows that follow: (spread, fn, common)
ROW: Final = 2
FORGET: Final = 3  # a job that will have no more rows here
# From the child, one for its start and one for each JOB and ROW, in order.
HELLO: Final = 10
LOADED: Final = 11
LOAD_FAILED: Final = 12
VALUE: Final = 13
RAISED: Final = 14
NO_MEMORY: Final = 15

RETIRING: Final = 1  # flag: the child answers nothing after this message

_MAGIC: Final = b"\xa7s"
_HEADER: Final = struct.Struct("<2sBBIQQ")  # magic, kind, flags, number, extra, length of the body
_PARTS_PER_WRITE: Final = 512  # systems refuse more than 1024
_LARGEST_BODY: Final = 1 << 40
_KEPT_BUFFER_BYTES: Final = 4 << 20


class BrokenChannelError(Exception):
    """What came out of the socket is not what the other side's code writes into it."""


class Message(NamedTuple):
    """A message as it was received.

    Attributes:
        kind: one of the constants of this module.
        flags: RETIRING or 0.
        number: the sender's (parent) or the answered (child) message's number.
        extra: ROW, JOB, FORGET: the job; from the child: where the next row's native stderr begins, in bytes.
        body: a pickle; a small one is valid until the next call of `Receiver.receive`.
    """

    kind: int
    flags: int
    number: int
    extra: int
    body: memoryview


class Outgoing:
    """A message to be written, in parts that refer to the memory of the pickled object."""

    __slots__ = ("number", "parts", "sent", "size")

    def __init__(
        self, kind: int, number: int, body: Sequence[bytes | memoryview] = (), *, flags: int = 0, extra: int = 0
    ) -> None:
        length = sum(map(len, body))
        self.parts: list[bytes | memoryview] = [_HEADER.pack(_MAGIC, kind, flags, number, extra, length), *body]
        self.number = number
        self.size = length + _HEADER.size
        self.sent = False

    def drop(self, written: int) -> None:
        """Removes the first `written` bytes."""
        whole = 0
        for part in self.parts:
            if written < len(part):
                break
            written -= len(part)
            whole += 1
        del self.parts[:whole]
        if written:
            self.parts[0] = memoryview(self.parts[0])[written:]
        self.sent = not self.parts


class Sender:
    """Writes messages in order; on a socket that does not block, as much as goes at once."""

    def __init__(self, write: Callable[[list[bytes | memoryview]], int]) -> None:
        self._write = write
        self._queue: deque[Outgoing] = deque()

    def push(self, message: Outgoing) -> None:
        """Queues a message for `flush`."""
        self._queue.append(message)

    def flush(self) -> bool:
        """Writes until all is written (True) or the socket takes no more (False). Raises OSError."""
        while self._queue:
            message = self._queue[0]
            try:
                message.drop(self._write(message.parts[:_PARTS_PER_WRITE]))
            except BlockingIOError:
                return False
            if message.sent:
                self._queue.popleft()
        return True


class Receiver:
    """Reads messages from a socket; one that would block gives None and goes on where it was."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._header = bytearray(_HEADER.size)
        self._buffer = bytearray()
        self._body: memoryview | None = None
        self._filled = 0
        self.number = 0  # of the message being received, once its header is there

    def receive(self) -> Message | None:
        """Returns the next message.

        Raises:
            EOFError: the other side has closed the socket.
            BrokenChannelError: the bytes are no message.
            MemoryError: there is no room for the message whose header has been read.
        """
        if self._body is None:
            if not self._fill(memoryview(self._header)):
                return None
            magic, kind, _, self.number, _, length = _HEADER.unpack(self._header)
            if magic != _MAGIC or length > _LARGEST_BODY:
                raise BrokenChannelError(f"message of kind {kind} begins with {bytes(self._header)!r}")
            self._body = self._room(length)
        if not self._fill(self._body):
            return None
        _, kind, flags, number, extra, _ = _HEADER.unpack(self._header)
        body, self._body, self._filled = self._body, None, 0
        if len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._buffer = bytearray()  # the message alone keeps a large one
        return Message(kind, flags, number, extra, body)

    def _room(self, length: int) -> memoryview:
        if len(self._buffer) < length:
            self._buffer = bytearray()
            self._buffer = bytearray(length)
        self._filled = 0
        return memoryview(self._buffer)[:length]

    def _fill(self, target: memoryview) -> bool:
        while self._filled < len(target):
            try:
                count = os.readv(self._fd, [target[self._filled :]])
            except BlockingIOError:
                return False
            except ConnectionError as error:  # the other side died with our bytes unread
                raise EOFError from error
            if not count:
                raise EOFError
            self._filled += count
        return True


class _Pickler(pickle.Pickler):
    """Names what a child could not import, and takes memoryviews (they arrive as bytes)."""

    def reducer_override(self, obj: object, /) -> Any:  # noqa: ANN401 - as in pickle
        if isinstance(obj, (FunctionType, BuiltinFunctionType, type)):
            _check_importable(obj)
        elif isinstance(obj, memoryview):
            contiguous = obj.toreadonly() if obj.contiguous else obj.tobytes()
            return bytes, (pickle.PickleBuffer(contiguous),)
        return NotImplemented


def _check_importable(obj: FunctionType | BuiltinFunctionType | type) -> None:
    if obj.__module__ == "__main__":
        raise pickle.PicklingError(f"{obj.__qualname__!r} is defined in __main__, which isolated children never import")
    if "<" in obj.__qualname__:
        raise pickle.PicklingError(
            f"{obj.__qualname__!r} of module {obj.__module__!r} is a lambda or defined inside a function, "
            "which no other process can import"
        )


class _Parts:
    """What a pickler writes: small parts joined by it, large ones as the objects they are."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []

    def write(self, part: bytes | bytearray | memoryview | pickle.PickleBuffer) -> None:
        if isinstance(part, pickle.PickleBuffer):
            part = part.raw()
        self.parts.append(memoryview(part) if isinstance(part, bytearray) else part)


def encode(value: object) -> list[bytes | memoryview]:
    """Returns the pickle of `value` in parts; large bytes in it are referred to, not copied.

    Raises:
        pickle.PicklingError: it holds something that the other process cannot import.
        Exception: whatever else its classes raise while being pickled.
    """
    parts = _Parts()
    _Pickler(parts, protocol=5).dump(value)
    return parts.parts

"""What a row that did not return gets: the facts about it, in words."""

from __future__ import annotations

import io
import pickle
import signal
import sys
from typing import TYPE_CHECKING

from sidecar_core.errors import WorkerCallFailed

if TYPE_CHECKING:
    from sidecar_core.isolation.process import Ending


class FunctionRaised(WorkerCallFailed):
    """The function itself raised.

    Attributes:
        pickled: its exception, when the call was made to have it raised again.
    """

    pickled: bytes | None = None


def crash(
    name: str, seconds: float, ending: Ending, output: str, *, cap_bytes: int, step: str | None
) -> WorkerCallFailed:
    """The child ended while it computed the row; out of memory only when that was measured."""
    at_cap = ending.signal == signal.SIGKILL and ending.peak_bytes is not None and ending.peak_bytes >= cap_bytes
    fact = f"the child {ending} after {seconds:.2f} s"
    memory = ending.memory_text() + (f", cap {_mib(cap_bytes)}" if at_cap else "")
    return WorkerCallFailed(
        f"{name}: {fact}", "out_of_memory" if at_cap else "crashed", _detail(fact, memory, output), ending.signal, step
    )


def timeout(name: str, seconds: float, ending: Ending, output: str, *, step: str | None) -> WorkerCallFailed:
    """The row took longer than it may, and the child was killed."""
    fact = f"no result after {seconds:.2f} s, so the child was killed"
    return WorkerCallFailed(f"{name}: {fact}", "timeout", _detail(fact, ending.memory_text(), output), None, step)


def no_memory(name: str, seconds: float, cap_bytes: int, output: str, *, step: str | None) -> WorkerCallFailed:
    """An allocation failed in the child, which lived to say so."""
    fact = f"an allocation failed after {seconds:.2f} s under the memory cap of {_mib(cap_bytes)}"
    return WorkerCallFailed(f"{name}: {fact}", "out_of_memory", _detail(fact, "", output), None, step)


def raised(name: str, report: tuple[bool, str, str, str, bytes | None, str | None]) -> FunctionRaised:
    """The function raised, or returned what has no pickle.

    `report` is whether it returned, and the exception's class name, text, traceback with native stderr, and pickle,
    and the step that was last noted.
    """
    returned, kind, text, lines, pickled, step = report
    did = "returned what cannot be sent back:" if returned else "raised"
    failure = FunctionRaised(f"{name} {did} {kind}: {text}", "error", lines, None, step)
    failure.pickled = pickled
    return failure


def own_exception(failure: WorkerCallFailed) -> Exception | None:
    """Returns the function's own exception, or None when it cannot be had here.

    Only classes of modules that this process has imported are made: a caller that could catch it has
    imported it, and a parent must not load an image library to be told of its error.
    """
    if not isinstance(failure, FunctionRaised) or failure.pickled is None:
        return None
    try:
        error = _KnownModules(io.BytesIO(failure.pickled)).load()
    except Exception:  # noqa: BLE001 - whatever its class raises; the failure itself is reported instead
        return None
    if not isinstance(error, Exception):  # SystemExit and the like would end the parent
        return None
    error.add_note(f"raised in an isolated child:\n{failure.detail}")
    return error


class _KnownModules(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> object:
        if module_name not in sys.modules:
            raise pickle.UnpicklingError(f"module {module_name!r} is not imported here")
        return super().find_class(module_name, global_name)


def _detail(fact: str, memory: str, output: str) -> str:
    said = f"stderr: {output}" if output else ""
    return "; ".join(part for part in (fact, memory, said) if part)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB"

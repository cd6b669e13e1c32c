"""The thread that owns one child: starts it, feeds it, takes its answers, judges how it ended."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from sidecar_core.errors import IsolationError, WorkerCallFailed
from sidecar_core.isolation import wire
from sidecar_core.isolation.process import ChildProcess
from sidecar_core.isolation.verdicts import crash, no_memory, raised, timeout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.isolation.desk import Desk
    from sidecar_core.isolation.jobs import Job, Row

_TICK_S: Final = 0.1  # how often a silent child's owner looks whether it lives, is still wanted, and writes too much
_ENDING_S: Final = 2.0  # from the end of the socket to the end of the process; freeing memory takes time
_START_PAUSE_S: Final = 0.1
_AHEAD_S: Final = 0.02  # work that a child has in front of it, so that it never waits for the parent
_ROWS_AHEAD: Final = (2, 64)
_BYTES_AHEAD: Final = 8 << 20
_JOBS_PER_CHILD: Final = 8
_LOAD_ATTEMPTS: Final = 3


class _Sent:
    """A message that a child has to answer; the first of them is the one that it is working on."""

    __slots__ = ("job", "message", "row", "since_s")

    def __init__(self, message: wire.Outgoing | None, job: Job | None, row: Row | None) -> None:
        self.message = message  # None: the child's start
        self.job = job
        self.row = row
        self.since_s = time.monotonic()  # when it became the first and was written whole

    @property
    def number(self) -> int:
        return self.message.number if self.message else 0

    @property
    def arrived(self) -> bool:
        return self.message is None or self.message.sent


class Owner(threading.Thread):
    """Serves the desk with one child at a time; lives until the pool is closed, as its child dies with it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="sidecar-isolation", daemon=True)
        self._desk = desk
        self._options = desk.options
        self._child: ChildProcess | None = None
        self._in_flight: deque[_Sent] = deque()
        self._suspect: Row | None = None  # crashed once; to be run alone in a fresh child
        self._known: deque[int] = deque()  # jobs that the child has
        self._numbers = itertools.count(1)
        self._rows_given = 0
        self._bytes_ahead = 0
        self._pace_s = _AHEAD_S

    def run(self) -> None:
        """Serves until the pool is closed."""
        while self._desk.wait_for_work():
            try:
                self._serve()
            except Exception as error:  # noqa: BLE001 - a thread that ends would leave its callers waiting
                self._break_down(error)
        self._end_child()

    def hang_up(self) -> None:
        """Wakes the thread when it waits for its child; may be called from any thread."""
        child = self._child
        if child is not None:
            child.hang_up()

    def _serve(self) -> None:
        if self._child is not None and self._child.wait(0, writing=False):  # it ended while it was idle
            self._child_ended(self._child)
        while not self._desk.closed:
            self._fill()
            if self._child is None:
                if self._suspect is None:
                    return
            elif self._in_flight:
                self._step(self._child)
            elif self._rows_given >= self._options.recycle_rows:
                self._desk.count("recycled")
                self._end_child()
            else:
                return

    def _fill(self) -> None:
        """Gives the child what it should have in front of it, starting one when there is none."""
        if self._suspect is not None:
            if self._suspect.job.over:
                self._suspect = None
            elif self._child is None:
                self._send_row(self._suspect)
            return
        least, most = _ROWS_AHEAD
        window = max(least, min(most, int(_AHEAD_S / max(self._pace_s, 1e-6))))
        while self._rows_given < self._options.recycle_rows:
            ahead = sum(sent.row is not None for sent in self._in_flight)
            if ahead >= window or (ahead and self._bytes_ahead >= _BYTES_AHEAD):
                return
            row = self._desk.take(ahead)
            if row is None or not self._send_row(row):
                return

    def _send_row(self, row: Row) -> bool:
        """Queues a row for the child; returns False when there is no child to be had."""
        try:
            body = row.job.encoded_row(row.index)
        except Exception as error:  # noqa: BLE001 - the caller's, who gave the row
            self._desk.fail(row.job, error)
            return True
        child = self._child or self._start()
        if child is None:
            if row is not self._suspect:
                self._desk.give_back([row])
            return False
        self._introduce(child, row.job)
        self._send(child, wire.ROW, row.job, row, body)
        self._rows_given += 1
        return True

    def _introduce(self, child: ChildProcess, job: Job) -> None:
        if job.number in self._known:
            return
        if len(self._known) >= _JOBS_PER_CHILD:
            child.sender.push(wire.Outgoing(wire.FORGET, 0, extra=self._known.popleft()))
        self._known.append(job.number)
        self._send(child, wire.JOB, job, None, job.payload)

    def _send(
        self, child: ChildProcess, kind: int, job: Job, row: Row | None, body: Sequence[bytes | memoryview]
    ) -> None:
        message = wire.Outgoing(kind, next(self._numbers), body, extra=job.number)
        self._in_flight.append(_Sent(message, job, row))
        self._bytes_ahead += message.size
        child.sender.push(message)

    def _start(self) -> ChildProcess | None:
        try:
            child = ChildProcess(self._options)
        except OSError as error:
            self._desk.start_failed(f"{type(error).__name__}: {error}", "")
            time.sleep(_START_PAUSE_S)
            return None
        self._child = child
        if self._desk.closed:  # it was closed meanwhile, and could not hang up on a child that was not there
            child.hang_up()
        self._in_flight.append(_Sent(None, None, None))
        self._numbers = itertools.count(1)
        return child

    def _step(self, child: ChildProcess) -> None:
        """Waits for the child once, and deals with what it did or did not do."""
        first = self._in_flight[0]
        arrived = first.arrived
        try:
            all_sent = child.sender.flush()
        except OSError:  # it has ended; what it had answered before is still to be read
            all_sent = True
        now = time.monotonic()
        if first.arrived and not arrived:
            first.since_s = now
        limit_s = first.job.timeout_s if first.row is not None and first.job else self._options.start_timeout_s
        if not first.arrived:
            limit_s = self._options.start_timeout_s
        left_s = first.since_s + limit_s - now
        heard = child.wait(max(0.0, min(left_s, _TICK_S)), writing=not all_sent)
        if heard:
            self._receive(child)
            if not self._in_flight or self._in_flight[0] is not first:
                return
        waited_s = time.monotonic() - first.since_s
        if waited_s >= limit_s:
            self._expired(child, first, waited_s)
        elif heard:
            return
        elif first.job is not None and first.job.over:  # nobody waits for it any more
            self._end_child()
        elif child.exited():  # and something that it forked holds the socket
            self._child_ended(child)
        else:
            child.cut_output()

    def _receive(self, child: ChildProcess) -> None:
        """Takes all answers that are there."""
        began_s = self._in_flight[0].since_s
        answered = 0
        try:
            while self._in_flight and (message := child.receiver.receive()) is not None:
                sent = self._in_flight.popleft()
                answered += sent.row is not None
                self._answer(child, sent, message)
                if self._in_flight:
                    self._in_flight[0].since_s = time.monotonic()
                if message.flags & wire.RETIRING:
                    self._desk.count("recycled")
                    self._end_child()
                    return
        except EOFError:
            self._child_ended(child)
            return
        except wire.BrokenChannelError:
            self._child_ended(child, grace_s=0.0)
            return
        if answered:
            self._pace_s = (self._pace_s + (time.monotonic() - began_s) / answered) / 2

    def _answer(self, child: ChildProcess, sent: _Sent, message: wire.Message) -> None:
        if message.number != sent.number:
            self._in_flight.appendleft(sent)
            raise wire.BrokenChannelError(f"answer to message {message.number}")
        if sent.message is not None:
            self._bytes_ahead -= sent.message.size
        if message.kind == wire.HELLO:
            child.note_inherited_peak(pickle.loads(message.body))  # noqa: S301 - from our own code
            self._desk.started()
        elif message.kind == wire.LOAD_FAILED and sent.job is not None:
            name, text, lines = pickle.loads(message.body)  # noqa: S301 - from our own code
            failure = IsolationError(f"{sent.job.name} cannot be loaded in an isolated child: {name}: {text}")
            failure.add_note(f"raised in an isolated child:\n{lines}")
            self._desk.fail(sent.job, failure)
        elif sent.row is not None:
            self._settle(child, sent, sent.row, message)
        child.begin_output(message.extra)

    def _settle(self, child: ChildProcess, sent: _Sent, row: Row, message: wire.Message) -> None:
        name = row.job.name
        if row is self._suspect:
            self._suspect = None
        if message.kind == wire.VALUE:
            try:
                result: object = pickle.loads(message.body)  # noqa: S301 - from our own child
            except Exception as error:  # noqa: BLE001 - its classes may raise anything
                result = WorkerCallFailed(f"{name}: the result cannot be unpickled: {type(error).__name__}: {error}")
        elif message.kind == wire.RAISED:
            result = raised(name, pickle.loads(message.body))  # noqa: S301 - from our own code
        else:
            seconds = time.monotonic() - sent.since_s
            step = pickle.loads(message.body) if message.body else None  # noqa: S301 - from our own code
            result = no_memory(name, seconds, self._options.memory_cap_bytes, child.stderr_tail(), step=step)
        self._desk.settle(row, result)

    def _expired(self, child: ChildProcess, first: _Sent, seconds: float) -> None:
        output, step = child.stderr_tail(), child.step(first.number)
        child.kill()
        ending = child.end()
        if first.row is not None and first.arrived:
            self._in_flight.popleft()
            if first.row is self._suspect:
                self._suspect = None
            self._desk.settle(first.row, timeout(first.row.job.name, seconds, ending, output, step=step))
        else:
            self._desk.count("stalled")
            self._not_ready(first, f"the child did not answer within {seconds:.1f} s", output)
        self._end_child()

    def _child_ended(self, child: ChildProcess, *, grace_s: float = _ENDING_S) -> None:
        """Judges a child whose socket has ended: the row it was computing is the one that pays."""
        ended_s = time.monotonic()
        ending = child.end(grace_s=0.0 if self._desk.closed else grace_s)
        output = child.stderr_tail()
        first = self._in_flight[0] if self._in_flight else None
        if self._desk.closed:
            self._end_child()
            return
        self._desk.count_death(ending.label)
        if first is not None and first.row is not None:
            self._in_flight.popleft()
            seconds, step = ended_s - first.since_s, child.step(first.number)
            cap_bytes = self._options.memory_cap_bytes
            failure = crash(first.row.job.name, seconds, ending, output, cap_bytes=cap_bytes, step=step)
            self._row_crashed(first.row, failure)
        elif first is not None:
            self._not_ready(first, f"the child {ending}", output)
        self._end_child()

    def _row_crashed(self, row: Row, failure: WorkerCallFailed) -> None:
        again = failure.cause == "crashed" and row.index not in row.job.crashed_once
        self._suspect = row if again else None
        if again:
            row.job.crashed_once.add(row.index)
            self._desk.count("retried")
        else:
            self._desk.settle(row, failure)

    def _not_ready(self, first: _Sent, fact: str, output: str) -> None:
        """Takes note of a child that ended before it could compute a row."""
        if first.job is None:
            self._desk.start_failed(fact, output)
            time.sleep(_START_PAUSE_S)
        elif first.row is None:
            first.job.load_failures += 1
            if first.job.load_failures >= _LOAD_ATTEMPTS:
                said = f"; it wrote: {output}" if output else ""
                message = f"{first.job.name} cannot be loaded in an isolated child: {fact}{said}"
                self._desk.fail(first.job, IsolationError(message))

    def _end_child(self) -> None:
        """Ends the child, if there is one, and gives back the rows that it has not begun."""
        child, self._child = self._child, None
        rows = [sent.row for sent in self._in_flight if sent.row is not None and sent.row is not self._suspect]
        self._in_flight.clear()
        self._known.clear()
        self._rows_given = self._bytes_ahead = 0
        if child is not None:
            child.end()
            child.close()
        self._desk.give_back(rows)

    def _break_down(self, error: Exception) -> None:
        for sent in self._in_flight:
            if sent.job is not None:
                self._desk.fail(sent.job, error)
        if self._suspect is not None:
            self._desk.fail(self._suspect.job, error)
            self._suspect = None
        self._end_child()

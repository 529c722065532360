"""The parent's side of one child process: requests, streaming, cancel, heartbeat watch, stop ladder.

No Qt: the command line, the window and the tests use the same code.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Clock
from muniment_runtime.worker.framing import FrameReader, FrameWriter, FramingError
from muniment_runtime.worker.outcome import Cause, ProcessOutcome, classify
from muniment_runtime.worker.protocol import PROTOCOL_VERSION, Emit, Json, Reply, Role
from muniment_runtime.worker.spawn import Process, Spawner

__all__ = ["Child", "Timing"]

_STDERR_BYTES = 64 * 1024
_CODE = re.compile(r"E-[A-Z0-9-]{1,48}")


@dataclass(frozen=True)
class Timing:
    """Budgets in seconds.

    Attributes:
        start_s: Until the greeting.
        hang_s: Silence after which a child counts as hung: three missed heartbeats.
        cancel_grace_s: A cancelled request must end within this, or the child is killed.
        stop_grace_s: Between closing the pipe and the terminate signal.
        terminate_s: Between the terminate and the kill signal.
        poll_s: How often ``cancelled()`` is asked.
    """

    start_s: float = 60.0
    hang_s: float = 3.5
    cancel_grace_s: float = 2.0
    stop_grace_s: float = 2.0
    terminate_s: float = 2.0
    poll_s: float = 0.05


@dataclass
class _Waiter:
    """A caller that waits for the replies to one request. ``None`` in its queue means: the child is gone."""

    native_budget_s: float
    replies: queue.SimpleQueue[Reply | None] = field(default_factory=queue.SimpleQueue)


class Child:
    """One running child process. Thread-safe: several callers may wait for their own requests.

    Args:
        spawner: Starts the process.
        role: What the process is.
        timing: Budgets.
        clock: Monotonic seconds.

    Raises:
        KnownError: ``E-WORKER-START`` when the process cannot be started.
    """

    def __init__(
        self, spawner: Spawner, role: Role, timing: Timing | None = None, clock: Clock = time.monotonic
    ) -> None:
        self.role = role
        self._timing = timing or Timing()
        self._clock = clock
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiters: dict[int, _Waiter] = {}
        self._hello: Json | None = None
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._stop_lock = threading.Lock()
        self._finishing = threading.Lock()
        self._requested = False
        self._reason: Cause | None = None
        self._outcome: ProcessOutcome | None = None
        self._stderr: deque[bytes] = deque()
        self._stderr_bytes = 0
        self._process: Process = spawner.spawn(role)
        self._last_sign_s = clock()
        self._stderr_thread = threading.Thread(target=self._drain_stderr, name=f"{role}-stderr", daemon=True)
        self._stderr_thread.start()
        self._writer = FrameWriter(_pipe(self._process.stdin))
        threading.Thread(target=self._read, name=f"{role}-frames", daemon=True).start()
        threading.Thread(target=self._watch, name=f"{role}-watch", daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs, as far as is known."""
        return not self._ended.is_set()

    def outcome(self) -> ProcessOutcome | None:
        """Return how the process ended, or ``None`` while it runs."""
        return self._outcome

    def hello(self) -> Json:
        """Wait for the greeting and return it: version, pid, capabilities.

        Raises:
            KnownError: ``E-WORKER-DIED`` when the child ended before it was ready.
        """
        while not self._ready.wait(self._timing.poll_s):
            if self._ended.is_set():
                raise self._died()
        assert self._hello is not None
        return dict(self._hello)

    def request(
        self,
        op: str,
        args: Mapping[str, object] | None = None,
        raw: bytes | None = None,
        *,
        on_event: Emit | None = None,
        cancelled: Callable[[], bool] | None = None,
        timeout_s: float | None = None,
        native_budget_s: float = 0.0,
    ) -> Reply:
        """Send one request and wait for its result.

        Args:
            op: Operation of the child's handler.
            args: Plain values.
            raw: Bytes that travel outside JSON.
            on_event: Called in this thread with each event, in order.
            cancelled: Asked at least every 50 ms; once true, the request is cancelled in the child.
            timeout_s: Longest wait; then the request is cancelled, and the child killed if that does not help.
            native_budget_s: Longest silence while this request is in flight, for native calls that may keep even
                the heartbeat from running, such as loading a model.

        Raises:
            KnownError: What the child reported; ``E-CANCELLED``; ``E-WORKER-TIMEOUT``; ``E-WORKER-DIED`` with
                its cause when the child ended.
        """
        waiter = _Waiter(native_budget_s)
        with self._lock:
            if self._ended.is_set() or self._requested:
                raise self._died()
            number = next(self._numbers)
            self._waiters[number] = waiter
        finished = False
        try:
            self._send({**(args or {}), "op": op, "id": number}, raw)
            reply = self._await(number, waiter, on_event, cancelled, timeout_s)
            finished = True
        finally:
            with self._lock:
                self._waiters.pop(number, None)
            if not finished:
                # Perhaps the caller's own code failed in an event: nobody will read the rest, so the child need not go
                # on. A request that has ended already takes no notice.
                self._cancel(number)
        return reply

    def stop(self) -> ProcessOutcome:
        """End the process: cancel and close the pipe, wait, terminate, kill. Never hangs; idempotent."""
        with self._stop_lock:
            with self._lock:
                # A child that died before is not "stopped".
                self._requested = self._requested or not self._ended.is_set()
            if not self._ended.is_set():
                self._go_down()
        assert self._outcome is not None
        return self._outcome

    def kill(self, reason: Cause | None = None) -> None:
        """End the process at once; waiting callers learn it as ``E-WORKER-DIED``."""
        with self._lock:
            if self._ended.is_set():
                return
            if reason is None:
                self._requested = True
            elif self._reason is None:
                self._reason = reason
        self._process.kill()

    def _go_down(self) -> None:
        # The end of the pipe cancels everything in the child. A writer that is stuck on a full pipe holds the lock:
        # then the pipe cannot be closed, and signals follow.
        if self._writer.close(self._timing.stop_grace_s / 4) and self._ended.wait(self._timing.stop_grace_s):
            return
        self._process.terminate()
        if self._ended.wait(self._timing.terminate_s):
            return
        self._process.kill()
        if not self._ended.wait(self._timing.terminate_s):
            # Something inherited the pipe's other end, so the reader waits on: the process itself is gone.
            self._finish()

    def _send(self, message: Json, raw: bytes | None) -> None:
        try:
            self._writer.send(message, raw)
        except FramingError:
            raise KnownError("E-WORKER-REQUEST-SIZE") from None
        except OSError:
            # The reader sees the same end and knows why; it wakes every waiter.
            return

    def _cancel(self, number: int) -> None:
        try:
            self._writer.send({"op": "cancel", "target": number})
        except OSError:
            return

    def _await(
        self,
        number: int,
        waiter: _Waiter,
        on_event: Emit | None,
        cancelled: Callable[[], bool] | None,
        timeout_s: float | None,
    ) -> Reply:
        deadline = None if timeout_s is None else self._clock() + timeout_s
        grace_end: float | None = None
        timed_out = False
        polling = cancelled is not None or deadline is not None
        while True:
            try:
                reply = waiter.replies.get(timeout=self._timing.poll_s if polling else None)
            except queue.Empty:
                reply = ({}, None)
            if reply is None:
                raise self._late() if timed_out else self._died()
            message, raw = reply
            kind = message.get("kind")
            if kind == "event" and on_event is not None:
                on_event(message, raw)
            elif timed_out and kind in {"result", "error"}:
                # Whatever it is, it was cut short by our cancel.
                raise self._late()
            elif kind == "result":
                return message, raw
            elif kind == "error":
                raise _reported(message)
            now = self._clock()
            if grace_end is None:
                timed_out = deadline is not None and now >= deadline
                if timed_out or (cancelled is not None and cancelled()):
                    self._cancel(number)
                    grace_end = now + self._timing.cancel_grace_s
            elif not self._ready.is_set():
                # It still starts, which has its own budget, and cannot know of the cancel yet.
                grace_end = now + self._timing.cancel_grace_s
            elif now >= grace_end:
                # It does not listen any more. Its next life will.
                self.kill(Cause.HANG)
                grace_end = now + self._timing.cancel_grace_s

    def _late(self) -> KnownError:
        return KnownError("E-WORKER-TIMEOUT", role=self.role)

    def _died(self) -> KnownError:
        outcome = self._outcome
        cause = outcome.cause if outcome is not None else Cause.STOPPED
        return KnownError("E-WORKER-DIED", role=self.role, cause=str(cause))

    def _read(self) -> None:
        with _pipe(self._process.stdout) as stream:
            reader = FrameReader(stream)
            try:
                while (reply := reader.read()) is not None:
                    self._dispatch(reply)
            except FramingError:
                self.kill(Cause.PROTOCOL)
        self._finish()

    def _dispatch(self, reply: Reply) -> None:
        message, _ = reply
        self._last_sign_s = self._clock()
        kind = message.get("kind")
        if kind == "hello":
            if message.get("version") != PROTOCOL_VERSION:
                raise FramingError("another protocol version")
            self._hello = message
            self._ready.set()
        elif kind in {"event", "result", "error"}:
            number = message.get("id")
            with self._lock:
                waiter = self._waiters.get(number) if isinstance(number, int) else None
            # Replies to a caller that has left already are dropped.
            if waiter is not None:
                waiter.replies.put(reply)
        elif kind != "heartbeat":
            raise FramingError("unknown kind of message")

    def _finish(self) -> None:
        """Reap the process, classify its end, wake everyone. Only the first call does anything."""
        if not self._finishing.acquire(blocking=False):
            self._ended.wait(self._timing.terminate_s)
            return
        try:
            returncode = self._process.wait(self._timing.stop_grace_s)
        except subprocess.TimeoutExpired:
            # It closed its output and lives on: useless, and not to be left behind.
            self._process.kill()
            returncode = self._process.wait()
        self._stderr_thread.join(1.0)
        self._writer.close(0.0)
        with self._lock:
            reason = self._reason
            if reason is None and not self._ready.is_set() and not self._requested and returncode > 0:
                reason = Cause.START
            self._outcome = classify(
                returncode, b"".join(tuple(self._stderr)), requested=self._requested, reason=reason
            )
            self._ended.set()
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.replies.put(None)

    def _drain_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        descriptor = stream.fileno()
        with stream:
            while data := _read_some(descriptor):
                self._stderr.append(data)
                self._stderr_bytes += len(data)
                while self._stderr_bytes > _STDERR_BYTES and len(self._stderr) > 1:
                    self._stderr_bytes -= len(self._stderr.popleft())

    def _watch(self) -> None:
        """Kill the child when it has shown no sign of life for longer than allowed."""
        tick_s = self._timing.hang_s / 8
        before_s = self._clock()
        while not self._ended.wait(tick_s):
            now_s = self._clock()
            if now_s - before_s > tick_s + self._timing.hang_s / 2:
                # This process itself stood still (the laptop slept): the child's silence proves nothing.
                self._last_sign_s = now_s
            before_s = now_s
            with self._lock:
                native_s = max((waiter.native_budget_s for waiter in self._waiters.values()), default=0.0)
            allowed_s = max(self._timing.hang_s, native_s) if self._ready.is_set() else self._timing.start_s
            if self._clock() - self._last_sign_s > allowed_s:
                self.kill(Cause.HANG)
                return


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 8192)
    except OSError:
        return b""


def _reported(message: Json) -> KnownError:
    """Return the error that the child reported. A child is not trusted: only plain, expected shapes pass."""
    code = message.get("code")
    params = message.get("params")
    if not isinstance(code, str) or not _CODE.fullmatch(code) or not isinstance(params, dict):
        return KnownError("E-WORKER-PROTOCOL")
    plain = {
        key: value for key, value in params.items() if isinstance(key, str) and isinstance(value, (str, int, float))
    }
    return KnownError(code, **plain)

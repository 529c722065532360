"""The generic child process: frames in, one handler, frames out.

Three threads: the caller of ``serve`` owns the handler and runs one request at a time; a reader takes requests and
cancels, and ends the process when the parent is gone, even while the owner sits in a native call; a heart beats
once a second, so that a frozen process differs from a busy one.
"""

from __future__ import annotations

import faulthandler
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import IO

from muniment_resources.errors import KnownError
from muniment_runtime.worker.framing import FrameReader, FrameWriter, FramingError
from muniment_runtime.worker.protocol import CANCELLED, PROTOCOL_VERSION, Handler, Json

__all__ = ["HEARTBEAT_S", "claim_pipes", "serve", "traceback_without_values"]

HEARTBEAT_S = 1.0
_CLOSE_GRACE_S = 0.5
"""How long a handler may take to free its things once the parent is gone, before the process just ends."""

_EXIT_OK = 0
_EXIT_FRAMING = 3
_EXIT_PIPE = 4


def claim_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Take the protocol's pipes away from descriptors 0 and 1 and return them as (stdin, stdout).

    Afterwards 1 is the error stream and 0 is empty, so nothing that a native library prints can ever corrupt the
    protocol, and nothing can read from it. Call before any heavy import.
    """
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    faulthandler.enable(file=sys.stderr)
    return stdin, stdout


def traceback_without_values(error: BaseException) -> str:
    """Return exception types and frames, innermost last, without messages or source: those may quote documents."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines.append(type(current).__name__)
        for frame in traceback.extract_tb(current.__traceback__):
            lines.append(f"  {PurePath(frame.filename).name}:{frame.lineno} in {frame.name}")
        current = current.__cause__ or current.__context__
    return "\n".join(lines)


class _Request:
    """One request between its arrival and its reply."""

    def __init__(self, number: int, op: str, args: Mapping[str, object]) -> None:
        self.number = number
        self.op = op
        self.args = args
        self.cancel = threading.Event()


class _Host:
    """State shared by the three threads."""

    def __init__(
        self, handler: Handler, stdin: IO[bytes], stdout: IO[bytes], heartbeat_s: float, end: Callable[[int], None]
    ) -> None:
        self._handler = handler
        self._reader = FrameReader(stdin)
        self._writer = FrameWriter(stdout)
        self._heartbeat_s = heartbeat_s
        self._end = end
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: dict[int, _Request] = {}
        self._running: _Request | None = None
        self._closed = threading.Event()
        self._parent = os.getppid()

    def send(self, message: Mapping[str, object], raw: bytes | None = None) -> None:
        """Write a message; the end of the pipe is the end of the process."""
        try:
            self._writer.send(message, raw)
        except OSError:
            self._end(_EXIT_PIPE)

    def run(self, hello: Mapping[str, object]) -> None:
        """Serve until the reader says that the parent is gone."""
        self.send({**hello, "kind": "hello", "version": PROTOCOL_VERSION, "pid": os.getpid()})
        threading.Thread(target=self._read, name="frames", daemon=True).start()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        while (request := self._queue.get()) is not None:
            with self._lock:
                if self._waiting.pop(request.number, None) is None:
                    continue  # cancelled while it waited, and already answered
                self._running = request
            self._serve_one(request)
            with self._lock:
                self._running = None
        try:
            self._handler.close()
        finally:
            self._closed.set()

    def _serve_one(self, request: _Request) -> None:
        def emit(event: Json, raw: bytes | None) -> None:
            self.send({**event, "kind": "event", "id": request.number}, raw)

        try:
            result, raw = self._handler.handle(request.op, request.args, emit, request.cancel.is_set)
            self.send({**result, "kind": "result", "id": request.number}, raw)
        except KnownError as error:
            self._fail(request, error.code, dict(error.params))
        except MemoryError:
            self._fail(request, "E-WORKER-MEMORY", {})
        except FramingError:
            self._fail(request, "E-WORKER-REPLY-SIZE", {})
        except Exception as error:  # the boundary: the child survives, the parent learns the type
            sys.stderr.write(f"E-WORKER-BUG in {request.op}\n{traceback_without_values(error)}\n")
            sys.stderr.flush()
            self._fail(request, "E-WORKER-BUG", {"type": type(error).__name__})

    def _fail(self, request: _Request, code: str, params: Json) -> None:
        self.send({"kind": "error", "id": request.number, "code": code, "params": params})

    def _read(self) -> None:
        status = _EXIT_OK
        try:
            while (message := self._reader.read()) is not None:
                self._take(*message)
        except FramingError as error:
            sys.stderr.write(f"E-WORKER-PROTOCOL {error}\n")
            sys.stderr.flush()
            status = _EXIT_FRAMING
        with self._lock:
            requests = [*self._waiting.values(), *([self._running] if self._running else [])]
            self._waiting.clear()
        for request in requests:
            request.cancel.set()
        self._queue.put(None)
        self._closed.wait(_CLOSE_GRACE_S)
        self._end(status)

    def _take(self, message: Json, raw: bytes | None) -> None:
        op = message.pop("op", None)
        if op == "cancel":
            self._cancel(message.get("target"))
            return
        number = message.pop("id", None)
        if not isinstance(op, str) or not isinstance(number, int) or isinstance(number, bool):
            raise FramingError("request without id or op")
        if raw is not None:
            message["raw"] = raw
        request = _Request(number, op, message)
        with self._lock:
            self._waiting[number] = request
        self._queue.put(request)

    def _cancel(self, target: object) -> None:
        with self._lock:
            if self._running is not None and self._running.number == target:
                self._running.cancel.set()
                return
            # A request that has not begun is answered at once: it must not wait for the one before it.
            request = self._waiting.pop(target, None) if isinstance(target, int) else None
        if request is not None:
            self._fail(request, CANCELLED, {})

    def _beat(self) -> None:
        while not self._closed.wait(self._heartbeat_s):
            if os.getppid() != self._parent:
                # The pipe alone would not tell when something else inherited its other end.
                self._end(_EXIT_OK)
            self.send({"kind": "heartbeat"})


def _leave(status: int) -> None:
    """End the process now, from whichever thread: the owner may sit in a native call for a long time."""
    os._exit(status)


def serve(
    handler: Handler,
    stdin: IO[bytes],
    stdout: IO[bytes],
    *,
    hello: Mapping[str, object] | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    end: Callable[[int], None] = _leave,
) -> None:
    """Serve requests until the parent closes the pipe or dies; then the process ends.

    Args:
        handler: Runs in the calling thread only, one request at a time.
        stdin: Requests, as ``claim_pipes`` returns it.
        stdout: Replies.
        hello: Further members of the greeting, such as the active capabilities.
        heartbeat_s: Seconds between two heartbeats.
        end: Ends the process with a status, called from any thread.
    """
    _Host(handler, stdin, stdout, heartbeat_s, end).run(hello or {})

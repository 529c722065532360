"""Runs blocking service calls on threads and brings their results to the main thread.

There is one thread per lane, so calls of one lane follow each other and lanes never wait for each other. The only
way back is one queued signal that carries a callable: everything a widget sees happens on the main thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from muniment_resources.errors import KnownError

__all__ = ["Lane", "Mailbox", "Task", "Tasks"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Lane(StrEnum):
    """A thread. Questions, indexing, short reads, and long work on models and the audit log."""

    ASK = "ask"
    INDEX = "index"
    READ = "read"
    LONG = "long"


class Task:
    """A handle on submitted work: the main thread cancels, the service asks ``cancelled()``."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._cancelled = threading.Event()
        self._on_cancel: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def cancelled(self) -> bool:
        """Return whether the work should end as soon as it can. Safe on every thread."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask the work to end. Safe on every thread."""
        with self._lock:
            self._cancelled.set()
            actions, self._on_cancel = self._on_cancel, []
        for action in actions:
            action()

    def on_cancel(self, action: Callable[[], None]) -> None:
        """Run ``action`` on cancellation, at once if that has happened already."""
        with self._lock:
            if not self._cancelled.is_set():
                self._on_cancel.append(action)
                return
        action()


class Tasks(QObject):
    """Owner of the lanes. Lives on the main thread."""

    _call = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._closed = False
        self._live: set[Task] = set()
        self._live_lock = threading.Lock()
        self._queues: dict[Lane, queue.SimpleQueue[Callable[[], None] | None]] = {}
        self._threads: dict[Lane, threading.Thread] = {}
        self._call.connect(self._run, Qt.ConnectionType.QueuedConnection)

    def submit(
        self,
        lane: Lane,
        work: Callable[[Task], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> Task:
        """Run ``work`` on a lane; exactly one of ``done`` and ``failed`` follows on the main thread.

        After ``close`` neither follows.
        """
        task = Task(lane)
        with self._live_lock:
            self._live.add(task)

        def run() -> None:
            try:
                result = work(task)
            except Exception as error:
                if not isinstance(error, KnownError):
                    _LOG.exception("work on lane %s failed", lane)
                outcome = error
                self._finish(task, lambda: failed(outcome))
            else:
                self._finish(task, lambda: done(result))

        self._queue(lane).put(run)
        return task

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the main thread soon. Safe on every thread; dropped after ``close``."""
        if self._closed:
            return
        try:
            self._call.emit(action)
        except RuntimeError:
            _LOG.debug("message after the end of the window")

    def ask_main(self, task: Task, question: Callable[[Callable[[T | None], None]], None]) -> T | None:
        """Put a question to the user from a lane and wait for the reply.

        Args:
            task: The task that asks; its cancellation answers ``None``.
            question: Called on the main thread with the function that takes the reply.
        """
        replies: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        task.on_cancel(lambda: replies.put(None))
        self.post(lambda: question(replies.put))
        return replies.get()

    def busy(self, *lanes: Lane) -> bool:
        """Return whether work is queued, running or undelivered on one of ``lanes`` (any lane when none is named)."""
        with self._live_lock:
            return any(not lanes or task.lane in lanes for task in self._live)

    def close(self, timeout_s: float) -> bool:
        """Cancel everything and wait for the lanes, in all no longer than ``timeout_s``.

        Returns:
            Whether all lanes have ended. They are daemon threads: one that hangs does not keep the process.
        """
        self._closed = True
        with self._live_lock:
            live = list(self._live)
        for task in live:
            task.cancel()
        for lane_queue in self._queues.values():
            lane_queue.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads.values())

    def _finish(self, task: Task, action: Callable[[], None]) -> None:
        def deliver() -> None:
            # On the main thread, so that it never sees an idle moment between a result and the call that follows.
            with self._live_lock:
                self._live.discard(task)
            action()

        self.post(deliver)

    def _queue(self, lane: Lane) -> queue.SimpleQueue[Callable[[], None] | None]:
        if lane not in self._queues:
            lane_queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(lane_queue,), name=f"lane-{lane}", daemon=True)
            self._queues[lane], self._threads[lane] = lane_queue, thread
            thread.start()
        return self._queues[lane]

    def _serve(self, lane_queue: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (work := lane_queue.get()) is not None:
            if not self._closed:
                work()

    def _run(self, action: Callable[[], None]) -> None:
        if not self._closed:
            action()


class Mailbox(Generic[T]):
    """Collects messages of a lane and delivers them in batches: at most one delivery per ``interval_ms``.

    A token stream would otherwise cost one layout per token.
    """

    def __init__(self, tasks: Tasks, deliver: Callable[[list[T]], None], interval_ms: int = 33) -> None:
        self._tasks = tasks
        self._deliver = deliver
        self._interval_ms = interval_ms
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._scheduled = False

    def put(self, item: T) -> None:
        """Add a message. Safe on every thread."""
        with self._lock:
            self._items.append(item)
            if self._scheduled:
                return
            self._scheduled = True
        self._tasks.post(self._schedule)

    def flush(self) -> None:
        """Deliver what is waiting now. Main thread only."""
        with self._lock:
            items, self._items = self._items, []
            self._scheduled = False
        if items:
            self._deliver(items)

    def _schedule(self) -> None:
        QTimer.singleShot(self._interval_ms, self._tasks, self.flush)

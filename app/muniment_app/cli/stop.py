"""Ctrl-C as a request: the first asks the work to stop where nothing is lost, the second ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["Stop"]


class Stop:
    """Remembers that the user asked to stop.

    While ``listening``, the first Ctrl-C only sets a flag, which ``asked`` returns; services ask it as ``cancelled``.
    The second raises ``KeyboardInterrupt``, so that children are still ended and files closed. From then on the
    system's own handling is back: a third ends the process at once.

    Args:
        message: Said on standard error at the first Ctrl-C.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._asked = False
        self._hard = False

    def asked(self) -> bool:
        """Return whether the user asked to stop."""
        return self._asked

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle Ctrl-C as described for the time of the block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            if not self._hard:
                signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C raise ``KeyboardInterrupt`` in the block: a prompt cannot ask a flag."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._asked:
            self._hard = True
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            raise KeyboardInterrupt
        self._asked = True
        # Past Python's buffers: the signal may have come in the middle of a write to them. Without a real standard
        # error there is nobody to tell.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            encoding = sys.stderr.encoding or "utf-8"
            os.write(sys.stderr.fileno(), f"\n{self._message}\n".encode(encoding, "replace"))

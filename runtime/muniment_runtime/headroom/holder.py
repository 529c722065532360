"""Which process holds something, in a way that a process number used again is not mistaken for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

__all__ = ["Alive", "Holder", "holder_alive", "own_holder"]

Holder = tuple[int, float]
"""Process number and start of the process: seconds since boot on Linux, since 1970 elsewhere."""

Alive = Callable[[int, float], bool]
"""Tells whether the process with this number and this start still runs."""

# Elsewhere than on Linux the start is a time of day, which psutil corrects by changes of the clock.
_TOLERANCE_S = 0.001 if sys.platform == "linux" else 5.0
_STATE, _START_TICKS = 0, 19  # fields 3 and 22 of proc_pid_stat(5), counted after the name
_DEAD_STATES = frozenset("ZXx")


def own_holder() -> Holder:
    """Return this process."""
    pid = os.getpid()
    return pid, _start_s(pid) or 0.0


def holder_alive(pid: int, start_s: float) -> bool:
    """Return whether the process ``pid`` that began at ``start_s`` still runs.

    A process that has ended but was not yet collected by its parent does not run: its memory is free. A process that
    this one may not look at counts as running. Processes of another container's number space cannot be seen and count
    as ended, so a folder must not be shared across that border.
    """
    try:
        found_s = _start_s(pid)
    except (PermissionError, psutil.AccessDenied):
        return True
    return found_s is not None and abs(found_s - start_s) <= _TOLERANCE_S


if sys.platform == "linux":

    def _start_s(pid: int) -> float | None:
        """Return when a running process began, ``None`` when there is none; ``PermissionError`` when it is hidden.

        The kernel's own figure: unlike a time of day it does not move when the clock is set.
        """
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The name stands in parentheses and may hold anything, parentheses and spaces included.
        fields = text.rpartition(")")[2].split()
        if len(fields) <= _START_TICKS or fields[_STATE] in _DEAD_STATES or not fields[_START_TICKS].isdigit():
            return None
        return int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")

else:

    def _start_s(pid: int) -> float | None:
        """Return when a running process began, ``None`` when there is none; ``AccessDenied`` when it is hidden."""
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
        except (psutil.NoSuchProcess, ValueError, OverflowError):
            return None

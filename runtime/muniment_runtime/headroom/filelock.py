"""An exclusive lock that several processes share through a file. The kernel drops it when its holder dies.

Own code instead of a package: the two system calls are the whole of it, and a lock file that is made or removed by
its holder, as some packages do where these calls fail, would outlive a killed process.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["exclusive"]

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

    def _unlock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        # flock belongs to the open file, not to the process: two threads exclude each other too, and closing another
        # handle of the same file does not drop it, as it would with fcntl record locks.
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path, wait_s: float) -> Iterator[bool]:
    """Hold the lock file ``path`` (created private, never removed) inside the block.

    Yields ``True`` when the lock is held and ``False`` when somebody else kept it for ``wait_s`` seconds. The lock is
    asked for again and again rather than waited for, because no system call can wait for it with a bound.

    Raises:
        OSError: The file cannot be opened, or its file system knows no locks.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        held = _lock(handle, time.monotonic() + wait_s)
        try:
            yield held
        finally:
            if held:
                _unlock(handle)
    finally:
        os.close(handle)


def _lock(handle: int, deadline_s: float) -> bool:
    pause_s = _FIRST_PAUSE_S
    while not _try_lock(handle):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return True

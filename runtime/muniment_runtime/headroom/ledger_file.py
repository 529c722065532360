"""The file in which running programs of one user note how much memory they are about to take.

One JSON object ``{"entries": [...]}`` in a private folder, replaced as a whole under an exclusive lock. Versions of
the program share it, so fields may be added but never change their meaning. Nothing is forced to the disk: what a
killed process wrote stays in the kernel's cache, and after a power cut there is no holder left.
"""

from __future__ import annotations

import json
import logging
import math
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from muniment_runtime.headroom.filelock import exclusive
from muniment_runtime.headroom.holder import Holder

__all__ = ["MAX_ENTRIES", "Entry", "LedgerFile", "State"]

MAX_ENTRIES = 1024
"""Far more loads than one machine can hold; a bound on the work under the lock."""

LEDGER_NAME = "reservations.json"
LOCK_NAME = "reservations.lock"
_NEW_NAME = "reservations.new"
_MAX_FILE_BYTES = 2**20
_MAX_BYTES = 2**62
_MAX_ID_CHARACTERS = 64

_LOG = logging.getLogger(__name__)


class State(StrEnum):
    """How far the load behind an entry is."""

    LOADING = "loading"
    SETTLED = "settled"


@dataclass(frozen=True)
class Entry:
    """Memory of one load.

    Attributes:
        id: Unique among all entries.
        pid: Number of the process that holds it.
        pid_start: When that process began, see ``holder``.
        need_bytes: Private memory that the load takes in the end.
        resident_bytes: What of it is resident already, and so already missing from every measured headroom. It may
            exceed the need.
        state: Whether the load goes on.
    """

    id: str
    pid: int
    pid_start: float
    need_bytes: int
    resident_bytes: int = 0
    state: State = State.LOADING

    @property
    def holder(self) -> Holder:
        """The process that holds it."""
        return self.pid, self.pid_start

    @property
    def outstanding_bytes(self) -> int:
        """What will still be taken; never negative."""
        return max(0, self.need_bytes - self.resident_bytes)


class LedgerFile:
    """Reads and writes the entries; the caller holds the lock meanwhile.

    Args:
        folder: Made private when missing. One that others may write to is not used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LEDGER_NAME

    @contextmanager
    def locked(self, wait_s: float) -> Iterator[bool]:
        """Keep every other program out inside the block; yields ``False`` when that did not work in ``wait_s``.

        Raises:
            OSError: The folder cannot be used.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(self._folder)
        with exclusive(self._folder / LOCK_NAME, wait_s) as held:
            yield held

    def read(self) -> list[Entry]:
        """Return the entries. What makes no sense is left out and logged: it was torn, or is not ours.

        Raises:
            OSError: The file is there but cannot be read.
        """
        try:
            handle = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return []
        with os.fdopen(handle, "rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            _LOG.warning("reservation ledger damaged: ledger-size")
            return []
        try:
            rows = json.loads(data)["entries"]
            entries = [_entry(row) for row in rows[:MAX_ENTRIES]]
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            _LOG.warning("reservation ledger damaged: ledger-format, %s", type(error).__name__)
            return []
        found = [entry for entry in entries if entry is not None]
        if len(found) < len(rows):
            _LOG.warning("reservation ledger damaged: ledger-entries, %d left out", len(rows) - len(found))
        return found

    def write(self, entries: Sequence[Entry]) -> None:
        """Replace the entries by these, all or nothing.

        Raises:
            OSError: The file cannot be written.
        """
        data = json.dumps({"entries": [asdict(entry) for entry in entries]}).encode()
        new = self._folder / _NEW_NAME
        new.unlink(missing_ok=True)  # of a process that was killed in the middle
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        new.replace(self._path)


def _require_private(folder: Path) -> None:
    """Refuse a folder that somebody else has made or may write to, such as one in a shared temporary folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(folder)
    if sys.platform != "win32" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
        raise PermissionError(folder)


def _entry(row: object) -> Entry | None:
    """Return the entry of one JSON object, ``None`` when it is none."""
    if not isinstance(row, dict):
        return None
    name, start = row.get("id"), row.get("pid_start")
    need, resident = _size(row.get("need_bytes")), _size(row.get("resident_bytes"))
    pid, state = _size(row.get("pid")), row.get("state")
    if need is None or resident is None or pid is None or state not in list(State):
        return None
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_ID_CHARACTERS:
        return None
    if isinstance(start, bool) or not isinstance(start, int | float) or not math.isfinite(start):
        return None
    return Entry(name, pid, float(start), need, resident, State(state))


def _size(value: object) -> int | None:
    """Return a whole number that is not negative, ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_BYTES:
        return None
    return value

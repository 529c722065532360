"""Reservations: two loads, also of two running programs, never both count the same headroom.

Between the measurement of free memory and the moment when a load has really taken its share lie seconds in which
another load would measure the same bytes as free. So a load first notes its need in a ledger that all programs of
the user share, and every measurement is taken under the ledger's lock and reduced by what others have noted and not
yet taken.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from muniment_resources.errors import BugError, KnownError
from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Headroom, HeadroomProbe, Limit
from muniment_runtime.headroom.holder import Alive, Holder
from muniment_runtime.headroom.ledger_file import MAX_ENTRIES, Entry, LedgerFile, State

__all__ = ["RESERVED", "Reservation", "ReservationLedger", "ReservedProbe", "with_reserved"]

RESERVED = "reserved"
"""Key of the limit that other programs' reservations add to the chain; its detail is the number of loads."""

_WAIT_S = 5.0
_DISPLAY_WAIT_S = 0.5

_LOG = logging.getLogger(__name__)


class _Access(Enum):
    HELD = "held"
    BUSY = "ledger-busy"
    UNUSABLE = "ledger-unusable"


class Reservation:
    """The right to take memory, until it is released or its process ends. Made by a ledger.

    Attributes:
        id: Of the entry.
        need_bytes: Private memory that may be taken.
        headroom_bytes: What was measured when it was granted.
        reserved_bytes: What other loads had reserved and not yet taken then.
        shared: Whether other programs could see it then. ``False`` when the ledger's folder cannot be used.
    """

    def __init__(
        self, ledger: ReservationLedger, entry: Entry, headroom_bytes: int, reserved_bytes: int, shared: bool
    ) -> None:
        self._ledger = ledger
        self.id = entry.id
        self.need_bytes = entry.need_bytes
        self.headroom_bytes = headroom_bytes
        self.reserved_bytes = reserved_bytes
        self.shared = shared

    def settle(self, resident_bytes: int) -> None:
        """Note that the load is done and ``resident_bytes`` of it are resident: only the rest stays outstanding.

        May be called again as more becomes resident. After the release it does nothing. Never raises for the world: a
        ledger that cannot be written keeps the larger, safe figure.

        Raises:
            BugError: The size is negative.
        """
        if resident_bytes < 0:
            raise BugError("resident memory cannot be negative")
        self._ledger.settle(self.id, resident_bytes)

    def release(self) -> None:
        """Give the reservation back, after the memory itself is free. May be called again; never raises."""
        self._ledger.release(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ReservationLedger:
    """All reservations of this user's programs on this machine. Safe for several threads.

    Entries of processes that have ended count for nothing and are struck out at the next change. Entries of this
    object are also kept in memory: they return to the file when somebody has damaged it.

    Args:
        folder: Private folder that all programs of the user share, whatever data folder each uses.
        alive: Tells whether a holder still runs.
        own: This process.
        wait_s: How long to wait for another program that is reserving at this moment.
    """

    def __init__(self, folder: Path, alive: Alive, own: Holder, wait_s: float = _WAIT_S) -> None:
        self._file = LedgerFile(folder)
        self._alive = alive
        self._own = own
        self._wait_s = wait_s
        self._guard = threading.Lock()
        self._mine: dict[str, Entry] = {}
        self._released: set[str] = set()
        self._last_access = _Access.HELD

    def reserve(self, need_bytes: int, margin_bytes: int, measure: Callable[[], int]) -> Reservation:
        """Reserve ``need_bytes`` of the headroom that ``measure`` returns, so that ``margin_bytes`` stay free.

        ``measure`` is called under the lock and must measure afresh. Granted when
        ``measured - outstanding of all other live loads - need >= margin``.

        A folder that cannot be used (read only, full, of another user) does not stop the load: a program that gives
        no answers protects nobody, and this process still counts its own loads. It is logged and shows as
        ``shared=False``, which the caller must record. A lock that another program keeps does stop the load: that
        program is alive and about to take memory.

        Raises:
            KnownError: ``E-PLAN-RESERVED`` (``missing``, ``reserved``: readable sizes, ``n``: loads) when it does not
                fit beside other loads; ``E-PLAN-SHRUNK`` (``missing``) when it does not fit although there are none;
                ``E-PLAN-LEDGER`` when the lock stays taken or the ledger is full.
            BugError: A size is negative.
        """
        if need_bytes < 0 or margin_bytes < 0:
            raise BugError("sizes cannot be negative")
        entry = Entry(uuid.uuid4().hex, *self._own, need_bytes)
        with self._guard, self._opened(self._wait_s) as access:
            if access is _Access.BUSY:
                raise KnownError("E-PLAN-LEDGER")
            seen, others = self._entries(access)
            if len(others) >= MAX_ENTRIES:
                raise KnownError("E-PLAN-LEDGER")
            reserved, loads = _sum(others)
            headroom = measure()
            missing = margin_bytes - (headroom - reserved - need_bytes)
            if missing > 0 and loads:
                raise KnownError(
                    "E-PLAN-RESERVED", missing=format_bytes(missing), n=loads, reserved=format_bytes(reserved)
                )
            if missing > 0:
                raise KnownError("E-PLAN-SHRUNK", missing=format_bytes(missing))
            self._mine[entry.id] = entry
            shared = self._written(seen, [*others, entry])
        return Reservation(self, entry, headroom, reserved, shared)

    def outstanding(self) -> tuple[int, int]:
        """Return (bytes, loads) that other processes have reserved and not yet taken; never raises.

        This process's own loads are left out: whoever plans here knows them. (0, 0) when the ledger cannot be read,
        which is logged once.
        """
        with self._opened(_DISPLAY_WAIT_S) as access:
            _, entries = self._read(access)
        return _sum([entry for entry in entries if entry.holder != self._own and self._alive(*entry.holder)])

    def settle(self, entry_id: str, resident_bytes: int) -> None:
        """See ``Reservation.settle``."""
        with self._guard:
            entry = self._mine.get(entry_id)
            if entry is not None:
                self._mine[entry_id] = replace(entry, resident_bytes=resident_bytes, state=State.SETTLED)
                self._update()

    def release(self, entry_id: str) -> None:
        """See ``Reservation.release``."""
        with self._guard:
            if self._mine.pop(entry_id, None) is not None:
                self._released.add(entry_id)
                self._update()

    def _update(self) -> None:
        """Bring the file up to what this object knows. What fails now is made good at the next change."""
        with self._opened(self._wait_s) as access:
            seen, entries = self._entries(access)
            self._written(seen, entries)

    def _entries(self, access: _Access) -> tuple[_Access, list[Entry]]:
        """Return what the ledger can be used for and all live entries: the file's, and this object's as it knows them.

        A file that is there but cannot be read is not written either: others' entries in it would be lost.
        """
        seen, found = self._read(access)
        others = [entry for entry in found if entry.id not in self._mine and entry.id not in self._released]
        return seen, [*(entry for entry in others if self._alive(*entry.holder)), *self._mine.values()]

    def _read(self, access: _Access) -> tuple[_Access, list[Entry]]:
        if access is not _Access.HELD:
            return access, []
        try:
            return access, self._file.read()
        except OSError as error:
            self._note(_Access.UNUSABLE, error)
            return _Access.UNUSABLE, []

    def _written(self, access: _Access, entries: list[Entry]) -> bool:
        if access is not _Access.HELD:
            return False
        try:
            self._file.write(entries)
        except OSError as error:
            self._note(_Access.UNUSABLE, error)
            return False
        self._released.clear()
        self._last_access = _Access.HELD
        return True

    @contextmanager
    def _opened(self, wait_s: float) -> Iterator[_Access]:
        """Hold the ledger's lock inside the block, as far as that can be had."""
        with ExitStack() as stack:
            access = _Access.HELD
            try:
                if not stack.enter_context(self._file.locked(wait_s)):
                    access = _Access.BUSY
                    self._note(access)
            except OSError as error:
                access = _Access.UNUSABLE
                self._note(access, error)
            yield access

    def _note(self, access: _Access, error: OSError | None = None) -> None:
        """Log a new trouble once, not at every look."""
        if access is not self._last_access:
            _LOG.warning("reservation ledger: %s, %s", access.value, type(error).__name__)
        self._last_access = access


class ReservedProbe:
    """Measures headroom less what other programs have reserved, so that a plan does not count on it.

    Args:
        probe: Measures the machine.
        ledger: Knows the reservations.
    """

    def __init__(self, probe: HeadroomProbe, ledger: ReservationLedger) -> None:
        self._probe = probe
        self._ledger = ledger

    def measure(self) -> Headroom:
        """Return the headroom now; others' reservations, if any, are the last link of its chain."""
        # The ledger first: what others take in between is then counted twice rather than not at all.
        reserved_bytes, loads = self._ledger.outstanding()
        return with_reserved(self._probe.measure(), reserved_bytes, loads)


def with_reserved(headroom: Headroom, reserved_bytes: int, loads: int) -> Headroom:
    """Return the headroom with the limit that ``loads`` other loads set by reserving ``reserved_bytes``.

    It lies below all others, so it binds, unless nothing is free anyway. Pressure and signals are the machine's own
    and stay as they are.
    """
    if reserved_bytes <= 0 or not headroom.limits:
        return headroom
    left = Limit(f"{RESERVED}:{loads}", max(0, headroom.available_bytes - reserved_bytes))
    limits = (*headroom.limits, left)
    binding = min(limits, key=lambda limit: limit.bytes)
    return replace(headroom, available_bytes=binding.bytes, limits=limits, binding=binding.name)


def _sum(entries: list[Entry]) -> tuple[int, int]:
    """Return the outstanding bytes and how many loads hold them."""
    sizes = [entry.outstanding_bytes for entry in entries if entry.outstanding_bytes]
    return sum(sizes), len(sizes)

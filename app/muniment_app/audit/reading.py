"""Stored events with their kept openings, read in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muniment_app.audit.canonical import Json, NotCanonicalError, parse
from muniment_app.audit.store import OpeningRow, Row, Snapshot

__all__ = ["StoredEvent", "read_events"]


@dataclass(frozen=True)
class StoredEvent:
    """One row and the openings that are kept for it.

    Attributes:
        row: As stored.
        openings: Kept openings by field, checked by nobody yet.
    """

    row: Row
    openings: tuple[OpeningRow, ...]

    def value(self) -> dict[str, Json] | None:
        """Return the event, ``None`` when its bytes are not those of an event."""
        try:
            value = parse(self.row.body)
        except NotCanonicalError:
            return None
        return value if isinstance(value, dict) else None

    def texts(self) -> dict[str, str]:
        """Return the kept texts by field; bytes that were damaged show as replacement characters."""
        return {opening.field: opening.text.decode("utf-8", "replace") for opening in self.openings}


def read_events(view: Snapshot, first: int = 0, end: int | None = None) -> Iterator[StoredEvent]:
    """Yield events ``first <= seq < end`` in order; openings of events that are not there are left out."""
    openings = view.openings(first, end)
    waiting = next(openings, None)
    for row in view.rows(first, end):
        own: list[OpeningRow] = []
        while waiting is not None and waiting.seq <= row.seq:
            if waiting.seq == row.seq:
                own.append(waiting)
            waiting = next(openings, None)
        yield StoredEvent(row, tuple(own))

"""Real audit logs for tests, and the hand of somebody who has the key and changes the database."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from muniment_app.audit.events import EventType
from muniment_app.audit.head import HeadFile
from muniment_app.audit.log import AuditLog, Clock, SystemClock
from muniment_app.audit.note import Ed25519Signer
from muniment_app.audit.store import open_database

KEY = b"k" * 32
SIGNER = Ed25519Signer(b"s" * 32)
QUESTION = "Who signed the lease? canary"


class SteppingClock:
    """One second later at each look."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> datetime:
        self._looks += 1
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._looks)

    def monotonic_s(self) -> float:
        return float(self._looks)


def open_log(folder: Path, head: Path | None = None, clock: Clock | None = None, seed: bytes = b"s" * 32) -> AuditLog:
    """Open the log in a folder; its head lies in a folder beside it unless told otherwise."""
    folder.mkdir(exist_ok=True)
    return AuditLog.open(
        folder / "audit.db",
        KEY,
        Ed25519Signer(seed),
        clock or SystemClock(),
        head=HeadFile(head or folder.with_name(f"{folder.name}.head")),
        workspace_id="aabbccdd",
        app_version="0.1.0",
    )


def fill(log: AuditLog) -> None:
    """Write five events: 0 start, 1 question, 2 answer, 3 checkpoint, 4 question."""
    log.append(EventType.APP_STARTED, {"version": "0.1.0"})
    log.append(EventType.QUESTION_ASKED, {"documents": 2}, {"question": QUESTION})
    log.append(
        EventType.ANSWER_COMPLETED, {"tokens": 17, "ok": True}, {"answer": "=Müller & <b>Söhne</b>", "quote": "§ 4"}
    )
    log.checkpoint()
    log.append(EventType.QUESTION_ASKED, {"documents": 1}, {"question": "When?"})


@contextlib.contextmanager
def tampering(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a closed log without its guards."""
    connection = open_database(folder / "audit.db", KEY)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    try:
        yield connection
    finally:
        connection.close()

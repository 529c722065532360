"""The append-only audit log of one workspace: durable before it answers, several processes at once.

Each append is one transaction: read the frontier, write the event, its openings, the new frontier and, where due,
a signed checkpoint. Only then is the head outside the database moved on.
"""

from __future__ import annotations

import contextlib
import logging
import secrets as random_source
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from muniment_app.audit.canonical import Json, canonicalize
from muniment_app.audit.commitment import SALT_BYTES, commit, readable
from muniment_app.audit.events import (
    SEALING,
    Actor,
    EventType,
    FieldValue,
    Receipt,
    clear_fields,
    secret_path,
)
from muniment_app.audit.head import Head, HeadDamagedError, HeadFile
from muniment_app.audit.merkle import Frontier, leaf_hash
from muniment_app.audit.note import Signer, origin, sign_checkpoint, sign_note
from muniment_app.audit.store import DatabaseError, Snapshot, open_database, snapshot
from muniment_resources.errors import BugError, KnownError

__all__ = ["CHECKPOINT_EVENTS", "MAX_BODY_BYTES", "NO_LEAF", "AuditLog", "Clock", "SystemClock"]

CHECKPOINT_EVENTS = 256
MAX_BODY_BYTES = 1 << 20
NO_LEAF = "0" * 64
"""``prev`` of the first event."""

_log = logging.getLogger(__name__)


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> datetime:
        """Return the wall clock time, with a time zone."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall clock time in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return the monotonic clock."""
        return time.monotonic()


class AuditLog:
    """One workspace's log. Threads may share it; processes open one each. Made by ``open``.

    Attributes:
        log_id: Random id of the log, part of every event and of the checkpoint origin.
        alarm: Code of a contradiction with the head outside the database, else ``None``. Events are still
            recorded, but the head is left as it is: it is the evidence.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        key: bytes,
        signer: Signer,
        clock: Clock,
        head: HeadFile,
        workspace_id: str,
        app_version: str,
    ) -> None:
        self._connection = connection
        self._path = path
        self._key = key
        self._signer = signer
        self._clock = clock
        self._head = head
        self._workspace_id = workspace_id
        self._app_version = app_version
        self._boot = random_source.token_hex(8)
        self._opened_s = clock.monotonic_s()
        self._lock = threading.Lock()
        self.log_id = self._establish()
        self.alarm = self._check_head()

    @staticmethod
    def open(
        path: Path,
        key: bytes,
        signer: Signer,
        clock: Clock,
        *,
        head: HeadFile,
        workspace_id: str,
        app_version: str,
    ) -> AuditLog:
        """Open or create a log.

        Args:
            path: Database file of its own.
            key: 32-byte key of the database.
            signer: Signs checkpoints; the same key for the life of the log.
            clock: Source of times.
            head: Where the newest head is kept, outside the database.
            workspace_id: Random id of the workspace.
            app_version: Version of the program that writes.

        Raises:
            KnownError: ``E-STORE-KEY``, ``E-STORE-OPEN``, ``E-AUDIT-KEY`` (signing key is not that of this log),
                ``E-AUDIT-WRITE``.
        """
        connection = open_database(path, key)
        try:
            return AuditLog(connection, path, key, signer, clock, head, workspace_id, app_version)
        except BaseException:
            connection.close()
            raise

    @property
    def public_key(self) -> bytes:
        """The key that signs this log's checkpoints."""
        return self._signer.public_key

    def append(
        self,
        type: EventType,
        fields: Mapping[str, FieldValue] | None = None,
        secrets: Mapping[str, str] | None = None,
        actor: Actor = Actor.APP,
    ) -> Receipt:
        """Record an event; when this returns it survives a crash and a power cut.

        Args:
            type: One of the closed set.
            fields: Clear values: numbers, flags, ids, codes.
            secrets: Sensitive texts by field path; only their commitments stand in the event.
            actor: Who caused it.

        Raises:
            KnownError: ``E-AUDIT-WRITE``. Nothing was recorded: the caller must not show the effect.
            BugError: Unknown type, or a field that must not stand in the clear.
        """
        kind = _known(type)
        data = clear_fields(fields or {})
        texts = {secret_path(path): readable(text).encode("utf-8") for path, text in (secrets or {}).items()}
        with self._lock:
            return self._transact(kind, data, texts, Actor(actor), erase=())

    def checkpoint(self) -> Receipt:
        """Record and sign a checkpoint now.

        Raises:
            KnownError: ``E-AUDIT-WRITE``.
        """
        return self.append(EventType.AUDIT_CHECKPOINT)

    def redact(self, seq: int, reason: str, actor: Actor = Actor.USER) -> Receipt:
        """Destroy all openings of one event, for good; the event and every proof stay valid.

        Args:
            seq: The event.
            reason: A code.
            actor: Who asked for it.

        Raises:
            KnownError: ``E-AUDIT-WRITE``; nothing was erased.
        """
        data = clear_fields({"event": seq, "reason": reason})
        with self._lock:
            receipt = self._transact(EventType.REDACTION_DONE, data, {}, actor, erase=(seq,))
            # The write-ahead file still holds the pages as they were. A reader may hold this up; then the next
            # redaction or the last close does it.
            with contextlib.suppress(DatabaseError):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return receipt

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Return a consistent read-only view; it does not hold up appends."""
        return snapshot(self._path, self._key)

    def read_head(self) -> Head | None:
        """Return the head outside the database.

        Raises:
            HeadDamagedError: It is not readable.
        """
        return self._head.read()

    def sign_statement(self, text: str) -> bytes:
        """Sign a text about this log (the manifest of a bundle); the text must not look like a checkpoint."""
        if text.startswith(origin(self.log_id)):
            raise BugError("a statement must not read like a checkpoint")
        return sign_note(text, origin(self.log_id), self._signer)

    def close(self) -> None:
        """Close the database. Events of the program's end are the caller's to record before."""
        with self._lock:
            self._connection.close()

    def _establish(self) -> str:
        """Return the log's id, making one for a new database; the signing key is pinned to the log."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            view = Snapshot(self._connection)
            log_id, public_key = view.meta("log"), view.meta("public_key")
            if log_id is None:
                log_id, public_key = random_source.token_hex(16).encode(), self._signer.public_key
                self._set_meta("log", log_id)
                self._set_meta("public_key", public_key)
                self._set_meta("frontier", Frontier().to_bytes())
            self._connection.execute("COMMIT")
        except DatabaseError as error:
            self._roll_back()
            raise KnownError("E-AUDIT-WRITE") from error
        if public_key != self._signer.public_key:
            raise KnownError("E-AUDIT-KEY")
        return log_id.decode()

    def _check_head(self) -> str | None:
        """Compare with the head outside; a new log gets its first head here, before its first event."""
        try:
            head = self._head.read()
        except HeadDamagedError:
            return "head_damaged"
        view = Snapshot(self._connection)
        frontier = self._frontier(view)
        if head is None:
            if frontier.size:
                return "head_missing"
            self._write_head(frontier)
            return None
        if head.log_id != self.log_id:
            return "head_foreign"
        if head.size > frontier.size:
            return "truncated"
        if head.size < frontier.size:
            # After a crash the head lags: replay the stored leaves up to it.
            frontier = Frontier()
            for row in view.rows(0, head.size):
                frontier = frontier.append(row.leaf)
        return None if frontier.root() == head.root else "rewritten"

    def _transact(
        self, kind: EventType, data: dict[str, Json], texts: Mapping[str, bytes], actor: Actor, erase: tuple[int, ...]
    ) -> Receipt:
        now, mono_ms = self._clock.now(), int((self._clock.monotonic_s() - self._opened_s) * 1000)
        salts = {path: random_source.token_bytes(SALT_BYTES) for path in texts}
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            view = Snapshot(self._connection)
            before = self._frontier(view)
            last = next(view.rows(before.size - 1, before.size), None)
            body = canonicalize(
                {
                    "v": 1,
                    "seq": before.size,
                    "id": random_source.token_hex(16),
                    "ts": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z",
                    "mono": mono_ms,
                    "boot": self._boot,
                    "log": self.log_id,
                    "prev": NO_LEAF if last is None else last.leaf.hex(),
                    "type": kind.value,
                    "actor": {"kind": actor.value, "id": "local"},
                    "app_ver": self._app_version,
                    "ws": self._workspace_id,
                    "data": data,
                    "commit": {path: commit(salts[path], path, text) for path, text in texts.items()},
                }
            )
            leaf = leaf_hash(_of_fair_size(body))
            after = before.append(leaf)
            self._connection.execute("INSERT INTO audit VALUES (?, ?, ?)", (before.size, body, leaf))
            self._connection.executemany(
                "INSERT INTO opening VALUES (?, ?, ?, ?)",
                [(before.size, path, salts[path], text) for path, text in texts.items()],
            )
            self._connection.executemany("DELETE FROM opening WHERE seq = ?", [(seq,) for seq in erase])
            self._set_meta("frontier", after.to_bytes())
            if kind in SEALING or after.size % CHECKPOINT_EVENTS == 0:
                note = sign_checkpoint(self.log_id, after.size, after.root(), self._signer)
                self._connection.execute("INSERT INTO checkpoint VALUES (?, ?)", (after.size, note))
            self._connection.execute("COMMIT")
        except (DatabaseError, OSError) as error:
            self._roll_back()
            _log.error("audit event %s could not be written: %s", kind.value, type(error).__name__)
            raise KnownError("E-AUDIT-WRITE") from error
        except BaseException:
            self._roll_back()
            raise
        self._advance_head(before, after)
        return Receipt(before.size, leaf.hex())

    def _advance_head(self, before: Frontier, after: Frontier) -> None:
        """Move the head on, unless it contradicts the log: then it stays, as evidence."""
        if self.alarm is not None:
            return
        try:
            head = self._head.read()
        except HeadDamagedError:
            self.alarm = "head_damaged"
            return
        if head is None:
            self.alarm = "head_missing"
        elif head.log_id != self.log_id:
            self.alarm = "head_foreign"
        elif head.size == before.size and head.root != before.root():
            self.alarm = "rewritten"
        elif head.size < after.size:
            # Larger heads are those of another process that appended meanwhile; verify tells them from truncation.
            self._write_head(after)

    def _write_head(self, frontier: Frontier) -> None:
        """Write the head; the event is durable already, so a failure here only makes the head lag."""
        try:
            self._head.write(Head(self.log_id, frontier.size, frontier.root()))
        except OSError as error:
            _log.warning("audit head could not be written: %s", type(error).__name__)

    def _frontier(self, view: Snapshot) -> Frontier:
        stored = view.meta("frontier")
        try:
            return Frontier.from_bytes(stored or b"")
        except ValueError as error:
            raise KnownError("E-AUDIT-WRITE") from error

    def _set_meta(self, name: str, value: bytes) -> None:
        self._connection.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
        )

    def _roll_back(self) -> None:
        with contextlib.suppress(DatabaseError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _of_fair_size(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise BugError("event is too large")
    return body


def _known(type_: object) -> EventType:
    try:
        return EventType(type_)  # type: ignore[arg-type]  # a caller without types may pass anything
    except ValueError:
        raise BugError("unknown type of audit event") from None

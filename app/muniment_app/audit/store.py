"""The audit database: its schema, and consistent read-only views of it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import sqlcipher3.dbapi2 as sqlcipher

from muniment_resources.errors import KnownError
from muniment_retrieval.store.database import connect

__all__ = ["DatabaseError", "OpeningRow", "Row", "Snapshot", "open_database", "snapshot"]

APPLICATION_ID = 0x4D554E41
"""``MUNA`` in the file header: an audit database of this program."""
FORMAT = 1

DatabaseError: type[Exception] = sqlcipher.DatabaseError

_SCHEMA = (
    "CREATE TABLE audit(seq INTEGER PRIMARY KEY, body BLOB NOT NULL, leaf BLOB NOT NULL) STRICT",
    "CREATE TABLE opening(seq INTEGER NOT NULL, field TEXT NOT NULL, salt BLOB NOT NULL, text BLOB NOT NULL,"
    " PRIMARY KEY (seq, field)) STRICT, WITHOUT ROWID",
    "CREATE TABLE checkpoint(size INTEGER PRIMARY KEY, note BLOB NOT NULL) STRICT",
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
    # Guards against bugs of this program; people with the key can drop them, and are found by the tree.
    "CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER audit_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER audit_insert BEFORE INSERT ON audit"
    " WHEN NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM audit)"
    " BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER checkpoint_update BEFORE UPDATE ON checkpoint BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER checkpoint_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'append only'); END",
)


class Row(NamedTuple):
    """One stored event."""

    seq: int
    body: bytes
    leaf: bytes


class OpeningRow(NamedTuple):
    """The kept opening of one committed field."""

    seq: int
    field: str
    salt: bytes
    text: bytes


def open_database(path: Path, key: bytes) -> sqlite3.Connection:
    """Open or create an audit database, every commit surviving a power cut.

    Raises:
        KnownError: ``E-STORE-KEY``, ``E-STORE-OPEN``; also for a database of a newer format.
    """
    try:
        connection = connect(path, key, synchronous="FULL").conn
        if connection is None:
            raise KnownError("E-STORE-OPEN", name=path.name)
        # Replacing a row must meet the triggers too.
        connection.execute("PRAGMA recursive_triggers=ON")
        # Erased texts are overwritten, not only unlinked.
        connection.execute("PRAGMA secure_delete=ON").fetchone()
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            _create(connection)
        if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
            connection.close()
            raise KnownError("E-STORE-OPEN", name=path.name)
    except DatabaseError as error:
        raise KnownError("E-STORE-OPEN", name=path.name) from error
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have created it while this one waited for the lock.
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    except DatabaseError:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()
        raise


@dataclass(frozen=True)
class Snapshot:
    """The database as it was at one moment, whatever is appended meanwhile."""

    connection: sqlite3.Connection

    def count(self) -> int:
        """Return the number of stored events."""
        return int(self.connection.execute("SELECT count(*) FROM audit").fetchone()[0])

    def meta(self, name: str) -> bytes | None:
        """Return a value of the meta table."""
        found = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[Row]:
        """Yield stored events ``first <= seq < end`` in order."""
        limit = 2**62 if end is None else end
        query = "SELECT seq, body, leaf FROM audit WHERE seq >= ? AND seq < ? ORDER BY seq"
        return (Row(*found) for found in self.connection.execute(query, (first, limit)))

    def checkpoints(self) -> list[tuple[int, bytes]]:
        """Return (size, signed note), smallest first."""
        return [(size, note) for size, note in self.connection.execute("SELECT * FROM checkpoint ORDER BY size")]

    def openings(self, first: int = 0, end: int | None = None) -> Iterator[OpeningRow]:
        """Yield kept openings of events ``first <= seq < end``, ordered by event and field."""
        limit = 2**62 if end is None else end
        query = "SELECT seq, field, salt, text FROM opening WHERE seq >= ? AND seq < ? ORDER BY seq, field"
        return (OpeningRow(*found) for found in self.connection.execute(query, (first, limit)))


@contextlib.contextmanager
def snapshot(path: Path, key: bytes) -> Iterator[Snapshot]:
    """Open a connection of its own for reading, so that reading never holds up an append.

    Raises:
        KnownError: ``E-STORE-KEY``, ``E-STORE-OPEN``.
    """
    connection = open_database(path, key)
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")
        # The view is fixed by the first read, not by BEGIN.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield Snapshot(connection)
    except DatabaseError as error:
        raise KnownError("E-STORE-OPEN", name=path.name) from error
    finally:
        connection.close()

"""Opens encrypted SQLite databases: one SQLite build (SQLCipher) and the same safe settings everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import sqlcipher3.dbapi2 as sqlcipher
from sqlite_utils import Database

from muniment_resources.errors import KnownError

__all__ = ["DatabaseFullError", "connect", "sqlite_version"]

DatabaseFullError = sqlcipher.OperationalError


def sqlite_version() -> tuple[int, int, int]:
    """Return the version of the bundled SQLite."""
    major, minor, patch = (int(part) for part in sqlcipher.sqlite_version.split("."))
    return major, minor, patch


def connect(path: Path, key: bytes, synchronous: Literal["NORMAL", "FULL"] = "NORMAL") -> Database:
    """Open or create an encrypted database.

    The connection may be used from any thread but from one at a time: callers hold their own lock.

    Args:
        path: Database file; created with mode 0600.
        key: 32 random bytes, used raw (no key derivation: the key is already random).
        synchronous: ``FULL`` where every commit must survive a power cut.

    Raises:
        KnownError: ``E-STORE-KEY`` when the key does not open this file, ``E-STORE-OPEN`` when it cannot be
            opened or created.
    """
    if len(key) != 32:
        raise ValueError("key must have 32 bytes")
    try:
        if not path.exists():
            path.touch(mode=0o600)
        connection = sqlcipher.connect(str(path), check_same_thread=False, timeout=10.0, isolation_level=None)
    except (OSError, sqlcipher.OperationalError) as error:
        raise KnownError("E-STORE-OPEN", name=path.name) from error
    try:
        connection.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlcipher.DatabaseError as error:
        connection.close()
        raise KnownError("E-STORE-KEY", name=path.name) from error
    for pragma in (
        "journal_mode=WAL",
        f"synchronous={synchronous}",
        "temp_store=MEMORY",
        "foreign_keys=ON",
        "trusted_schema=OFF",
        "cell_size_check=ON",
        "busy_timeout=10000",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchone()
    return Database(connection)

"""The one SQLite build: encrypted, modern, with full-text search."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_retrieval.store.database import connect, sqlite_version


def test_text_is_not_readable_on_disk_and_wrong_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = connect(path, b"k" * 32)
    database.execute("CREATE VIRTUAL TABLE t USING fts5(body)")
    database.execute("INSERT INTO t VALUES ('canary-sentence')")
    assert database.execute("SELECT count(*) FROM t WHERE t MATCH 'canary'").fetchone()[0] == 1
    database.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    database.conn.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"canary-sentence" not in path.read_bytes()
    with pytest.raises(KnownError) as caught:
        connect(path, b"x" * 32)
    assert caught.value.code == "E-STORE-KEY"


def test_folder_that_does_not_exist_is_a_known_error(tmp_path: Path) -> None:
    with pytest.raises(KnownError) as caught:
        connect(tmp_path / "no" / "a.db", b"k" * 32)
    assert caught.value.code == "E-STORE-OPEN"


def test_sqlite_has_the_wal_reset_fix() -> None:
    assert sqlite_version() >= (3, 51, 3)

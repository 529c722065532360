"""Appending, failing to append, erasing, and the head outside."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from muniment_app.audit.events import Actor, EventType
from muniment_app.audit.log import CHECKPOINT_EVENTS, AuditLog
from muniment_app.audit.merkle import leaf_hash
from muniment_app.audit.verify import verify_log
from muniment_resources.errors import BugError, KnownError
from tests.helpers.audit_logs import KEY, QUESTION, SteppingClock, fill, open_log

PAGE_BYTES = 4096
RESERVED_BYTES = 80


def _count(log: AuditLog) -> int:
    with log.snapshot() as view:
        return view.count()


def _decrypted(page: bytes, start: int) -> bytes:
    """Decrypt one page of the database (AES-256-CBC, raw key; IV and HMAC at its end)."""
    end = PAGE_BYTES - RESERVED_BYTES
    decryptor = Cipher(algorithms.AES(KEY), modes.CBC(page[end : end + 16])).decryptor()
    return decryptor.update(page[start:end]) + decryptor.finalize()


def _plain_pages(path: Path) -> bytes:
    """Return all that somebody with the key can read: every page, used or free, and the write-ahead file's."""
    data = path.read_bytes()
    pages = [_decrypted(data[at : at + PAGE_BYTES], 16 if at == 0 else 0) for at in range(0, len(data), PAGE_BYTES)]
    ahead = path.with_name(f"{path.name}-wal").read_bytes()
    for at in range(32, len(ahead), PAGE_BYTES + 24):
        number = int.from_bytes(ahead[at : at + 4], "big")
        pages.append(_decrypted(ahead[at + 24 : at + 24 + PAGE_BYTES], 16 if number == 1 else 0))
    return b"".join(pages)


def test_events_chain_and_hide_sensitive_texts(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w", clock=SteppingClock())
    fill(log)
    with log.snapshot() as view:
        rows = list(view.rows())
        sizes = [size for size, _ in view.checkpoints()]
    assert [row.seq for row in rows] == [0, 1, 2, 3, 4]
    assert all(row.leaf == leaf_hash(row.body) for row in rows)
    assert all(earlier.leaf.hex().encode() in later.body for earlier, later in itertools.pairwise(rows))
    assert not any(b"canary" in row.body or b"hne" in row.body for row in rows)
    assert sizes == [1, 4]
    assert b'"ts":"2030-01-01T00:00:02.000Z"' in rows[1].body
    log.close()


def test_a_checkpoint_follows_every_256_events(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    for number in range(CHECKPOINT_EVENTS):
        log.append(EventType.RETRIEVAL_DONE, {"n": number})
    with log.snapshot() as view:
        assert [size for size, _ in view.checkpoints()] == [CHECKPOINT_EVENTS]
    log.close()


def test_erasing_removes_text_and_salt_from_every_page_and_keeps_every_proof(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    with log.snapshot() as view:
        salts = [opening.salt for opening in view.openings(1, 2)]
        before = list(view.rows())
    readable = _plain_pages(tmp_path / "w" / "audit.db")
    assert QUESTION.encode() in readable
    assert all(salt in readable for salt in salts)
    log.redact(1, "request")
    after = _plain_pages(tmp_path / "w" / "audit.db")
    assert b"canary" not in after
    assert not any(salt in after for salt in salts)
    # Looking in the wrong place would find nothing either: what was not erased is still there.
    assert b"When?" in after
    with log.snapshot() as view:
        assert list(view.rows(0, 5)) == before
        assert [(opening.seq, opening.field) for opening in view.openings()] == [
            (2, "answer"),
            (2, "quote"),
            (4, "question"),
        ]
    report = verify_log(log)
    assert (report.problem, report.redacted, report.events) == (None, 1, 6)
    log.close()


def test_a_full_disk_records_nothing_and_appending_works_again_after(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    pages = log._connection.execute("PRAGMA page_count").fetchone()[0]
    log._connection.execute(f"PRAGMA max_page_count={pages + 2}").fetchone()

    def fill_up() -> None:
        for _ in range(100):
            log.append(EventType.ANSWER_COMPLETED, {}, {"answer": "x" * 3000})

    with pytest.raises(KnownError) as caught:
        fill_up()
    assert caught.value.code == "E-AUDIT-WRITE"
    accepted = _count(log) - 5
    assert accepted < 100
    with log.snapshot() as view:
        assert len(list(view.openings())) == 4 + accepted
    assert verify_log(log).problem is None
    log._connection.execute("PRAGMA max_page_count=100000").fetchone()
    assert log.append(EventType.ANSWER_COMPLETED, {}, {"answer": "x" * 3000}).seq == 5 + accepted
    assert verify_log(log).problem is None
    log.close()


def test_an_event_that_is_too_large_is_a_bug_and_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    with pytest.raises(BugError):
        log.append(EventType.RETRIEVAL_DONE, {"a": [["x" * 128] * 2000] * 5})
    assert _count(log) == 0
    log.append(EventType.APP_STARTED)
    assert verify_log(log).ok
    log.close()


def test_the_log_goes_on_after_reopening_and_pins_its_key(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    log.close()
    again = open_log(tmp_path / "w")
    assert again.alarm is None
    assert again.log_id == log.log_id
    assert again.append(EventType.APP_STOPPED, actor=Actor.APP).seq == 5
    assert verify_log(again).ok
    again.close()
    with pytest.raises(KnownError) as caught:
        open_log(tmp_path / "w", seed=b"t" * 32)
    assert caught.value.code == "E-AUDIT-KEY"


def test_a_head_that_lags_after_a_crash_is_no_alarm(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    lagging = (tmp_path / "w.head").read_bytes()
    log.append(EventType.APP_STOPPED)
    log.close()
    (tmp_path / "w.head").write_bytes(lagging)
    again = open_log(tmp_path / "w")
    assert again.alarm is None
    assert verify_log(again).ok
    again.append(EventType.APP_STARTED)
    assert (tmp_path / "w.head").read_bytes() != lagging
    again.close()


def test_a_statement_cannot_pass_for_a_checkpoint(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    with pytest.raises(BugError):
        log.sign_statement(f"local/muniment/{log.log_id}\n9\n{hashlib.sha256().hexdigest()}\n")
    log.close()

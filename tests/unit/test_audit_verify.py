"""Somebody who has the database key and its guards out of the way is found all the same."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from muniment_app.audit.events import EventType
from muniment_app.audit.merkle import Frontier, leaf_hash
from muniment_app.audit.note import origin, sign_note
from muniment_app.audit.verify import LogReport, verify_log
from muniment_resources.i18n import Translator
from tests.helpers.audit_logs import SIGNER, fill, open_log, tampering

Change = Callable[[sqlite3.Connection], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a closed log of five events."""
    log = open_log(tmp_path / "w")
    fill(log)
    log.close()
    return tmp_path / "w"


def _verify(folder: Path) -> LogReport:
    log = open_log(folder)
    try:
        return verify_log(log)
    finally:
        log.close()


def _found(folder: Path, change: Change) -> tuple[str | None, int | None]:
    with tampering(folder) as connection:
        change(connection)
    report = _verify(folder)
    if report.problem is not None:
        # Every code has words.
        assert Translator("en").text(f"audit.problem.{report.problem}")
    assert report.ok is (report.problem is None)
    return report.problem, report.first_bad


def _run(*statements: str) -> Change:
    return lambda connection: [connection.execute(statement) for statement in statements]


def test_an_untouched_log_verifies(folder: Path) -> None:
    assert _found(folder, _run()) == (None, None)
    report = _verify(folder)
    assert (report.events, report.checkpoints, report.redacted) == (5, 2, 0)


def test_every_flipped_bit_of_bodies_leaves_notes_and_openings_is_found(folder: Path) -> None:
    missed = []
    columns = ("audit.body", "audit.leaf", "checkpoint.note", "opening.salt", "opening.text")
    with tampering(folder) as connection:
        log = open_log(folder)
        for column in columns:
            table, name = column.split(".")
            key = "size" if table == "checkpoint" else "seq"
            for value, content in connection.execute(
                f"SELECT {key}, {name} FROM {table} ORDER BY {key} DESC"
            ).fetchall()[:2]:
                # Every byte once, at changing bits: each look reads the whole log.
                for at in range(0, len(content), 5):
                    flipped = bytearray(content)
                    flipped[at] ^= 1 << at % 8
                    where = f"{key} = {value} AND {name} = ?"
                    connection.execute(f"UPDATE {table} SET {name} = ? WHERE {where}", (bytes(flipped), content))
                    if verify_log(log).ok:
                        missed.append((column, value, at))
                    connection.execute(f"UPDATE {table} SET {name} = ? WHERE {where}", (content, bytes(flipped)))
        assert verify_log(log).ok
        log.close()
    assert missed == []


@pytest.mark.parametrize("seq", range(5))
def test_deleted_rows_are_found(folder: Path, seq: int) -> None:
    expected = ("missing", seq) if seq < 4 else ("truncated", 4)
    assert _found(folder, _run(f"DELETE FROM audit WHERE seq = {seq}")) == expected


@pytest.mark.parametrize("seq", range(4))
def test_swapped_rows_are_found(folder: Path, seq: int) -> None:
    change = _run(
        f"UPDATE audit SET seq = 99 WHERE seq = {seq}",
        f"UPDATE audit SET seq = {seq} WHERE seq = {seq + 1}",
        f"UPDATE audit SET seq = {seq + 1} WHERE seq = 99",
    )
    assert _found(folder, change) == ("chain", seq)


def test_duplicated_and_inserted_rows_are_found(folder: Path) -> None:
    assert _found(folder, _run("INSERT INTO audit SELECT 5, body, leaf FROM audit WHERE seq = 4")) == ("chain", 5)


def test_a_deletion_that_closes_the_gap_is_found(folder: Path) -> None:
    change = _run("DELETE FROM audit WHERE seq = 1", "UPDATE audit SET seq = seq - 1 WHERE seq > 1")
    assert _found(folder, change) == ("chain", 1)


def _rewrite(connection: sqlite3.Connection, keep_notes: bool) -> None:
    """Change event 2 and redo every hash after it, as a careful forger would."""
    frontier, previous, old_leaf = Frontier(), "0" * 64, ""
    for seq, body, leaf in connection.execute("SELECT seq, body, leaf FROM audit ORDER BY seq").fetchall():
        forged = body.replace(old_leaf.encode(), previous.encode()) if old_leaf else body
        if seq == 2:
            forged = forged.replace(b'"tokens":17', b'"tokens":18')
            assert forged != body
        old_leaf = leaf.hex()
        new_leaf = leaf_hash(forged)
        previous = new_leaf.hex()
        frontier = frontier.append(new_leaf)
        connection.execute("UPDATE audit SET body = ?, leaf = ? WHERE seq = ?", (forged, new_leaf, seq))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'frontier'", (frontier.to_bytes(),))
    if not keep_notes:
        connection.execute("DELETE FROM checkpoint WHERE size > 2")


def test_rewriting_with_all_hashes_redone_meets_the_signature(folder: Path) -> None:
    assert _found(folder, lambda connection: _rewrite(connection, keep_notes=True)) == ("root", 1)


def test_removing_the_signature_as_well_is_found(folder: Path) -> None:
    assert _found(folder, lambda connection: _rewrite(connection, keep_notes=False)) == ("checkpoint_missing", 1)


def test_rewriting_after_the_last_checkpoint_meets_the_head_outside(folder: Path) -> None:
    def forge(connection: sqlite3.Connection) -> None:
        frontier = Frontier()
        for seq, body in connection.execute("SELECT seq, body FROM audit ORDER BY seq").fetchall():
            forged = body.replace(b'"documents":1', b'"documents":2') if seq == 4 else body
            frontier = frontier.append(leaf_hash(forged))
            connection.execute("UPDATE audit SET body = ?, leaf = ? WHERE seq = ?", (forged, leaf_hash(forged), seq))
        connection.execute("UPDATE meta SET value = ? WHERE name = 'frontier'", (frontier.to_bytes(),))

    assert _found(folder, forge) == ("rewritten", 4)


def test_cutting_off_the_end_with_a_matching_tree_is_found(folder: Path) -> None:
    def cut(connection: sqlite3.Connection) -> None:
        frontier = Frontier()
        for (leaf,) in connection.execute("SELECT leaf FROM audit WHERE seq < 4 ORDER BY seq").fetchall():
            frontier = frontier.append(leaf)
        connection.execute("DELETE FROM audit WHERE seq = 4")
        connection.execute("DELETE FROM opening WHERE seq = 4")
        connection.execute("UPDATE meta SET value = ? WHERE name = 'frontier'", (frontier.to_bytes(),))

    assert _found(folder, cut) == ("truncated", 4)
    # Going on as if nothing had been does not hide it, and the head stays as evidence.
    log = open_log(folder)
    assert log.alarm == "truncated"
    for _ in range(3):
        log.append(EventType.RETRIEVAL_DONE)
    assert verify_log(log).problem == "rewritten"
    log.close()


def test_an_old_copy_of_the_whole_folder_is_found(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    log = open_log(folder)
    log.append(EventType.ANSWER_REFUSED)
    log.close()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    report = _verify(folder)
    assert (report.problem, report.first_bad) == ("truncated", 5)


def test_spliced_logs_are_found(folder: Path, tmp_path: Path) -> None:
    other = open_log(tmp_path / "other")
    fill(other)
    with other.snapshot() as view:
        foreign = list(view.rows())
    other.close()

    def splice(connection: sqlite3.Connection) -> None:
        for row in foreign[2:]:
            connection.execute("UPDATE audit SET body = ?, leaf = ? WHERE seq = ?", (row.body, row.leaf, row.seq))

    assert _found(folder, splice) == ("chain", 2)


def test_a_checkpoint_signed_for_another_size_or_text_is_found(folder: Path) -> None:
    def forge(connection: sqlite3.Connection) -> None:
        log_id = connection.execute("SELECT value FROM meta WHERE name = 'log'").fetchone()[0].decode()
        note = sign_note(f"{origin(log_id)}\nstatement\n", origin(log_id), SIGNER)
        connection.execute("UPDATE checkpoint SET note = ? WHERE size = 1", (note,))

    assert _found(folder, _run("UPDATE checkpoint SET size = 2 WHERE size = 1"))[0] == "checkpoint"
    assert _found(folder, forge)[0] == "checkpoint"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM checkpoint WHERE size = 1", ("checkpoint_missing", 0)),
        ("DELETE FROM opening WHERE seq = 2 AND field = 'quote'", ("opening_missing", 2)),
        ("UPDATE opening SET field = 'answers' WHERE field = 'answer'", ("opening", 2)),
        ("UPDATE opening SET seq = 3 WHERE seq = 4", ("opening", 3)),
        ("UPDATE opening SET seq = 70 WHERE seq = 4", ("opening_missing", 4)),
        ("INSERT INTO opening SELECT 70, field, salt, text FROM opening WHERE seq = 4", ("opening", None)),
        ("UPDATE audit SET body = x'7b7d' WHERE seq = 2", ("changed", 2)),
        ("UPDATE meta SET value = CAST('00' AS BLOB) WHERE name = 'log'", ("foreign", None)),
        ("UPDATE meta SET value = x'0000000000000000' WHERE name = 'frontier'", ("frontier", None)),
    ],
)
def test_other_changes_are_found(folder: Path, statement: str, expected: tuple[str, int | None]) -> None:
    log = open_log(folder)
    with tampering(folder) as connection:
        connection.execute(statement)
    report = verify_log(log)
    log.close()
    assert (report.problem, report.first_bad) == expected


def test_a_body_that_is_no_event_is_found_though_its_leaf_fits(folder: Path) -> None:
    for body in (b"{}", b'{"v":1}', b"[]", b'{"a": 1}'):
        with tampering(folder) as connection:
            connection.execute("UPDATE audit SET body = ?, leaf = ? WHERE seq = 2", (body, leaf_hash(body)))
        report = _verify(folder)
        assert (report.problem, report.first_bad) == ("malformed", 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "head_missing"), (b"{}", "head_damaged"), (b"\xff", "head_damaged")],
)
def test_a_head_that_is_gone_or_damaged_is_found(folder: Path, content: bytes | None, problem: str) -> None:
    head = folder.with_name("w.head")
    if content is None:
        head.unlink()
    else:
        head.write_bytes(content)
    assert _verify(folder).problem == problem


def test_the_head_of_another_log_is_found(folder: Path, tmp_path: Path) -> None:
    other = open_log(tmp_path / "other")
    fill(other)
    other.close()
    shutil.copy(tmp_path / "other.head", tmp_path / "w.head")
    assert _verify(folder).problem == "head_foreign"


def test_damaged_pages_of_the_file_are_found(folder: Path) -> None:
    log = open_log(folder)
    for number in range(200):
        log.append(EventType.RETRIEVAL_DONE, {"n": number})
    log.close()
    path = folder / "audit.db"
    damaged = bytearray(path.read_bytes())
    # A page in the middle of the table of events; the ones needed for opening lie at the start.
    at = len(damaged) // 4096 // 2 * 4096 + 100
    damaged[at] ^= 1
    path.write_bytes(bytes(damaged))
    report = _verify(folder)
    assert report.problem == "unreadable"

"""Only numbers, flags, ids and codes stand in the clear; event types are a closed set."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_app.audit.commitment import commit, readable
from muniment_app.audit.events import EventType, FieldValue, clear_fields, fixed, secret_path
from muniment_resources.errors import BugError
from tests.helpers.audit_logs import open_log


def test_codes_numbers_and_ids_pass() -> None:
    fields: dict[str, FieldValue] = {
        "a": 1,
        "b": None,
        "c": True,
        "d": "E-DOC-TEST",
        "e": fixed(-0.25),
        "f": ["0.5", {"g": "q4_k_m"}],
        "h": "",
    }
    assert clear_fields(fields) == fields


@pytest.mark.parametrize(
    "value",
    [
        "two words",
        "/home/a",
        "C:\\a",
        "Müller",
        "line\nbreak",
        "x" * 129,
        0.5,
        b"raw",
        2**53,
        {"two words": 1},
        object(),
    ],
)
def test_text_and_fractions_in_a_clear_field_are_bugs_that_do_not_repeat_the_value(value: object) -> None:
    for nested in (value, [value], {"inner": value}):
        with pytest.raises(BugError) as caught:
            clear_fields({"field": nested})  # type: ignore[dict-item]  # the wrong types are the test
        assert str(value) not in str(caught.value)


@pytest.mark.parametrize("name", ["Field", "two words", "", "1a", "a" * 41])
def test_field_names_are_plain(name: str) -> None:
    with pytest.raises(BugError):
        clear_fields({name: 1})
    with pytest.raises(BugError):
        secret_path(name)


def test_an_unknown_type_is_a_bug_and_leaves_no_event(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    with pytest.raises(BugError):
        log.append("made.up")  # type: ignore[arg-type]  # the wrong type is the test
    with pytest.raises(BugError):
        log.append(EventType.QUESTION_ASKED, {"question": "Who signed?"})
    with log.snapshot() as view:
        assert view.count() == 0
    log.close()


def test_commitments_separate_field_and_text_and_hide_behind_the_salt() -> None:
    assert commit(b"s" * 32, "ab", b"c") != commit(b"s" * 32, "a", b"bc")
    assert commit(b"s" * 32, "a", b"c") != commit(b"t" * 32, "a", b"c")
    assert readable("a\ud800b") == "a\ufffdb"

"""The log as the window and the command line see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_app.audit.log import AuditLog
from muniment_app.services.api import AuditService
from muniment_app.services.audit import LogAuditService
from muniment_resources.i18n import Translator
from muniment_resources.verify.verify import VALID, check_bundle, read_bundle
from tests.helpers.audit_logs import QUESTION, fill, open_log, tampering


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    log = open_log(tmp_path / "w")
    fill(log)
    yield log
    log.close()


def test_windows_of_events(log: AuditLog) -> None:
    service: AuditService = LogAuditService(log)
    assert service.count() == 5

    def window(offset: int, limit: int, newest_first: bool) -> list[int]:
        return [event.seq for event in service.events(offset, limit, newest_first)]

    assert window(0, 100, True) == [4, 3, 2, 1, 0]
    assert window(1, 2, True) == [3, 2]
    assert window(4, 9, True) == [0]
    assert window(5, 9, True) == []
    assert window(1, 2, False) == [1, 2]
    assert window(4, 9, False) == [4]
    assert window(0, 0, True) == []


def test_events_show_clear_fields_and_kept_texts(log: AuditLog) -> None:
    service = LogAuditService(log)
    question = service.events(1, 1, newest_first=False)[0]
    assert (question.type, question.fields, question.opened) == (
        "question.asked",
        {"documents": 2},
        {"question": QUESTION},
    )
    assert len(question.leaf) == 64
    log.redact(1, "request")
    assert service.events(1, 1, newest_first=False)[0].opened == {}
    assert service.verify().redacted == 1


def test_a_damaged_event_still_shows(log: AuditLog, tmp_path: Path) -> None:
    with tampering(tmp_path / "w") as connection:
        connection.execute("UPDATE audit SET body = x'ff' WHERE seq = 2")
    service = LogAuditService(log)
    shown = service.events(2, 1, newest_first=False)[0]
    assert (shown.seq, shown.type, shown.fields) == (2, "", {})
    report = service.verify()
    assert (report.ok, report.first_bad, report.problem, report.events) == (False, 2, "changed", 5)
    # A damaged log can still be handed out, and the verifier says what is wrong with it.
    result = check_bundle(read_bundle(service.export(tmp_path, "all")))
    assert (result.code, result.first_bad) == (1, 2)


def test_an_export_into_a_folder_gets_a_name_and_the_language_of_the_user(log: AuditLog, tmp_path: Path) -> None:
    path = LogAuditService(log, Translator("zh_CN")).export(tmp_path)
    assert path.parent == tmp_path
    assert path.suffix == ".zip"
    files = read_bundle(path)
    assert check_bundle(files).code == VALID
    assert Translator("zh_CN").text("audit.report.title") in files["report.html"].decode()
    assert LogAuditService(log).export(tmp_path) != path

"""Models and tasks below the widgets."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import QModelIndex
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from muniment_app.bridge.formats import clock_time, plan_reason, sentence, size, time_left
from muniment_app.bridge.models import AuditModel, DocumentsModel, EvidenceModel, Row, RowsModel
from muniment_app.bridge.tasks import Lane, Mailbox, Task, Tasks
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from tests.helpers.services import LIBRARY, MEMO, Fake, answered

EN = Translator("en")


def test_models_keep_qts_rules(qtmodeltester: ModelTester) -> None:
    documents = DocumentsModel(EN)
    documents.set_documents(LIBRARY)
    evidence = EvidenceModel(EN)
    evidence.set_evidence(answered().evidence, answered().citations)
    rows = RowsModel(("a", "b"), (1,))
    rows.set_rows([Row(("x", "1")), Row(("y", "2"), "good", "tip")])
    for model in (documents, evidence, rows):
        qtmodeltester.check(model, force_py=True)  # type: ignore[no-untyped-call]  # pytest-qt has no types here


def test_audit_model_fetches_until_all_are_there(qtmodeltester: ModelTester) -> None:
    audit = Fake().services().audit
    model = AuditModel(EN)
    model.wanted.connect(lambda offset: model.append(audit.events(offset, 100)))
    model.start(250)
    sizes = []
    while model.canFetchMore(QModelIndex()):
        model.fetchMore(QModelIndex())
        sizes.append(model.rowCount())
        assert len(sizes) < 10
    assert sizes == [100, 200, 300]
    qtmodeltester.check(model, force_py=True)  # type: ignore[no-untyped-call]  # pytest-qt has no types here


def test_ticks_survive_a_reload_and_an_update() -> None:
    model = DocumentsModel(EN)
    model.set_documents(LIBRARY)
    model.setData(model.index(0, 0), 0, 10)
    model.set_documents(LIBRARY)
    model.upsert(MEMO)
    assert model.ticked() == ("doc2", "doc3")
    assert model.rowCount() == len(LIBRARY)


def test_lanes_do_not_wait_for_each_other(qtbot: QtBot) -> None:
    tasks = Tasks()
    gate = threading.Event()
    results: list[object] = []
    main = threading.get_ident()
    tasks.submit(Lane.ASK, lambda task: gate.wait(10), lambda value: results.append("ask"), results.append)
    tasks.submit(
        Lane.READ, lambda task: threading.get_ident(), lambda ident: results.append(ident != main), results.append
    )
    qtbot.waitUntil(lambda: results == [True])
    assert tasks.busy(Lane.ASK)
    assert not tasks.busy(Lane.READ)
    gate.set()
    qtbot.waitUntil(lambda: results == [True, "ask"])
    assert tasks.close(5)


def test_failure_comes_back_on_the_main_thread(qtbot: QtBot) -> None:
    tasks = Tasks()
    seen: list[tuple[str, int]] = []

    def work(task: Task) -> None:
        raise KnownError("E-BUG")

    tasks.submit(
        Lane.READ, work, lambda done: None, lambda error: seen.append((type(error).__name__, threading.get_ident()))
    )
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [("KnownError", threading.get_ident())]
    assert tasks.close(5)


def test_close_releases_a_task_that_asks_the_user(qtbot: QtBot) -> None:
    tasks = Tasks()
    replies: list[str | None] = []
    asked = threading.Event()

    def work(task: Task) -> None:
        replies.append(tasks.ask_main(task, lambda reply: asked.set()))

    tasks.submit(Lane.INDEX, work, lambda done: None, lambda error: None)
    qtbot.waitUntil(asked.is_set)
    assert tasks.close(5)
    assert replies == [None]


def test_mailbox_delivers_in_order_and_in_few_batches(qtbot: QtBot) -> None:
    tasks = Tasks()
    batches: list[list[int]] = []
    box: Mailbox[int] = Mailbox(tasks, batches.append)

    def work(task: Task) -> None:
        for number in range(5000):
            box.put(number)

    tasks.submit(Lane.ASK, work, lambda done: box.flush(), lambda error: None)
    qtbot.waitUntil(lambda: sum(map(len, batches)) == 5000)
    assert [number for batch in batches for number in batch] == list(range(5000))
    assert len(batches) < 500
    assert tasks.close(5)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (491_400_064, "469 MiB")],
)
def test_sizes(amount: int, text: str) -> None:
    assert size(amount) == text


def test_times() -> None:
    assert time_left(EN, None) == "estimating the time"
    shown = [time_left(EN, value) for value in (0.2, 59, 125, 7200)]
    assert shown == [
        "1 s left",
        "59 s left",
        "2 min left",
        "2 h left",
    ]
    assert clock_time("not a time") == "not a time"


def test_unknown_reasons_fall_back_to_their_code() -> None:
    assert sentence(EN, "E-NEVER-HEARD", {}) == "Reason: E-NEVER-HEARD"
    assert plan_reason(EN, "never_heard", {"missing_bytes": 1}) == "never_heard"

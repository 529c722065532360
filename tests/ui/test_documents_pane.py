"""Bringing documents in."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from muniment_app.ui.main_window import MainWindow
from tests.helpers.services import LIBRARY, REPORT, Fake
from tests.ui.conftest import Opener


def drop(window: MainWindow, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(400, 300), copy, data, left, none)
    window.dragEnterEvent(enter)
    assert enter.isAccepted()
    window.dropEvent(QDropEvent(QPointF(400, 300), copy, data, left, none))


def test_dropped_files_are_indexed_with_moving_progress(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    gate = fake.hold("index")
    paths = [Path("/documents/a.pdf"), Path("/documents/more")]
    drop(window, *paths)
    pane = window.ask.documents
    qtbot.waitUntil(lambda: pane._progress_text.full_text == "Indexing 1 of 2 · 41/96 pages · 2 min left")
    assert pane.bar.value() == round(1000 * (41 / 96) / 2)
    assert window.ask.box.isEnabled()
    gate.set()
    qtbot.waitUntil(lambda: not pane.indexing and pane.model.rowCount() == len(LIBRARY) + 2)
    assert fake.indexed == [paths]
    assert not pane._progress_card.isVisible()


def test_cancel_ends_indexing(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.hold("index")
    window.ask.add_paths([Path("/documents/a.pdf")])
    assert fake.entered["index"].wait(5)
    window.ask.documents.cancel()
    qtbot.waitUntil(lambda: not window.ask.documents.indexing)
    assert window.ask.documents.model.rowCount() == len(LIBRARY)


def test_password_is_asked_for_again_and_not_kept(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.encrypted = True
    pane = window.ask.documents
    pane.add([Path("/documents/locked.pdf")])
    for text in ("wrong", "right"):
        qtbot.waitUntil(lambda: pane.dialog is not None and pane.dialog.isVisible())
        dialog = pane.dialog
        assert dialog is not None
        dialog.edit.setText(text)
        dialog.accept()
        assert dialog.edit.text() == ""
    qtbot.waitUntil(lambda: not pane.indexing)
    assert fake.passwords == ["wrong", "right"]
    qtbot.waitUntil(lambda: pane.model.rowCount() == len(LIBRARY) + 1)


def test_file_without_password_is_left_out_with_a_reason(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.encrypted = True
    pane = window.ask.documents
    pane.add([Path("/documents/locked.pdf")])
    qtbot.waitUntil(lambda: pane.dialog is not None and pane.dialog.isVisible())
    assert pane.dialog is not None
    pane.dialog.reject()
    qtbot.waitUntil(lambda: not pane.indexing)
    assert fake.passwords == [None]
    assert "locked.pdf · Needs password" in pane._details.text()


def test_window_stays_alive_while_services_block(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    for name in ("index", "ask", "documents", "render", "headroom"):
        fake.hold(name)
    window.ask.add_paths([Path("/documents/a.pdf")])
    window.ask.box.setPlainText("Anything?")
    window.ask.ask()
    window.refresh_status()
    for name in ("index", "ask", "headroom"):
        assert fake.entered[name].wait(5)
    ticks: list[int] = []
    timer = QTimer(window)
    timer.timeout.connect(lambda: ticks.append(1))
    timer.start(5)
    qtbot.waitUntil(lambda: len(ticks) >= 20)
    assert window.ask.busy
    assert window.ask.documents.indexing


def test_removing_asks_first_and_closes_the_page(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    pane = window.ask.documents
    pane.open_requested.emit(REPORT)
    assert window.ask.page.target is not None
    pane.table.selectRow(0)
    pane.remove_selected()
    box = pane.findChild(QMessageBox)
    assert isinstance(box, QMessageBox)
    assert box.textFormat() is Qt.TextFormat.PlainText
    assert REPORT in fake.library
    box.buttons()[0].click()
    qtbot.waitUntil(lambda: pane.model.rowCount() == len(LIBRARY) - 1)
    assert REPORT not in fake.library
    assert window.ask.page.target is None


def test_rejected_and_partial_documents_say_why(window: MainWindow) -> None:
    pane = window.ask.documents
    pane.table.selectRow(2)
    assert "92 of 96 pages" in pane._details.text()
    assert "E-UI-TEST-UNKNOWN" in pane._details.text()
    tip = pane.model.index(3, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert tip.startswith("scan-0042.pdf · Not readable · ")


def test_filter_narrows_the_list(window: MainWindow) -> None:
    pane = window.ask.documents
    pane.filter.setText("MEMO")
    assert pane.table.model().rowCount() == 1
    pane.filter.setText("")
    assert pane.table.model().rowCount() == len(LIBRARY)


def test_first_run_offers_the_starter_model_then_documents(qtbot: QtBot, opener: Opener) -> None:
    fake = Fake(documents=(), installed=False)
    gate = fake.hold("add")
    window = opener(fake)
    start = window.ask.start
    qtbot.waitUntil(start.get_button.isVisible)
    assert "469 MiB" in start.get_button.text()
    start.get_button.click()
    qtbot.waitUntil(lambda: start.note.text() == "100 MiB of 469 MiB")
    start.cancel_button.click()
    qtbot.waitUntil(lambda: not start.fetching)
    assert start.get_button.isVisible()
    gate.set()
    start.get_button.click()
    qtbot.waitUntil(lambda: start.heading.text() == "Add the first documents")
    assert "Ctrl+O" in start.text.text()

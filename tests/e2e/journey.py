"""The one journey through the real window; run by ``test_journey.py`` in a process that may open a display."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from muniment_app.bridge.settings import SettingsStore
from muniment_app.config.settings import SettingsFile
from muniment_app.services.api import Services
from muniment_app.ui.app import start
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.page_canvas import MARK_COLOR
from muniment_app.ui.resources_texts import model_name
from muniment_resources.i18n import Translator
from muniment_resources.samples import facts, sample_paths
from tests.helpers.real_window import add_tiny_model, real_services, write_script

WAIT_MS = 60_000
FACT = next(fact for fact in facts() if fact.answer == "Fennick and Hale LLP")
LINE = FACT.quote or ""


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[MainWindow]:
    script = write_script(tmp_path / "script.toml", FACT.question, LINE, "Fennick and Hale LLP")

    def factory() -> Services:
        services = real_services(tmp_path / "home", script)
        add_tiny_model(services, tmp_path)
        return services

    settings = SettingsStore(SettingsFile(tmp_path / "home" / "settings.toml"))
    window = start(qapp, factory, Translator("en"), settings)
    with qtbot.waitExposed(window):
        window.resize(1280, 800)
    yield window
    window.close()
    window.deleteLater()


def drop(window: MainWindow, path: Path) -> None:
    """Drag a file over the window and drop it."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    buttons, modifiers = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(600, 400), Qt.DropAction.CopyAction, data, buttons, modifiers)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    leave = QDropEvent(QPointF(600, 400), Qt.DropAction.CopyAction, data, buttons, modifiers)
    QApplication.sendEvent(window, leave)
    assert leave.isAccepted()


def click_citation(qtbot: QtBot, window: MainWindow) -> None:
    """Click the number behind the first sentence, where it stands on the screen."""
    browser = window.ask.answer_view.browser
    cursor = browser.document().find("[1]")
    assert not cursor.isNull()
    middle = QTextCursor(browser.document())
    middle.setPosition(cursor.selectionStart() + 1)
    QTest.mouseClick(browser.viewport(), Qt.MouseButton.LeftButton, pos=browser.cursorRect(middle).center())


def marked_pixels(window: MainWindow) -> tuple[int, int]:
    """Return how many pixels with the colour of marks there are inside the mark, and in the same area right of it."""
    canvas = window.ask.page.canvas
    (rect,) = canvas.mark_rects()
    image = canvas.viewport().grab().toImage()
    scale = image.devicePixelRatio()
    inside = outside = 0
    for x in range(image.width()):
        for y in range(image.height()):
            if image.pixelColor(x, y).name() == MARK_COLOR:
                near = rect.adjusted(-2, -2, 2, 2).contains(QPointF(x / scale, y / scale))
                inside, outside = inside + near, outside + (not near)
    return inside, outside


def test_journey(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    ask = window.ask
    qtbot.waitUntil(ask.start.add_button.isVisible, timeout=WAIT_MS)

    drop(window, sample_paths()[0])
    qtbot.waitUntil(lambda: ask.documents.model.rowCount() == 1 and not ask.documents.indexing, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: ask.start.heading.text() == "What do you want to know?", timeout=WAIT_MS)
    (document,) = ask.documents.model.documents
    assert (document.name, document.pages, document.readable_pages) == (FACT.document, 12, 12)

    QTest.keyClicks(ask.box, FACT.question)
    QTest.keyClick(ask.box, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    streamed: list[str] = []
    ask.answer_view.browser.textChanged.connect(lambda: streamed.append(ask.answer_view.browser.toPlainText()))
    qtbot.waitUntil(lambda: not ask.busy, timeout=WAIT_MS)
    assert len({text for text in streamed if text}) > 3, "the answer comes piece by piece"
    assert ask.answer_view.browser.toPlainText().startswith("Fennick and Hale LLP [1]")
    assert "1 sentence" in ask.answer_view.state.text()

    window.ask.page.clear()
    click_citation(qtbot, window)
    qtbot.waitUntil(lambda: len(ask.page.canvas.mark_rects()) == 1, timeout=WAIT_MS)
    assert ask.page.target is not None
    assert ask.page.target.page == FACT.page
    (box,) = ask.page.target.boxes
    assert LINE in ask.page.target.quote
    (rect,) = ask.page.canvas.mark_rects()
    page = ask.page.canvas.page_rect()
    assert rect.left() - page.left() == pytest.approx(box[0] * ask.page.canvas.zoom, abs=1)
    inside, outside = marked_pixels(window)
    assert inside > 500
    assert outside == 0

    QTest.mouseClick(window.rail[1], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "Planned" in window.resources.running.text(), timeout=WAIT_MS)
    snapshot = window.resources.snapshot
    assert snapshot is not None
    assert snapshot.plan is not None
    assert snapshot.plan.choice is not None
    choice = snapshot.plan.choice
    assert window.resources.need.name.text().startswith(f"{model_name(choice.config.model_id, choice.quantization)} · ")
    assert snapshot.running is not None
    assert snapshot.running.model_id == snapshot.plan.choice.config.model_id
    assert [row.cells[1] for row in window.resources.need.model.rows][-2] == "Left over"

    QTest.mouseClick(window.rail[2], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(window.audit.verify_button.isEnabled, timeout=WAIT_MS)
    QTest.mouseClick(window.audit.verify_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.audit.result.text().startswith("Intact · "), timeout=WAIT_MS)
    # The check and the list are read at the same time; either may come first.
    qtbot.waitUntil(lambda: bool(window.audit.model.events), timeout=WAIT_MS)
    types = {event.type for event in window.audit.model.events}
    assert {"document.added", "question.asked", "runtime.decision", "answer.completed"} <= types

    window.audit.export(tmp_path / "record", "none")
    qtbot.waitUntil(lambda: window.audit.result.text().startswith("Exported to "), timeout=WAIT_MS)
    written = Path(window.audit.result.text().removeprefix("Exported to "))
    with zipfile.ZipFile(written) as bundle:
        lines = bundle.read(next(name for name in bundle.namelist() if name.endswith("events.jsonl"))).decode("utf-8")
    kinds = [json.loads(line)["type"] for line in lines.splitlines()]
    assert kinds[0] == "app.started"
    assert "answer.completed" in kinds

    window.close()
    assert not window.isVisible()


def test_window_stays_responsive_while_documents_are_indexed(qtbot: QtBot, window: MainWindow) -> None:
    ask = window.ask
    qtbot.waitUntil(ask.start.add_button.isVisible, timeout=WAIT_MS)
    ticks: list[bool] = []
    timer = QTimer()
    timer.setInterval(10)
    timer.timeout.connect(lambda: ticks.append(ask.documents.indexing))
    timer.start()
    ask.add_paths(sample_paths())
    assert ask.documents.indexing
    QTest.keyClicks(ask.box, "typed meanwhile")
    qtbot.waitUntil(lambda: ask.documents.model.rowCount() == 3 and not ask.documents.indexing, timeout=WAIT_MS)
    timer.stop()
    # A window that waits for the index run sees a handful of turns at most; this one gets a turn whenever it likes.
    assert sum(ticks) > 20
    assert ask.box.toPlainText() == "typed meanwhile"
    assert ask.ask_button.isEnabled()

"""The life of a question in the window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF, QRectF, Qt, QUrl
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from muniment_app.services.api import Answer, AnswerStatus
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.page_canvas import MARK_AT, ImageCache, to_image
from muniment_resources.errors import KnownError
from muniment_retrieval.model import RenderedPage, Sentence, Support
from tests.helpers.services import (
    BROKEN,
    CONTRACT,
    MARK,
    MEMO,
    PAGE_PT,
    QUOTE_1,
    REPORT,
    Fake,
    answered,
    not_found,
    paint_page,
)
from tests.ui.conftest import Opener


def ask(qtbot: QtBot, window: MainWindow, question: str = "What was net revenue?") -> None:
    window.ask.box.setPlainText(question)
    QTest.keyClick(window.ask.box, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def ask_to_end(qtbot: QtBot, window: MainWindow) -> None:
    ask(qtbot, window)
    qtbot.waitUntil(lambda: not window.ask.busy)


def test_answer_streams_then_is_replaced_by_the_checked_one(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    gate = fake.hold("ask")
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.ask.answer_view.browser.toPlainText() == "Net revenue was 1,161 million.")
    assert window.ask.answer_view.state.text() == "Not checked yet"
    assert window.ask.stop_button.isVisible()
    assert not window.ask.ask_button.isEnabled()
    gate.set()
    qtbot.waitUntil(lambda: not window.ask.busy)
    text = window.ask.answer_view.browser.toPlainText()
    assert text.startswith("Net revenue was 1,161 million crowns in 2025. [1] The rise")
    assert "[2]" in text
    assert text.count("no passage found for this sentence") == 1
    assert window.ask.answer_view.state.text() == "2 of 3 sentences supported"
    assert (
        "first word 0.9 s · 14.2 tokens/s · 3 passages of 2 documents · 2 of 3 sentences supported"
        in window.ask.answer_view.footer.text()
    )
    assert window.ask.answer_view.left_out.text() == "1 of 4 passages were left out to fit"
    assert window.ask.evidence.model.rowCount() == 4


def test_unsupported_sentence_is_underlined_with_dots(qtbot: QtBot, window: MainWindow) -> None:
    ask_to_end(qtbot, window)
    document = window.ask.answer_view.browser.document()
    dots = QTextCharFormat.UnderlineStyle.DotLine
    assert document.find("It will go on").charFormat().underlineStyle() is dots
    assert document.find("Net revenue").charFormat().underlineStyle() is not dots


def test_citation_click_shows_its_page_with_the_right_rectangle(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    ask_to_end(qtbot, window)
    window.ask.answer_view.browser.anchorClicked.emit(QUrl("cite:2"))
    qtbot.waitUntil(lambda: len(window.ask.page.canvas.mark_rects()) == 1 and fake.rendered[-1][1] == 57)
    window.ask.answer_view.browser.anchorClicked.emit(QUrl("cite:1"))
    canvas = window.ask.page.canvas
    qtbot.waitUntil(lambda: window.ask.page.target is not None and window.ask.page.target.page == 24)
    qtbot.waitUntil(lambda: len(canvas.mark_rects()) == 1)
    assert (REPORT.document_id, 24) in [call[:2] for call in fake.rendered]
    (row,) = window.ask.evidence.table.selectionModel().selectedRows()
    cells = [window.ask.evidence.model.index(row.row(), column).data() for column in range(5)]
    assert cells == ["1", QUOTE_1, REPORT.name, "24", "exact"]
    page, zoom = canvas.page_rect(), canvas.zoom
    assert page.width() == pytest.approx(PAGE_PT[0] * zoom, abs=1)
    expected = QRectF(
        QPointF(page.left() + MARK[0] * zoom, page.top() + MARK[1] * zoom),
        QPointF(page.left() + MARK[2] * zoom, page.top() + MARK[3] * zoom),
    )
    assert canvas.mark_rects() == [expected]
    pixel = canvas.viewport().grab().toImage()
    inside = pixel.pixelColor((expected.topRight() + QPointF(-4, 3)).toPoint())
    outside = pixel.pixelColor((expected.topRight() + QPointF(8, 3)).toPoint())
    assert inside.blue() < 140 < inside.red()
    assert outside == QColor("white")


def test_mark_is_scrolled_to_the_upper_third(qtbot: QtBot, window: MainWindow) -> None:
    ask_to_end(qtbot, window)
    canvas = window.ask.page.canvas
    qtbot.waitUntil(lambda: bool(canvas.mark_rects()))
    for _ in range(6):
        window.ask.page.zoom(1)
        qtbot.waitUntil(lambda: bool(canvas.mark_rects()))
    window.ask.show_citation(1)
    assert canvas.mark_rects()[0].top() == pytest.approx(MARK_AT * canvas.viewport().height(), abs=1.5)


def test_keys_walk_through_the_citations(qtbot: QtBot, window: MainWindow) -> None:
    ask_to_end(qtbot, window)
    pages = []
    for step in (1, 1, -1):
        window.ask.step_citation(step)
        assert window.ask.page.target is not None
        pages.append(window.ask.page.target.page)
    assert pages == [57, 24, 57]


def test_not_found_is_a_card_with_three_passages_that_lead_to_pages(
    qtbot: QtBot, window: MainWindow, fake: Fake
) -> None:
    fake.answer = not_found()
    ask_to_end(qtbot, window)
    view = window.ask.answer_view
    assert view.card.isVisible()
    assert view.card_title.text() == "Not found in the documents"
    assert len(view.rows) == 3
    assert not window.ask.evidence.isVisible()
    QTest.mouseClick(view.rows[1], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(fake.rendered) and fake.rendered[-1][:2] == (REPORT.document_id, 90))


@pytest.mark.parametrize("status", [AnswerStatus.REFUSED, AnswerStatus.ERROR])
def test_refusal_and_error_show_sentence_and_code(
    qtbot: QtBot, window: MainWindow, fake: Fake, status: AnswerStatus
) -> None:
    fake.answer = replace(not_found(), status=status, nearest=(), reason="E-STORE-OPEN", reason_params={"name": "x.db"})
    ask_to_end(qtbot, window)
    assert "x.db cannot be opened" in window.ask.answer_view.card_text.text()
    assert window.ask.answer_view.card_code.text() == "E-STORE-OPEN"


def test_known_error_and_bug_become_a_card(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.answer = KnownError("E-STORE-OPEN", name="index.db")
    ask_to_end(qtbot, window)
    assert "index.db" in window.ask.answer_view.card_text.text()
    fake.answer = ZeroDivisionError("secret text")
    with qtbot.captureExceptions() as raised:
        ask_to_end(qtbot, window)
    assert raised == []
    assert "ZeroDivisionError" in window.ask.answer_view.card_text.text()
    assert "secret" not in window.ask.answer_view.card_text.text()


def test_escape_stops_and_keeps_what_was_written(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.hold("ask")
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "million." in window.ask.answer_view.browser.toPlainText())
    window.ask.stop()
    qtbot.waitUntil(lambda: not window.ask.busy)
    assert window.ask.answer_view.state.text() == "Stopped by you · not checked"
    assert window.ask.answer_view.browser.toPlainText() == "Net revenue was 1,161 million."


def test_only_ticked_documents_are_asked(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    ask_to_end(qtbot, window)
    asked = [request.documents for request in fake.asked]
    assert asked == [()]
    model = window.ask.documents.model
    assert model.setData(model.index(0, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    ask_to_end(qtbot, window)
    assert fake.asked[-1].documents == (CONTRACT.document_id, MEMO.document_id)
    for row in (1, 2):
        model.setData(model.index(row, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    ask(qtbot, window)
    assert window.ask.phase.text() == "Tick at least one document first."
    assert len(fake.asked) == 2
    assert not model.setData(model.index(3, 0), Qt.CheckState.Checked, Qt.ItemDataRole.CheckStateRole), BROKEN


def test_up_in_the_empty_box_brings_the_last_question_back(qtbot: QtBot, window: MainWindow) -> None:
    ask_to_end(qtbot, window)
    assert window.ask.box.toPlainText() == ""
    QTest.keyClick(window.ask.box, Qt.Key.Key_Up)
    assert window.ask.box.toPlainText() == "What was net revenue?"


HOSTILE = (
    "<img src='file:///etc/hostname'> ![x](file:///etc/passwd) <a href='file:///etc/passwd'>open</a> "
    "<script>1</script> ![y](http://127.0.0.1:9/z.png) [link](http://127.0.0.1:9/)"
)


def test_hostile_text_stays_text_and_loads_nothing(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    base: Answer = answered()
    fake.stream = [HOSTILE]
    fake.answer = replace(base, answer=HOSTILE, sentences=(Sentence(HOSTILE, Support.NONE, (1,)),))
    gate = fake.hold("ask")
    ask(qtbot, window, HOSTILE)
    browser = window.ask.answer_view.browser
    qtbot.waitUntil(lambda: browser.toPlainText() == HOSTILE)
    gate.set()
    qtbot.waitUntil(lambda: not window.ask.busy)
    assert HOSTILE in browser.toPlainText()
    assert window.ask.answer_view.question.text() == HOSTILE
    assert window.ask.answer_view.question.textFormat() is Qt.TextFormat.PlainText
    hrefs = set()
    cursor = QTextCursor(browser.document())
    while not cursor.atEnd():
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        assert not cursor.charFormat().isImageFormat()
        hrefs.add(cursor.charFormat().anchorHref())
    assert hrefs == {"", "cite:1"}
    assert browser.loadResource(2, QUrl("file:///etc/hostname")) == ""
    before = browser.toPlainText()
    browser.anchorClicked.emit(QUrl("file:///etc/hostname"))
    browser.anchorClicked.emit(QUrl("cite:../../1"))
    assert browser.toPlainText() == before


def test_page_that_cannot_be_drawn_says_why(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.render_error = KnownError("E-STORE-OPEN", name="page")
    ask_to_end(qtbot, window)
    qtbot.waitUntil(lambda: window.ask.page.canvas.message.endswith("E-STORE-OPEN"))


def test_pixels_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        to_image(RenderedPage(1, 10, 10, 1.0, b"\0" * 299))


def test_image_cache_keeps_its_bound() -> None:
    image = to_image(paint_page(1, 1.0))
    cache = ImageCache(image.sizeInBytes() * 2)
    for page in (1, 2):
        cache.put(("a", page, 1000), image)
    assert cache.get(("a", 1, 1000)) is not None
    cache.put(("b", 1, 1000), image)
    assert cache.get(("a", 2, 1000)) is None
    assert cache.get(("a", 1, 1000)) is not None
    assert cache.bytes == image.sizeInBytes() * 2
    cache.forget("a")
    assert cache.bytes == image.sizeInBytes()


def test_turning_pages_stays_inside_the_document_and_drops_the_mark(qtbot: QtBot, opener: Opener, fake: Fake) -> None:
    window = opener(fake)
    ask_to_end(qtbot, window)
    pane = window.ask.page
    pane.step(1)
    assert pane.target is not None
    assert (pane.target.page, pane.target.boxes) == (25, ())
    pane.show_page(replace(pane.target, page=212))
    pane.step(1)
    assert pane.target.page == 212

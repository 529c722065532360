"""Question, answer and cards. Text of models and documents is inserted as plain text with formats: never as markup."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QFont, QTextCharFormat, QTextCursor, QTextOption
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from muniment_app.bridge.formats import optional_text, seconds, sentence
from muniment_app.services.api import Answer, AnswerStatus
from muniment_app.ui.theme import GRID, colors_of
from muniment_app.ui.widgets import Card, ElidedLabel, IconButton, PlainLabel, chip, set_property
from muniment_resources.i18n import Translator
from muniment_retrieval.model import Passage, Sentence, Support

__all__ = ["AnswerView", "SafeBrowser", "footer"]

NEAREST = 3


class SafeBrowser(QTextBrowser):
    """Shows formatted text that was inserted piece by piece; loads nothing, opens nothing.

    The class has no way in for HTML or Markdown: ``setHtml``, ``setMarkdown`` and the like are never called, and
    ``loadResource`` answers every request with nothing, so that hostile text cannot read a file or reach a host.
    """

    citation_clicked = Signal(int)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setAcceptDrops(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.anchorClicked.connect(self._on_anchor)

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Load nothing, whatever is asked."""
        return ""

    def append_plain(self, text: str) -> None:
        """Add text as it is."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, QTextCharFormat())

    def insert(self, cursor: QTextCursor, item: Sentence, note: str) -> None:
        """Add one checked sentence with its citation numbers, or with the note that nothing carries it."""
        colors = colors_of(self.palette())
        plain, link, small = QTextCharFormat(), QTextCharFormat(), QTextCharFormat()
        if item.support is Support.NONE:
            plain.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
            plain.setUnderlineColor(QColor(colors.bad))
            plain.setToolTip(note)
        link.setForeground(QColor(colors.accent))
        link.setBackground(QColor(colors.accent_soft))
        link.setFontWeight(QFont.Weight.DemiBold)
        link.setAnchor(True)
        small.setForeground(QColor(colors.bad))
        small.setProperty(QTextCharFormat.Property.FontSizeAdjustment, -1)
        cursor.insertText(item.text.strip(), plain)
        for number in item.citations:
            link.setAnchorHref(f"cite:{number}")
            cursor.insertText(" ", QTextCharFormat())
            cursor.insertText(f"[{number}]", link)
        if item.support is Support.NONE:
            cursor.insertText(f"  {note}", small)
        cursor.insertText(" ", QTextCharFormat())

    def _on_anchor(self, url: QUrl) -> None:
        number = url.path()
        if url.scheme() == "cite" and number.isascii() and number.isdigit():
            self.citation_clicked.emit(int(number))

    def _fit(self, size: QSizeF) -> None:
        self.setFixedHeight(max(28, int(size.height()) + 6))


class PassageRow(QPushButton):
    """A passage as a row to click: where it stands, and its beginning."""

    def __init__(self, passage: Passage, where: str) -> None:
        super().__init__()
        self.passage = passage
        self.setProperty("kind", "row")
        self.setAccessibleName(where)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        column = QVBoxLayout(self)
        column.setContentsMargins(int(1.5 * GRID), GRID, int(1.5 * GRID), GRID)
        column.setSpacing(2)
        start = " ".join(passage.text.split())[:300]
        for label in (ElidedLabel(where, "small"), ElidedLabel(start, mode=Qt.TextElideMode.ElideRight)):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            column.addWidget(label)
        self.setMinimumHeight(54)


class AnswerView(QScrollArea):
    """The middle of the ask page.

    Signals:
        citation_clicked: A citation number.
        passage_clicked: A ``Passage`` of the not-found card.
    """

    citation_clicked = Signal(int)
    passage_clicked = Signal(object)

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator = translator
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(translator.text("ui.answer"))
        self.question = PlainLabel(role="question", wrap=True)
        self.question.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.question.setAccessibleName(translator.text("ui.ask_box"))
        self.state = chip()
        self.browser = SafeBrowser(translator.text("ui.answer"))
        self.browser.citation_clicked.connect(self.citation_clicked)
        self.left_out = PlainLabel(role="small", wrap=True)
        self.left_out.setProperty("tone", "warn")
        self.footer = PlainLabel(role="small", wrap=True)
        self.copy_button = IconButton("copy", translator.text("ui.copy_answer"), self.copy_answer)
        self.card = Card("warn")
        self.card_title = PlainLabel(role="heading", wrap=True)
        self.card_text = PlainLabel(wrap=True)
        self.card_code = PlainLabel(role="small")
        self._rows = QVBoxLayout()
        self._rows.setSpacing(GRID)
        self.rows: list[PassageRow] = []
        self._answer: Answer | None = None
        self._build()
        self.clear()

    def clear(self) -> None:
        """Show nothing."""
        self._answer = None
        self.question.setText("")
        self._hide()

    def start(self, question: str) -> None:
        """Show a question that is being worked on."""
        self.clear()
        self.question.setText(question)

    def append(self, untrusted_text: str) -> None:
        """Show more of what the model writes, marked as not yet checked."""
        self._set_state("ui.state_unchecked", "plain")
        self.browser.show()
        self.browser.append_plain(untrusted_text)
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def show_answer(self, question: str, answer: Answer) -> None:
        """Replace what was streamed by the checked result."""
        self.start(question)
        self._answer = answer
        if answer.status is AnswerStatus.ANSWERED:
            self._show_sentences(answer)
        else:
            self._show_card(answer)
        if answer.left_out:
            total = answer.left_out + sum(1 for item in answer.evidence if item.used)
            self.left_out.setText(self._translator.text("ui.left_out", n=answer.left_out, total=total))
            self.left_out.show()
        text = footer(self._translator, answer)
        self.footer.setText(text)
        self.footer.setVisible(bool(text))
        self.verticalScrollBar().setValue(0)

    def show_error(self, sentence_text: str, code: str) -> None:
        """Show that the question failed."""
        self._hide()
        self._fill_card("bad", self._translator.text("ui.failed_title"), sentence_text, code)

    def show_stopped(self) -> None:
        """Keep what was written and say that the user stopped it."""
        self._set_state("ui.state_stopped", "warn")

    def copy_answer(self) -> None:
        """Copy the answer with its sources."""
        if self._answer is None:
            return
        lines = [self.question.text(), "", self._answer.answer, ""]
        for item in self._answer.citations:
            source = self._translator.text("ui.quote_source", document=item.document, page=item.page)
            lines.append(f"[{item.n}] {source}: {item.quote}")
        QApplication.clipboard().setText("\n".join(lines))

    def _build(self) -> None:
        body = QWidget()
        body.setProperty("role", "page")
        column = QVBoxLayout(body)
        column.setContentsMargins(int(2.5 * GRID), 2 * GRID, int(2.5 * GRID), 2 * GRID)
        column.setSpacing(int(1.5 * GRID))
        column.addWidget(self.question)
        state = QHBoxLayout()
        state.addWidget(self.state)
        state.addStretch(1)
        state.addWidget(self.copy_button)
        column.addLayout(state)
        font = self.browser.font()
        font.setPointSizeF(11.5)
        self.browser.setFont(font)
        self.browser.document().setDefaultFont(font)
        column.addWidget(self.browser)
        for widget in (self.card_title, self.card_text, self.card_code):
            self.card.column.addWidget(widget)
        self.card.column.addLayout(self._rows)
        column.addWidget(self.card)
        column.addWidget(self.left_out)
        column.addWidget(self.footer)
        column.addStretch(1)
        self.setWidget(body)
        self.viewport().setAutoFillBackground(False)
        body.setAutoFillBackground(False)

    def _hide(self) -> None:
        self.browser.clear()
        for row in self.rows:
            self._rows.removeWidget(row)
            row.deleteLater()
        self.rows = []
        for widget in (self.state, self.browser, self.card, self.footer, self.left_out, self.copy_button):
            widget.hide()

    def _set_state(self, key: str, kind: str, **params: object) -> None:
        set_property(self.state, "chip", kind)
        self.state.setText(self._translator.text(key, **params))
        self.state.show()

    def _show_sentences(self, answer: Answer) -> None:
        carried = sum(1 for item in answer.sentences if item.support is not Support.NONE)
        whole = carried == len(answer.sentences)
        self._set_state("ui.state_supported", "good" if whole else "warn", carried=carried, n=len(answer.sentences))
        self.browser.show()
        cursor = QTextCursor(self.browser.document())
        note = self._translator.text("ui.no_passage")
        for item in answer.sentences:
            self.browser.insert(cursor, item, note)
        if not answer.sentences:
            self.browser.append_plain(answer.answer)
        self.copy_button.show()

    def _show_card(self, answer: Answer) -> None:
        titles = {
            AnswerStatus.NOT_FOUND: ("ui.not_found_title", "warn"),
            AnswerStatus.REFUSED: ("ui.refused_title", "warn"),
            AnswerStatus.ERROR: ("ui.failed_title", "bad"),
        }
        key, kind = titles[answer.status]
        code = answer.reason or ""
        text = sentence(self._translator, code, answer.reason_params) if code else ""
        self._fill_card(kind, self._translator.text(key), text, code)
        self._add_nearest(answer.nearest[:NEAREST])

    def _fill_card(self, kind: str, title: str, text: str, code: str) -> None:
        set_property(self.card, "card", kind)
        set_property(self.card_title, "tone", kind)
        self.card_title.setText(title)
        self.card_text.setText(text)
        self.card_text.setVisible(bool(text))
        self.card_code.setText(code)
        self.card_code.setVisible(bool(code))
        self.card.show()

    def _add_nearest(self, passages: Sequence[Passage]) -> None:
        if passages:
            self.card_code.setText(
                f"{self.card_code.text()} · {self._translator.text('ui.nearest', n=len(passages))}".strip(" ·")
            )
            self.card_code.show()
        for passage in passages:
            where = self._translator.text("ui.quote_source", document=passage.document, page=passage.page)
            row = PassageRow(passage, where)
            row.clicked.connect(lambda _=False, item=passage: self.passage_clicked.emit(item))
            self._rows.addWidget(row)
            self.rows.append(row)


def footer(translator: Translator, answer: Answer) -> str:
    """Return the figures of an answer as one line; figures that do not exist are left out."""
    text = translator.text
    parts: list[str] = []
    if answer.plan is not None:
        parts.append(text("ui.first_word", time=seconds(translator, answer.timings.ttft_s)))
        if answer.timings.tpot_s > 0:
            parts.append(text("ui.speed", speed=f"{1 / answer.timings.tpot_s:.1f}"))
    used = [item for item in answer.evidence if item.used]
    if used:
        documents = len({item.passage.document_id for item in used})
        documents_text = text("ui.count_documents", n=documents)
        parts.append(text("ui.passages_of", n=len(used), documents=documents_text))
    if answer.status is AnswerStatus.ANSWERED:
        carried = sum(1 for item in answer.sentences if item.support is not Support.NONE)
        parts.append(text("ui.state_supported", carried=carried, n=len(answer.sentences)))
    if answer.plan is not None:
        parts.append(f"{answer.plan.model} {answer.plan.quantization}")
    parts.append(text("ui.receipt", seq=answer.audit.seq, leaf=answer.audit.leaf[:8]))
    return " · ".join(part for part in parts if part) or optional_text(translator, "ui.answer", "")

"""The ask page: documents, answer and page side by side; the life of one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from muniment_app.bridge.formats import failure
from muniment_app.bridge.tasks import Lane, Mailbox, Task, Tasks
from muniment_app.services.api import Answer, AskEvent, AskPhase, AskRequest, ModelInfo, Services
from muniment_app.ui.answer_view import AnswerView
from muniment_app.ui.documents_pane import DocumentsPane
from muniment_app.ui.evidence_view import EvidenceView
from muniment_app.ui.page_pane import PagePane, PageTarget
from muniment_app.ui.start_panel import StartPanel
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, InputFrame, PlainLabel, make_button, set_property
from muniment_resources.i18n import Translator
from muniment_retrieval.model import Citation, DocumentInfo, Evidence, Passage

__all__ = ["AskPage", "Conversation"]

CANCELLED_CODES = frozenset({"E-ASK-CANCELLED", "E-CANCELLED"})


@dataclass(frozen=True)
class Conversation:
    """What survives a change of language: the last question and its checked answer."""

    question: str = ""
    answer: Answer | None = None


class AskPage(QWidget):
    """Documents | answer | page.

    Signals:
        changed: Something that the status bar shows may have changed.
        answered: A question ended.
    """

    changed = Signal()
    answered = Signal()

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._services: Services | None = None
        self._task: Task | None = None
        self._models: list[ModelInfo] | None = None
        self._current = -1
        self.conversation = Conversation()
        self._asking = ""
        self._mail: Mailbox[AskEvent] = Mailbox(tasks, self._on_events)
        self.documents = DocumentsPane(translator, tasks)
        self.answer_view = AnswerView(translator)
        self.evidence = EvidenceView(translator)
        self.page = PagePane(translator, tasks)
        self.start = StartPanel(translator, tasks, self.documents.choose_files)
        self._build()
        self._connect()
        self.evidence.show_answer(None)
        self._enable()

    @property
    def busy(self) -> bool:
        """Whether a question is being worked on."""
        return self._task is not None

    def attach(self, services: Services) -> None:
        """Give the services once they exist."""
        self._services = services
        self.documents.attach(services)
        self.page.attach(services.pages, services.library)
        self.start.attach(services.models)
        self.load_models()
        self._enable()

    def fail(self, error: Exception) -> None:
        """Say that the services could not be made, or do not know their models."""
        self.start.show_broken(*failure(self._translator, error))

    def restore(self, conversation: Conversation) -> None:
        """Show an earlier question and its answer again."""
        self.conversation = conversation
        if conversation.answer is not None:
            self._show(conversation.question, conversation.answer)

    def load_models(self) -> None:
        """Look which models are installed."""
        if self._services is not None:
            models = self._services.models
            self._tasks.submit(Lane.READ, lambda _task: models.list(), self._on_models, self.fail)

    def add_paths(self, paths: Sequence[Path]) -> None:
        """Index dropped files and folders."""
        self.documents.add(paths)

    def ask(self) -> None:
        """Ask what stands in the box about the ticked documents."""
        question = self.box.toPlainText().strip()
        if self._services is None or self.busy or not question:
            return
        ticked = self.documents.model.ticked()
        every = len(ticked) == len(self.documents.model.usable())
        if not ticked and not every:
            self._say("ui.tick_one", "warn")
            return
        request = AskRequest(question=question, documents=() if every else ticked)
        service = self._services.ask
        self._asking = question
        self._current = -1
        self.answer_view.start(question)
        self.evidence.show_answer(None)
        self.page.clear()  # a mark of the last answer beside a new question would mislead
        self._stack.setCurrentWidget(self._answer_card)
        self._say("ui.phase_searching")
        self.box.clear()
        self._task = self._tasks.submit(
            Lane.ASK,
            lambda task: service.ask(request, self._mail.put, task.cancelled),
            self._on_answer,
            self._on_failed,
        )
        self._enable()

    def stop(self) -> None:
        """Stop the question; what was written stays, marked as stopped."""
        if self._task is not None:
            self._task.cancel()
            self._say("ui.phase_stopping")

    def show_citation(self, number: int) -> None:
        """Show the page of a citation with its passage marked."""
        citations = self._citations()
        for position, citation in enumerate(citations):
            if citation.n == number:
                self._current = position
                where = self._translator.text("ui.citation_of", i=position + 1, k=len(citations))
                self.evidence.select(citation)
                self.page.show_page(
                    PageTarget(
                        citation.document_id,
                        citation.document,
                        citation.page,
                        self._pages(citation.document_id),
                        citation.boxes,
                        citation.quote,
                        where,
                    )
                )
                return

    def step_citation(self, by: int) -> None:
        """Show the next (1) or previous (-1) citation."""
        citations = self._citations()
        if citations:
            start = -1 if self._current < 0 and by > 0 else max(0, self._current)
            self.show_citation(citations[(start + by) % len(citations)].n)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Ctrl+Enter asks, Up in an empty box brings the last question back; the frame shows the focus."""
        if isinstance(event, QFocusEvent):
            self._frame.follow(self.box, event)
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            if enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.ask()
                return True
            if event.key() == Qt.Key.Key_Up and not self.box.toPlainText() and self.conversation.question:
                self.box.setPlainText(self.conversation.question)
                self.box.moveCursor(self.box.textCursor().MoveOperation.End)
                return True
        return super().eventFilter(watched, event)

    def _build(self) -> None:
        text = self._translator.text
        self.box = QPlainTextEdit()
        self.box.setPlaceholderText(text("ui.ask_placeholder"))
        self.box.setAccessibleName(text("ui.ask_box"))
        self.box.setTabChangesFocus(True)
        self.box.setAcceptDrops(False)
        self.box.viewport().setAcceptDrops(False)
        self.box.setFixedHeight(58)
        self.box.installEventFilter(self)
        self.ask_button = make_button(text("ui.ask_action"), self.ask, "primary")
        self.ask_button.setToolTip("Ctrl+Enter")
        self.stop_button = make_button(text("ui.stop"), self.stop)
        self.stop_button.setToolTip("Esc")
        self.phase = PlainLabel(role="small")
        self._frame = InputFrame()
        row = QHBoxLayout()
        row.setContentsMargins(GRID // 2, 0, 0, 0)
        row.addWidget(self.phase, 1)
        row.addWidget(self.stop_button)
        row.addWidget(self.ask_button)
        self._frame.column.setSpacing(GRID // 2)
        self._frame.column.addWidget(self.box)
        self._frame.column.addLayout(row)
        self._lay_out()

    def _lay_out(self) -> None:
        self._answer_card = Card(margin=1)
        self._answer_card.column.addWidget(self.answer_view)
        start_card = Card(margin=1)
        start_card.column.addWidget(self.start)
        self._stack = QStackedWidget()
        self._stack.addWidget(start_card)
        self._stack.addWidget(self._answer_card)
        reading = QSplitter(Qt.Orientation.Vertical)
        reading.addWidget(self._stack)
        reading.addWidget(self.evidence)
        reading.setStretchFactor(0, 3)
        reading.setStretchFactor(1, 2)
        reading.setSizes([420, 250])
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(reading, 1)
        column.addWidget(self._frame)
        splitter = QSplitter()
        for widget, stretch in ((self.documents, 0), (middle, 1), (self.page, 1)):
            splitter.addWidget(widget)
            splitter.setStretchFactor(splitter.count() - 1, stretch)
        splitter.setSizes([290, 470, 392])
        for part in (splitter, reading):
            part.setHandleWidth(GRID)
            part.setChildrenCollapsible(False)
        self.documents.setMinimumWidth(240)
        middle.setMinimumWidth(360)
        self.page.setMinimumWidth(300)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(int(1.5 * GRID), GRID, int(1.5 * GRID), int(1.5 * GRID))
        outer.addWidget(splitter)

    def _connect(self) -> None:
        self.answer_view.citation_clicked.connect(self.show_citation)
        self.answer_view.passage_clicked.connect(self._show_passage)
        self.evidence.chosen.connect(self._show_evidence)
        self.documents.open_requested.connect(self._show_document)
        self.documents.removed.connect(self.page.forget)
        self.documents.changed.connect(self._on_changed)
        self.start.model_added.connect(self.load_models)
        self.box.textChanged.connect(self._enable)
        for key, action in (
            ("Ctrl+L", self.box.setFocus),
            ("Esc", self.stop),
            ("F8", lambda: self.step_citation(1)),
            ("Shift+F8", lambda: self.step_citation(-1)),
        ):
            QShortcut(QKeySequence(key), self, action)
        for number in range(1, 10):
            QShortcut(QKeySequence(f"Alt+{number}"), self, lambda n=number: self.show_citation(n))

    def _citations(self) -> tuple[Citation, ...]:
        return self.conversation.answer.citations if self.conversation.answer else ()

    def _pages(self, document_id: str) -> int:
        return next((d.pages for d in self.documents.model.documents if d.document_id == document_id), 0)

    def _enable(self) -> None:
        ready = self._services is not None and not self.busy
        self.ask_button.setEnabled(ready and bool(self.box.toPlainText().strip()))
        self.stop_button.setVisible(self.busy)

    def _say(self, key: str | None, tone: str = "", **params: object) -> None:
        set_property(self.phase, "tone", tone)
        self.phase.setText(self._translator.text(key, **params) if key else "")

    def _on_changed(self) -> None:
        self._choose_start()
        self.changed.emit()

    def _choose_start(self) -> None:
        if self._services is None or self._models is None:
            return
        usable = len(self.documents.model.usable())
        if not any(model.installed for model in self._models):
            self.start.show_no_model(next((model for model in self._models if model.starter), None))
        elif not usable:
            self.start.show_no_documents()
        else:
            self.start.show_ready(len(self.documents.model.ticked()))

    def _on_models(self, models: list[ModelInfo]) -> None:
        self._models = models
        self._choose_start()
        self.changed.emit()

    def _on_events(self, events: list[AskEvent]) -> None:
        if self._task is None:
            return
        written = "".join(event.untrusted_text for event in events)
        if written:
            self.answer_view.append(written)
        last = events[-1]
        if self._task.cancelled():
            return
        if last.phase is AskPhase.READING and last.fraction is not None:
            self._say("ui.phase_reading_part", percent=round(100 * last.fraction))
        elif last.phase is AskPhase.SEARCHING and last.passages is not None:
            self._say("ui.phase_found", n=last.passages)
        else:
            self._say(f"ui.phase_{last.phase.value}")

    def _end(self) -> bool:
        """Return to idle; whether the user had stopped the question."""
        self._mail.flush()
        stopped = self._task is not None and self._task.cancelled()
        self._task = None
        self._enable()
        self.answered.emit()
        return stopped

    def _on_answer(self, answer: Answer) -> None:
        self._end()
        self._say("ui.phase_pending" if self.documents.indexing else None)
        self.conversation = Conversation(self._asking, answer)
        self._show(self._asking, answer)

    def _on_failed(self, error: Exception) -> None:
        stopped = self._end()
        sentence, code = failure(self._translator, error)
        self.conversation = Conversation(self._asking, None)
        if stopped and code in CANCELLED_CODES:
            self._say(None)
            self.answer_view.show_stopped()
            return
        self._say(None)
        self.answer_view.show_error(sentence, code)

    def _show(self, question: str, answer: Answer) -> None:
        self._stack.setCurrentWidget(self._answer_card)
        self.answer_view.show_answer(question, answer)
        self.evidence.show_answer(answer)
        if answer.citations:
            self.show_citation(answer.citations[0].n)

    def _show_evidence(self, row: int) -> None:
        citation = self.evidence.model.citation(row)
        if citation is not None:
            self.show_citation(citation.n)
            return
        item: Evidence = self.evidence.model.evidence[row]
        self._show_passage(item.passage)

    def _show_passage(self, passage: Passage) -> None:
        pages = self._pages(passage.document_id)
        self.page.show_page(
            PageTarget(passage.document_id, passage.document, passage.page, pages, passage.boxes, passage.text)
        )

    def _show_document(self, document: DocumentInfo) -> None:
        if document.readable_pages or document.pages:
            self.page.show_page(PageTarget(document.document_id, document.name, 1, document.pages))

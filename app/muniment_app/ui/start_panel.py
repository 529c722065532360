"""What the ask page says while there is nothing to show: each state names the next action and its shortcut."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from muniment_app.bridge.formats import failure, size
from muniment_app.bridge.tasks import Lane, Mailbox, Task, Tasks
from muniment_app.services.api import ModelInfo, ModelService
from muniment_app.ui.icons import draw_icon
from muniment_app.ui.theme import GRID, colors_of
from muniment_app.ui.widgets import PlainLabel, make_button, set_property
from muniment_resources.i18n import Translator

__all__ = ["Emblem", "StartPanel"]


class Emblem(QWidget):
    """A large painted icon on a soft disc."""

    def __init__(self, icon: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.icon = icon
        self.setFixedSize(72, 72)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint disc and icon."""
        colors = colors_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.accent_soft))
        painter.drawEllipse(self.rect())
        draw_icon(painter, self.icon, QRectF(18, 18, 36, 36), QColor(colors.accent))


class StartPanel(QWidget):
    """Icon, heading, explanation and one button.

    Signals:
        model_added: A model was installed.
    """

    model_added = Signal()

    def __init__(
        self, translator: Translator, tasks: Tasks, add_documents: Callable[[], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._models: ModelService | None = None
        self._task: Task | None = None
        self._starter: ModelInfo | None = None
        self._mail: Mailbox[tuple[int, int]] = Mailbox(tasks, self._on_progress)
        text = translator.text
        self._emblem = Emblem("page")
        self.heading = PlainLabel(role="title", wrap=True)
        self.text = PlainLabel(role="muted", wrap=True)
        self.note = PlainLabel(role="small", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(text("ui.model_getting"))
        self.bar.setFixedWidth(320)
        self.add_button = make_button(text("ui.add_pdfs"), add_documents, "primary")
        self.get_button = make_button(text("ui.get_starter"), self.get_starter, "primary")
        self.cancel_button = make_button(text("ui.cancel"), self.cancel)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * GRID, 3 * GRID, 3 * GRID, 3 * GRID)
        column.setSpacing(int(1.5 * GRID))
        column.addStretch(2)
        centre = Qt.AlignmentFlag.AlignHCenter
        column.addWidget(self._emblem, 0, centre)
        for label in (self.heading, self.text):
            label.setAlignment(centre)
            column.addWidget(label)
        for widget in (self.add_button, self.get_button, self.bar):
            column.addWidget(widget, 0, centre)
        self.note.setAlignment(centre)
        column.addWidget(self.note)
        column.addWidget(self.cancel_button, 0, centre)
        column.addStretch(3)
        self.show_starting()

    @property
    def fetching(self) -> bool:
        """Whether a model is being fetched."""
        return self._task is not None

    def attach(self, models: ModelService) -> None:
        """Give the service once it exists."""
        self._models = models

    def show_starting(self) -> None:
        """Services are not there yet."""
        self._show("page", "ui.starting_title", "ui.starting_text")

    def show_broken(self, sentence: str, code: str) -> None:
        """Services could not be made: say why."""
        self._show("warn", "ui.broken_title", None)
        self.text.setText(sentence)
        self.note.setText(code)
        self.note.show()

    def show_no_model(self, starter: ModelInfo | None) -> None:
        """No model is installed; offer the starter."""
        if self.fetching:
            return
        self._starter = starter
        self._show("model", "ui.no_model_title", "ui.no_model_text")
        if starter is not None:
            label = self._translator.text("ui.get_starter_size", size=size(starter.size_bytes))
            self.get_button.setText(label)
            self.get_button.setAccessibleName(label)
            self.get_button.show()
            self.note.setText(f"{starter.model_id} · {starter.licence}")
            self.note.show()

    def show_no_documents(self) -> None:
        """Nothing is indexed."""
        if not self.fetching:
            self._show("page", "ui.no_documents_title", "ui.no_documents_text")
            self.add_button.show()

    def show_ready(self, documents: int) -> None:
        """Everything is there; no question yet."""
        if not self.fetching:
            self._show("ask", "ui.ready_title", None)
            self.text.setText(self._translator.text("ui.ready_text", n=documents))

    def get_starter(self) -> None:
        """Fetch the starter model."""
        if self._models is None or self._starter is None or self.fetching:
            return
        models, name = self._models, self._starter.model_id
        self._show("model", "ui.model_getting", None)
        self.text.setText(name)
        self.bar.setRange(0, 0)
        self.bar.show()
        self.cancel_button.show()
        self._task = self._tasks.submit(
            Lane.LONG,
            lambda task: models.add(name, lambda done, total: self._mail.put((done, total)), task.cancelled),
            lambda _info: self._on_added(),
            self._on_failed,
        )

    def cancel(self) -> None:
        """Stop fetching; what is there is kept for the next try."""
        if self._task is not None:
            self._task.cancel()

    def _show(self, icon: str, heading: str, text: str | None) -> None:
        self._emblem.icon = icon
        self._emblem.update()
        self.heading.setText(self._translator.text(heading))
        self.text.setText(self._translator.text(text) if text else "")
        set_property(self.note, "tone", "")
        for widget in (self.add_button, self.get_button, self.bar, self.note, self.cancel_button):
            widget.hide()

    def _on_progress(self, items: list[tuple[int, int]]) -> None:
        if self._task is None:
            return
        done, total = items[-1]
        self.bar.setRange(0, 1000)
        self.bar.setValue(round(1000 * done / max(1, total)))
        self.note.setText(self._translator.text("ui.bytes_of", done=size(done), total=size(total)))
        self.note.show()

    def _on_added(self) -> None:
        self._task = None
        self.model_added.emit()

    def _on_failed(self, error: Exception) -> None:
        self._task = None
        self.show_no_model(self._starter)
        sentence, code = failure(self._translator, error)
        self.note.setText(f"{sentence} ({code})")
        set_property(self.note, "tone", "bad")
        self.note.show()

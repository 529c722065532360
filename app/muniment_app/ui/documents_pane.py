"""The list of documents: ticks, filter, adding, progress, reasons, removal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPoint, QSortFilterProxyModel, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from muniment_app.bridge.formats import failure, time_left
from muniment_app.bridge.models import DocumentsModel
from muniment_app.bridge.tasks import Lane, Mailbox, Task, Tasks
from muniment_app.services.api import IndexProgress, Services
from muniment_app.ui.dialogs import PasswordDialog, confirm
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import (
    Card,
    ElidedLabel,
    IconButton,
    PlainLabel,
    line,
    make_button,
    make_table,
    set_property,
)
from muniment_resources.i18n import Translator
from muniment_retrieval.model import DocumentInfo

__all__ = ["DocumentsPane"]


class DocumentsPane(QWidget):
    """Documents of the workspace.

    Signals:
        changed: The list or the ticks changed.
        open_requested: A document was activated (double click or Enter).
        removed: A document was removed (its id).
    """

    changed = Signal()
    open_requested = Signal(object)
    removed = Signal(str)

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._services: Services | None = None
        self._running: list[Task] = []
        self._last: IndexProgress | None = None
        self._last_at = 0.0
        self.dialog: PasswordDialog | None = None
        self.model = DocumentsModel(translator, self)
        self.model.ticks_changed.connect(self.changed)
        self._progress_mail: Mailbox[IndexProgress] = Mailbox(tasks, self._on_progress)
        self._build()
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._show_progress)

    @property
    def indexing(self) -> bool:
        """Whether documents are being brought in."""
        return bool(self._running)

    def attach(self, services: Services) -> None:
        """Give the services once they exist, and load the list."""
        self._services = services
        self.reload()

    def reload(self) -> None:
        """Read the list again."""
        if self._services is None:
            return
        library = self._services.library
        self._tasks.submit(Lane.READ, lambda _task: library.documents(), self._on_documents, self._on_failed)

    def choose_files(self) -> None:
        """Let the user choose PDFs."""
        files = QFileDialog(self, self._translator.text("ui.add_title"))
        files.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        files.setFileMode(QFileDialog.FileMode.ExistingFiles)
        files.setNameFilters([self._translator.text("ui.add_filter_pdf"), self._translator.text("ui.add_filter_all")])
        files.filesSelected.connect(lambda names: self.add([Path(name) for name in names]))
        files.open()

    def add(self, paths: Sequence[Path]) -> None:
        """Index files and folders; more can be added while that runs."""
        if self._services is None or not paths:
            return
        index = self._services.index

        def work(task: Task) -> list[DocumentInfo]:
            def ask(file_name: str, was_wrong: bool) -> str | None:
                def question(reply: Callable[[str | None], None]) -> None:
                    self._ask_password(file_name, was_wrong, reply)

                return self._tasks.ask_main(task, question)

            return index.index(list(paths), self._progress_mail.put, ask, task.cancelled)

        task = self._tasks.submit(Lane.INDEX, work, self._on_indexed, self._on_index_failed)
        self._running.append(task)
        self._say("")
        self._progress_card.show()
        self._show_progress()
        self._clock.start()
        self.changed.emit()

    def cancel(self) -> None:
        """Stop indexing; documents that are done stay."""
        for task in self._running:
            task.cancel()
        if self.dialog is not None:
            self.dialog.reject()
        self._progress_text.set_full_text(self._translator.text("ui.index_cancelling"))

    def selected(self) -> DocumentInfo | None:
        """Return the selected document."""
        rows = self.table.selectionModel().selectedRows()
        return self._document(rows[0]) if rows else None

    def remove_selected(self) -> None:
        """Ask, then remove the selected document from the index."""
        document = self.selected()
        if document is None or self._services is None:
            return
        library, text = self._services.library, self._translator.text

        def remove() -> None:
            self._tasks.submit(
                Lane.INDEX,
                lambda _task: library.remove(document.document_id),
                lambda _done: self._on_removed(document.document_id),
                self._on_failed,
            )

        confirm(
            self,
            text("ui.remove"),
            text("ui.remove_ask", document=document.name),
            text("ui.remove"),
            text("ui.cancel"),
            remove,
        )

    def status_text(self) -> str:
        """Return the state of the index as one short line."""
        if self._running:
            return self._progress_text.full_text
        count = len(self.model.usable())
        return self._translator.text("ui.status_index", n=count) if count else self._translator.text("ui.status_empty")

    def _build(self) -> None:
        text = self._translator.text
        self._proxy = QSortFilterProxyModel(self)
        self._proxy.setSourceModel(self.model)
        self._proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText(text("ui.filter"))
        self.filter.setAccessibleName(text("ui.filter"))
        self.filter.setClearButtonEnabled(True)
        self.filter.setAcceptDrops(False)
        self.filter.textChanged.connect(self._proxy.setFilterFixedString)
        self.table = make_table(self._proxy, text("ui.documents"), stretch=0, row_height=36, dots=(1,))
        self.table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._menu)
        self.table.activated.connect(self._activate)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._show_details())
        QShortcut(QKeySequence(QKeySequence.StandardKey.Delete), self.table, self.remove_selected,
                  context=Qt.ShortcutContext.WidgetShortcut)  # fmt: skip
        self._details = PlainLabel(role="small", wrap=True)
        self._details.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        self._details.hide()
        self._build_progress()
        self._remove_button = IconButton("remove", text("ui.remove"), self.remove_selected)
        self._remove_button.setEnabled(False)
        self._lay_out()

    def _build_progress(self) -> None:
        text = self._translator.text
        self._progress_text = ElidedLabel(role="small")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(text("ui.index_running"))
        self._progress_card = QWidget()
        progress = QVBoxLayout(self._progress_card)
        progress.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        progress.setSpacing(0)
        row = QHBoxLayout()
        row.addWidget(self.bar, 1)
        self.cancel_button = IconButton("close", text("ui.index_cancel"), self.cancel)
        row.addWidget(self.cancel_button)
        progress.addWidget(self._progress_text)
        progress.addLayout(row)
        self._progress_card.hide()

    def _lay_out(self) -> None:
        text = self._translator.text
        head = QHBoxLayout()
        head.addWidget(PlainLabel(text("ui.documents"), "heading"))
        head.addStretch(1)
        head.addWidget(self._remove_button)
        head.addWidget(make_button(text("ui.add_pdfs"), self.choose_files))
        top = QVBoxLayout()
        top.setContentsMargins(2 * GRID, int(1.5 * GRID), int(1.5 * GRID), GRID)
        top.setSpacing(GRID)
        top.addLayout(head)
        top.addWidget(self.filter)
        card = Card(margin=1)
        card.column.setSpacing(0)
        card.column.addLayout(top)
        card.column.addWidget(self.table, 1)
        self._details_line = line()
        self._details_line.hide()
        card.column.addWidget(self._details_line)
        card.column.addWidget(self._details)
        card.column.addWidget(self._progress_card)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(card)

    def _document(self, index: QModelIndex) -> DocumentInfo:
        return self.model.documents[self._proxy.mapToSource(index).row()]

    def _activate(self, index: QModelIndex) -> None:
        self.open_requested.emit(self._document(index))

    def _menu(self, position: QPoint) -> None:
        index = self.table.indexAt(position)
        if not index.isValid():
            return
        document = self._document(index)
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self._translator.text("ui.open_page"), lambda: self.open_requested.emit(document))
        menu.addAction(self._translator.text("ui.remove"), self.remove_selected)
        menu.popup(self.table.viewport().mapToGlobal(position))

    def _show_details(self) -> None:
        document = self.selected()
        self._remove_button.setEnabled(document is not None)
        self._say(self.model.details(document) if document else "")

    def _say(self, text: str, tone: str = "") -> None:
        set_property(self._details, "tone", tone)
        self._details.setText(text)
        self._details.setVisible(bool(text))
        self._details_line.setVisible(bool(text))

    def _ask_password(self, file_name: str, was_wrong: bool, reply: Callable[[str | None], None]) -> None:
        self.dialog = PasswordDialog(self, self._translator, file_name, was_wrong, reply)
        self.dialog.finished.connect(self._forget_dialog)
        self.dialog.open()

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _on_progress(self, items: list[IndexProgress]) -> None:
        for item in items:
            if item.finished is not None:
                self.model.upsert(item.finished)
        self._last, self._last_at = items[-1], time.monotonic()
        self._show_progress()

    def _show_progress(self) -> None:
        """Show the last report; between reports the remaining time keeps counting, so the line never stands still."""
        last = self._last
        if last is None:
            self.bar.setRange(0, 0)
            self._progress_text.set_full_text(self._translator.text("ui.index_running"))
            return
        left = last.seconds_left
        if left is not None:
            left = max(1.0, left - (time.monotonic() - self._last_at))
        self.bar.setRange(0, 1000)
        within = last.page / last.pages if last.pages else 0.0
        self.bar.setValue(round(1000 * (last.file_number - 1 + within) / max(1, last.files)))
        self._progress_text.set_full_text(
            self._translator.text(
                "ui.index_progress" if last.pages else "ui.index_opening",
                number=last.file_number,
                files=last.files,
                page=last.page,
                pages=last.pages,
                left=time_left(self._translator, left),
            )
        )
        self.bar.setToolTip(self._progress_text.full_text)
        self.changed.emit()

    def _end(self) -> None:
        self._progress_mail.flush()
        self._running.pop(0)
        self._last = None
        if not self._running:
            self._clock.stop()
            self._progress_card.hide()
        self.reload()

    def _on_indexed(self, documents: list[DocumentInfo]) -> None:
        self._end()
        notes = [self.model.details(document) for document in documents if document.reason]
        if notes:
            self._say("\n".join(notes[:4]), "warn")

    def _on_index_failed(self, error: Exception) -> None:
        self._end()
        self._on_failed(error)

    def _on_documents(self, documents: list[DocumentInfo]) -> None:
        self.model.set_documents(documents)
        self.changed.emit()

    def _on_removed(self, document_id: str) -> None:
        self.removed.emit(document_id)
        self.reload()

    def _on_failed(self, error: Exception) -> None:
        sentence, code = failure(self._translator, error)
        self._say(f"{sentence} ({code})", "bad")

"""The audit page: the record of every decision, its check and its export."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from muniment_app.bridge.events import field_lines
from muniment_app.bridge.formats import clock_time, count, failure, optional_text
from muniment_app.bridge.models import AuditModel
from muniment_app.bridge.tasks import Lane, Task, Tasks
from muniment_app.services.api import AuditEvent, AuditReport, Services
from muniment_app.ui.dialogs import ExportDialog
from muniment_app.ui.start_panel import Emblem
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, PlainView, make_button, make_table, set_property
from muniment_resources.i18n import Translator

__all__ = ["AuditPage", "verdict"]

WINDOW = 100


def verdict(translator: Translator, report: AuditReport, checked_at: str) -> str:
    """Return the result of a verification as one line."""
    if report.ok:
        return translator.text(
            "ui.audit_intact",
            events=translator.text("ui.count_events", n=report.events, events=count(report.events)),
            checkpoints=translator.text("ui.count_checkpoints", n=report.checkpoints),
            time=checked_at,
        )
    if report.first_bad is None:
        problem = optional_text(translator, f"audit.problem.{report.problem}", report.problem or "")
        return translator.text("ui.audit_problem", problem=problem)
    key = "ui.audit_bad" if report.first_bad else "ui.audit_bad_first"
    problem = optional_text(translator, f"audit.problem.{report.problem}", report.problem or "")
    verdict_text = translator.text(key, first=count(report.first_bad))
    return translator.text("ui.audit_cause", verdict=verdict_text, problem=problem) if problem else verdict_text


class AuditPage(QWidget):
    """Table of events, details of one, Verify and Export.

    Signals:
        changed: The number of events changed.
    """

    changed = Signal()

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._services: Services | None = None
        self._verifying: Task | None = None
        self._generation = 0
        self.model = AuditModel(translator, self)
        self.model.wanted.connect(self._fetch)
        self.result = PlainLabel(wrap=True)
        self.details = PlainView(translator.text("ui.audit_details"))
        self._build()

    def attach(self, services: Services) -> None:
        """Give the services once they exist."""
        self._services = services
        self.refresh()

    def refresh(self) -> None:
        """Read the newest events again."""
        if self._services is None:
            return
        audit = self._services.audit
        self._tasks.submit(Lane.READ, lambda _task: audit.count(), self._on_count, self._on_failed)

    def verify(self) -> None:
        """Check the whole log."""
        if self._services is None or self._verifying is not None:
            return
        audit = self._services.audit
        self.verify_button.setEnabled(False)
        self._say(self._translator.text("ui.audit_verifying"), "plain")
        self._verifying = self._tasks.submit(
            Lane.LONG,
            lambda _task: audit.verify(),
            self._on_verified,
            self._on_verify_failed,
        )

    def choose_export(self) -> None:
        """Ask what to export and where to."""
        if self._services is not None:
            ExportDialog(self, self._translator, self.export).open()

    def export(self, target: Path, openings: str) -> None:
        """Write a bundle."""
        if self._services is None:
            return
        audit = self._services.audit
        self._tasks.submit(
            Lane.LONG,
            lambda _task: audit.export(target, openings),
            self._on_exported,
            self._on_failed,
        )

    def _build(self) -> None:
        text = self._translator.text
        self.table = make_table(self.model, text("ui.audit_events"), stretch=3)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._show_details())
        self.verify_button = make_button(text("ui.verify"), self.verify, "primary")
        self.export_button = make_button(text("ui.export"), self.choose_export)
        self.verify_button.setEnabled(False)
        self.export_button.setEnabled(False)
        self._banner = Card("plain", int(1.5 * GRID))
        self._banner.column.addWidget(self.result)
        self._banner.hide()
        head = QHBoxLayout()
        head.addWidget(PlainLabel(text("ui.audit_title"), "title"))
        self._count = PlainLabel(role="muted")
        head.addSpacing(GRID)
        head.addWidget(self._count)
        head.addStretch(1)
        head.addWidget(self.export_button)
        head.addWidget(self.verify_button)
        list_card = Card(margin=1)
        list_card.column.addWidget(self.table)
        empty = Card()
        emblem, label = Emblem("audit"), PlainLabel(text("ui.audit_empty"), "muted", wrap=True)
        label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        empty.column.addStretch(2)
        empty.column.addWidget(emblem, 0, Qt.AlignmentFlag.AlignHCenter)
        empty.column.addWidget(label)
        empty.column.addStretch(3)
        self._stack = QStackedWidget()
        self._stack.addWidget(empty)
        self._stack.addWidget(list_card)
        detail_card = Card()
        detail_card.column.addWidget(PlainLabel(text("ui.audit_details"), "heading"))
        detail_card.column.addWidget(self.details, 1)
        splitter = QSplitter()
        splitter.setHandleWidth(GRID)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(self._stack)
        splitter.addWidget(detail_card)
        splitter.setSizes([780, 420])
        splitter.setStretchFactor(0, 2)
        splitter.setStretchFactor(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(int(1.5 * GRID), GRID, int(1.5 * GRID), int(1.5 * GRID))
        column.setSpacing(int(1.5 * GRID))
        column.addLayout(head)
        column.addWidget(self._banner)
        column.addWidget(splitter, 1)

    def _fetch(self, offset: int) -> None:
        if self._services is None:
            return
        audit, generation = self._services.audit, self._generation
        self._tasks.submit(
            Lane.READ,
            lambda _task: audit.events(offset, WINDOW),
            lambda events: self._on_events(generation, events),
            self._on_failed,
        )

    def _on_count(self, total: int) -> None:
        self._generation += 1
        self._count.setText(self._translator.text("ui.count_events", n=total, events=count(total)))
        self._stack.setCurrentIndex(1 if total else 0)
        self.verify_button.setEnabled(self._verifying is None)
        self.export_button.setEnabled(bool(total))
        self.model.start(total)
        if total:
            self.model.fetchMore(QModelIndex())  # the view may have asked already; the model asks once
        self.details.clear()

    def _on_events(self, generation: int, events: list[AuditEvent]) -> None:
        if generation != self._generation:
            return
        first = not self.model.events
        self.model.append(events)
        if first and events:
            self.table.selectRow(0)

    def _show_details(self) -> None:
        rows = self.table.selectionModel().selectedRows()
        if not rows:
            self.details.clear()
            return
        event, text = self.model.events[rows[0].row()], self._translator.text
        lines = [
            f"{text('ui.col_number')} {count(event.seq)} · {self.model.kind(event)} ({event.type})",
            clock_time(event.ts),
            f"{text('ui.col_leaf')}: {event.leaf}",
            "",
            *field_lines(self._translator, event),
        ]
        if event.opened:
            lines += ["", text("ui.audit_opened"), *(f"{key}: {value}" for key, value in event.opened.items())]
        self.details.setPlainText("\n".join(lines))

    def _say(self, sentence: str, kind: str) -> None:
        set_property(self._banner, "card", kind)
        set_property(self.result, "tone", kind)
        self.result.setText(sentence)
        self._banner.show()

    def _on_verified(self, report: AuditReport) -> None:
        self._verifying = None
        self.verify_button.setEnabled(True)
        checked_at = dt.datetime.now().astimezone().strftime("%H:%M")
        self._say(verdict(self._translator, report, checked_at), "good" if report.ok else "bad")

    def _on_verify_failed(self, error: Exception) -> None:
        self._verifying = None
        self.verify_button.setEnabled(True)
        self._on_failed(error)

    def _on_exported(self, path: Path) -> None:
        self._say(self._translator.text("ui.export_done", path=str(path)), "good")
        self.refresh()

    def _on_failed(self, error: Exception) -> None:
        sentence, code = failure(self._translator, error)
        self._say(f"{sentence} ({code})", "bad")

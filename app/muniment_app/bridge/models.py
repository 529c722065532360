"""Table models of the window. They hold plain values; nothing here calls a service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from muniment_app.bridge.events import event_name, summary
from muniment_app.bridge.formats import clock_time, count, sentence
from muniment_app.services.api import AuditEvent
from muniment_resources.i18n import Translator
from muniment_retrieval.model import Citation, DocumentInfo, DocumentStatus, Evidence, Support

__all__ = ["TONE_ROLE", "AuditModel", "DocumentsModel", "EvidenceModel", "Row", "RowsModel"]

Index: TypeAlias = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
NO_PARENT = QModelIndex()
TONE_ROLE = int(Role.UserRole) + 1
"""Role with ``good``, ``warn``, ``bad``, ``accent``, ``strong`` or ``quiet``: the painter chooses the colour."""

_NUMBER = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_TEXT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_SORT = {Support.EXACT: 0, Support.STRONG: 1, Support.PARTIAL: 2, Support.NONE: 3}


class _TableModel(QAbstractTableModel):
    """Header texts and alignment; subclasses give rows."""

    def __init__(self, headers: Sequence[str], numbers: Sequence[int] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._headers = tuple(headers)
        self._numbers = frozenset(numbers)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._headers)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole) -> Any:
        """Return the column heads."""
        if orientation is Qt.Orientation.Horizontal and 0 <= section < len(self._headers):
            if role == Role.DisplayRole:
                return self._headers[section]
            if role == Role.TextAlignmentRole:
                return self.alignment(section)
        return None

    def alignment(self, column: int) -> int:
        """Return the alignment flags of a column as a number."""
        return _NUMBER if column in self._numbers else _TEXT


@dataclass(frozen=True)
class Row:
    """One row of plain text. ``tone`` colours the whole row, ``tip`` is its tool tip."""

    cells: tuple[str, ...]
    tone: str = ""
    tip: str = ""


class RowsModel(_TableModel):
    """A read-only table of texts."""

    def __init__(self, headers: Sequence[str], numbers: Sequence[int] = (), parent: QObject | None = None) -> None:
        super().__init__(headers, numbers, parent)
        self.rows: tuple[Row, ...] = ()

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.rows = tuple(rows)
        self.endResetModel()

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Return a cell."""
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        values: dict[int, object] = {
            Role.DisplayRole: row.cells[index.column()],
            Role.ToolTipRole: row.tip or None,
            Role.TextAlignmentRole: self.alignment(index.column()),
            TONE_ROLE: row.tone or None,
        }
        return values.get(role)


class DocumentsModel(_TableModel):
    """Documents with a tick: only ticked ones are asked. Rejected ones cannot be ticked."""

    ticks_changed = Signal()

    def __init__(self, translator: Translator, parent: QObject | None = None) -> None:
        super().__init__((translator.text("ui.col_document"), translator.text("ui.col_state")), parent=parent)
        self._translator = translator
        self.documents: list[DocumentInfo] = []
        self._unticked: set[str] = set()

    def set_documents(self, documents: Sequence[DocumentInfo]) -> None:
        """Replace all documents; ticks of those that stay are kept."""
        self.beginResetModel()
        self.documents = list(documents)
        self._unticked &= {document.document_id for document in documents}
        self.endResetModel()
        self.ticks_changed.emit()

    def upsert(self, document: DocumentInfo) -> None:
        """Add a document or replace the record with the same id."""
        for row, known in enumerate(self.documents):
            if known.document_id == document.document_id:
                self.documents[row] = document
                self.dataChanged.emit(self.index(row, 0), self.index(row, 1))
                self.ticks_changed.emit()
                return
        self.beginInsertRows(QModelIndex(), len(self.documents), len(self.documents))
        self.documents.append(document)
        self.endInsertRows()
        self.ticks_changed.emit()

    def usable(self) -> list[DocumentInfo]:
        """Return the documents that can be asked."""
        return [document for document in self.documents if document.status is not DocumentStatus.REJECTED]

    def ticked(self) -> tuple[str, ...]:
        """Return the ids of the documents to ask."""
        return tuple(d.document_id for d in self.usable() if d.document_id not in self._unticked)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Return the number of documents."""
        return 0 if parent.isValid() else len(self.documents)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return the flags: the first cell of a usable document can be ticked."""
        flags = super().flags(index)
        if index.isValid() and index.column() == 0 and self._usable(index):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Return a cell."""
        if not index.isValid():
            return None
        document = self.documents[index.row()]
        if role == Role.CheckStateRole:
            return self._check_state(document) if index.column() == 0 else None
        values: dict[int, Callable[[], object]] = {
            Role.DisplayRole: lambda: self.state(document) if index.column() else document.name,
            Role.ToolTipRole: lambda: self.details(document),
            Role.TextAlignmentRole: lambda: self.alignment(index.column()),
            TONE_ROLE: lambda: self._tone(document) if index.column() else None,
        }
        return values[role]() if role in values else None

    def setData(self, index: Index, value: Any, role: int = Role.EditRole) -> bool:
        """Tick or untick a document."""
        if role != Role.CheckStateRole or not index.isValid() or index.column() or not self._usable(index):
            return False
        document_id = self.documents[index.row()].document_id
        if Qt.CheckState(value) is Qt.CheckState.Checked:
            self._unticked.discard(document_id)
        else:
            self._unticked.add(document_id)
        self.dataChanged.emit(index, index, [Role.CheckStateRole])
        self.ticks_changed.emit()
        return True

    def state(self, document: DocumentInfo) -> str:
        """Return the short state of a document."""
        if document.status is DocumentStatus.READY:
            return self._translator.text("ui.state_ready", n=document.pages)
        if document.status is DocumentStatus.PARTIAL:
            return self._translator.text("ui.state_partial", readable=document.readable_pages, pages=document.pages)
        if document.reason == "E-DOC-PASSWORD":
            return self._translator.text("ui.state_password")
        return self._translator.text("ui.state_rejected")

    def details(self, document: DocumentInfo) -> str:
        """Return name, state and reason as one line."""
        parts = [document.name, self.state(document)]
        if document.ocr_pages:
            parts.append(self._translator.text("ui.state_ocr", n=document.ocr_pages))
        if document.reason:
            parts.append(sentence(self._translator, document.reason, document.reason_params))
        return " · ".join(parts)

    def _usable(self, index: Index) -> bool:
        return self.documents[index.row()].status is not DocumentStatus.REJECTED

    def _check_state(self, document: DocumentInfo) -> Qt.CheckState:
        unticked = document.status is DocumentStatus.REJECTED or document.document_id in self._unticked
        return Qt.CheckState.Unchecked if unticked else Qt.CheckState.Checked

    def _tone(self, document: DocumentInfo) -> str:
        tones = {DocumentStatus.READY: "good", DocumentStatus.PARTIAL: "warn", DocumentStatus.REJECTED: "bad"}
        return tones[document.status]


class EvidenceModel(_TableModel):
    """What the model was given, and how well it carries the answer."""

    def __init__(self, translator: Translator, parent: QObject | None = None) -> None:
        keys = ("col_number", "col_passage", "col_document", "col_page", "col_support", "col_used")
        super().__init__([translator.text(f"ui.{key}") for key in keys], (3,), parent)
        self._translator = translator
        self.evidence: tuple[Evidence, ...] = ()
        self._citations: dict[int, Citation] = {}
        self._cited_by: dict[int, list[str]] = {}

    def set_evidence(self, evidence: Sequence[Evidence], citations: Sequence[Citation]) -> None:
        """Replace all rows; each shows the numbers of the citations that stand in it, and the best supported one."""
        self.beginResetModel()
        self.evidence = tuple(evidence)
        self._citations = {}
        for citation in sorted(citations, key=lambda item: _SORT[item.support], reverse=True):
            self._citations[citation.evidence] = citation
        self._cited_by = {}
        for citation in citations:
            self._cited_by.setdefault(citation.evidence, []).append(str(citation.n))
        self.endResetModel()

    def citation(self, row: int) -> Citation | None:
        """Return the citation that points at this row, if any."""
        number = self.evidence[row].n
        return self._citations.get(number) if number else None

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Return the number of passages."""
        return 0 if parent.isValid() else len(self.evidence)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Return a cell."""
        if not index.isValid():
            return None
        if role == Role.DisplayRole:
            return self._cells(index.row())[index.column()]
        if role == Role.ToolTipRole:
            return self.evidence[index.row()].text[:600]
        if role == Role.TextAlignmentRole:
            return self.alignment(index.column())
        if role == TONE_ROLE:
            return self._tone(index.row(), index.column())
        return None

    def _cells(self, row: int) -> tuple[str, ...]:
        item = self.evidence[row]
        found = self.citation(row)
        return (
            ", ".join(self._cited_by.get(item.n, ())) or "–",
            " ".join((found.quote if found else item.text).split()),
            item.passage.document,
            item.passage.label if item.passage.label == str(item.passage.page) else f"{item.passage.page}",
            self._translator.text(f"ui.support_{found.support.value}") if found else "–",
            self._translator.text("ui.yes" if item.used else "ui.no"),
        )

    def _tone(self, row: int, column: int) -> str | None:
        found = self.citation(row)
        if column == 4 and found:
            return {Support.EXACT: "good", Support.STRONG: "good", Support.PARTIAL: "warn"}.get(found.support, "bad")
        return None if self.evidence[row].used else "quiet"


class AuditModel(_TableModel):
    """Events, newest first, fetched in windows: the view asks, the owner of the model brings them."""

    wanted = Signal(int)
    """Emitted with the offset of the next window."""

    def __init__(self, translator: Translator, parent: QObject | None = None) -> None:
        keys = ("col_number", "col_time", "col_event", "col_summary", "col_leaf")
        super().__init__([translator.text(f"ui.{key}") for key in keys], (0,), parent)
        self._translator = translator
        self.events: list[AuditEvent] = []
        self._total = 0
        self._asked = False

    def start(self, total: int) -> None:
        """Forget all rows; ``total`` events can be fetched."""
        self.beginResetModel()
        self.events = []
        self._total, self._asked = total, False
        self.endResetModel()

    def append(self, events: Sequence[AuditEvent]) -> None:
        """Add a fetched window."""
        self._asked = False
        if not events:
            self._total = len(self.events)
            return
        first = len(self.events)
        self.beginInsertRows(QModelIndex(), first, first + len(events) - 1)
        self.events.extend(events)
        self.endInsertRows()

    def canFetchMore(self, parent: Index) -> bool:
        """Return whether more events are waiting and none are on their way."""
        return not parent.isValid() and not self._asked and len(self.events) < self._total

    def fetchMore(self, parent: Index) -> None:
        """Ask for the next window."""
        if self.canFetchMore(parent):
            self._asked = True
            self.wanted.emit(len(self.events))

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Return the number of fetched events."""
        return 0 if parent.isValid() else len(self.events)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Return a cell."""
        if not index.isValid():
            return None
        event = self.events[index.row()]
        if role == Role.DisplayRole:
            return self._cells(event)[index.column()]
        if role == Role.TextAlignmentRole:
            return self.alignment(index.column())
        if role == TONE_ROLE and index.column() in (0, 4):
            return "quiet"
        return None

    def kind(self, event: AuditEvent) -> str:
        """Return the name of the event's type in the user's language."""
        return event_name(self._translator, event.type)

    def _cells(self, event: AuditEvent) -> tuple[str, ...]:
        return (
            count(event.seq),
            clock_time(event.ts),
            self.kind(event),
            summary(self._translator, event),
            event.leaf[:12],
        )

"""The passages behind an answer, as a table that leads to their pages."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Signal
from PySide6.QtWidgets import QHeaderView, QVBoxLayout, QWidget

from muniment_app.bridge.models import EvidenceModel
from muniment_app.services.api import Answer
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, make_table
from muniment_resources.i18n import Translator
from muniment_retrieval.model import Citation

__all__ = ["EvidenceView"]


class EvidenceView(QWidget):
    """Evidence table.

    Signals:
        chosen: A row was clicked or activated; its number in the model.
    """

    chosen = Signal(int)

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator = translator
        self.model = EvidenceModel(translator, self)
        self.table = make_table(self.model, translator.text("ui.evidence"), stretch=1)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(2, QHeaderView.ResizeMode.Interactive)
        self.table.setColumnWidth(2, 120)
        self.table.clicked.connect(self._on_chosen)
        self.table.activated.connect(self._on_chosen)
        self._title = PlainLabel(translator.text("ui.evidence"), "heading")
        self._title.setContentsMargins(2 * GRID, int(1.5 * GRID), 2 * GRID, GRID // 2)
        card = Card(margin=1)
        card.column.setSpacing(0)
        card.column.addWidget(self._title)
        card.column.addWidget(self.table, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(card)

    def show_answer(self, answer: Answer | None) -> None:
        """Show the evidence of an answer, or none."""
        evidence = answer.evidence if answer else ()
        self.model.set_evidence(evidence, answer.citations if answer else ())
        self.setVisible(bool(evidence))

    def select(self, citation: Citation) -> None:
        """Select the passage that a citation stands in."""
        for row, item in enumerate(self.model.evidence):
            if item.n and item.n == citation.evidence:
                self.table.selectRow(row)
                return
        self.table.clearSelection()

    def _on_chosen(self, index: QModelIndex) -> None:
        self.chosen.emit(index.row())

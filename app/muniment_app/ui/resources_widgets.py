"""Building blocks of the resources page: tables as tall as their rows, switches, a row of exclusive buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QHeaderView, QPushButton, QTableView, QWidget

from muniment_app.bridge.models import Row, RowsModel
from muniment_app.ui.widgets import make_table

__all__ = ["Segments", "fit", "make_rows", "make_switch", "show_rows"]

_ROW_PX = 28
_HEAD_PX = 34
_FRAME_PX = 4


def make_rows(model: RowsModel, name: str, stretch: int) -> QTableView:
    """Return a table without a scroll bar of its own: ``fit`` gives it the height of its rows."""
    table = make_table(model, name, stretch, _ROW_PX)
    table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    table.horizontalHeader().setSectionResizeMode(stretch, QHeaderView.ResizeMode.Stretch)
    fit(table)
    return table


def fit(table: QTableView, least: int = 1, most: int | None = None) -> None:
    """Make a table as tall as its rows, within bounds; beyond ``most`` rows it scrolls in itself."""
    count = table.model().rowCount()
    shown = max(least, count if most is None else min(count, most))
    height = _HEAD_PX + _ROW_PX * shown + _FRAME_PX
    if table.height() != height or table.minimumHeight() != height:
        table.setFixedHeight(height)
    if most is not None and count > most:
        table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)


def show_rows(model: RowsModel, rows: Sequence[Row]) -> None:
    """Replace the rows of a model when they differ: an unchanged table keeps its selection and its place."""
    if tuple(rows) != tuple(model.rows):
        model.set_rows(rows)


def make_switch(text: str, changed: Callable[[bool], None]) -> QPushButton:
    """Return a button that stays down."""
    button = QPushButton(text)
    button.setProperty("kind", "segment")
    button.setAccessibleName(text)
    button.setCheckable(True)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.toggled.connect(changed)
    return button


class Segments(QWidget):
    """Exclusive buttons side by side; the arrow keys move between them.

    Args:
        options: (value, text) of each button.
        chosen: Called with the value that the reader chose, not when ``choose`` sets it.
    """

    def __init__(
        self,
        name: str,
        options: Sequence[tuple[str, str]],
        chosen: Callable[[str], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self.buttons: dict[str, QPushButton] = {}
        self._chosen, self._quiet = chosen, False
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        for value, text in options:
            button = make_switch(text, partial(self._toggled, value))
            button.setAccessibleName(f"{name}: {text}")
            self._group.addButton(button)
            self.buttons[value] = button
            row.addWidget(button)
        self.choose(options[0][0])

    @property
    def value(self) -> str:
        """The chosen value."""
        return next(value for value, button in self.buttons.items() if button.isChecked())

    def choose(self, value: str) -> None:
        """Choose without telling."""
        self._quiet = True
        self.buttons[value].setChecked(True)
        self._quiet = False

    def _toggled(self, value: str, on: bool) -> None:
        if on and not self._quiet:
            self._chosen(value)

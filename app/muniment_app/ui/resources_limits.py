"""The limit chain, what binds, the signals behind the pressure level, and the memory of graphics devices."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableView, QWidget

from muniment_app.bridge.formats import count, size
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.ui.resources_texts import limit_name, limit_text, signal_text
from muniment_app.ui.resources_widgets import fit, make_rows, show_rows
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Headroom

__all__ = ["LimitsCard", "device_rows", "limit_rows", "signal_rows"]


def limit_rows(translator: Translator, headroom: Headroom) -> list[Row]:
    """Return the chain, outermost first: name, readable size, exact bytes, and a mark on the one that binds."""
    rows = []
    for limit in headroom.limits:
        binds = limit.name == headroom.binding
        name = limit_name(translator, limit.name)
        tip = limit_text(translator, "limit", limit.name, limit.bytes)
        mark = translator.text("ui.binds") if binds else ""
        rows.append(Row((name, size(limit.bytes), count(limit.bytes), mark), "accent" if binds else "", tip))
    return rows


def signal_rows(translator: Translator, headroom: Headroom) -> list[Row]:
    """Return the readings that the pressure level comes from."""
    texts = (signal_text(translator, item) for item in headroom.signals)
    return [Row((name, value), "", sentence) for name, value, sentence in texts]


def device_rows(translator: Translator, headroom: Headroom) -> list[Row]:
    """Return the free memory of each graphics device."""
    return [
        Row(
            (limit_name(translator, item.name), size(item.bytes), count(item.bytes)),
            "",
            limit_text(translator, "limit", item.name, item.bytes),
        )
        for item in headroom.device_limits
    ]


class LimitsCard(Card):
    """Chain, signals and devices; a table that has nothing to show is left out."""

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(margin=2 * GRID, parent=parent)
        self._translator = translator
        text = translator.text
        sizes = (text("ui.col_size"), text("ui.col_bytes"))
        self.binding = PlainLabel(role="muted", wrap=True)
        self.limits = RowsModel((text("ui.col_limit"), *sizes, ""), (1, 2), self)
        self.signals = RowsModel((text("ui.col_signal"), text("ui.col_value")), (1,), self)
        self.devices = RowsModel((text("ui.col_device"), *sizes), (1, 2), self)
        self.column.addWidget(PlainLabel(text("ui.limits"), "heading"))
        self.column.addWidget(self.binding)
        self._tables: list[tuple[RowsModel, QTableView]] = []
        names = {"ui.limits": self.limits, "ui.signals": self.signals, "ui.devices": self.devices}
        for name, model in names.items():
            table = make_rows(model, text(name), 0)
            # The end of a control group's path tells it apart, so the middle is left out.
            table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
            self._tables.append((model, table))
            self.column.addWidget(table)
        self.column.addStretch(1)

    def show_headroom(self, headroom: Headroom) -> None:
        """Show what was measured."""
        binding = limit_text(self._translator, "binding", headroom.binding, headroom.available_bytes)
        self.binding.setText(binding)
        show_rows(self.limits, limit_rows(self._translator, headroom))
        show_rows(self.signals, signal_rows(self._translator, headroom))
        show_rows(self.devices, device_rows(self._translator, headroom))
        for model, table in self._tables:
            table.setVisible(bool(model.rows))
            fit(table)

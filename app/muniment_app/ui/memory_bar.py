"""One bar for all memory, painted; its table twin says the same in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from muniment_app.bridge.formats import size
from muniment_app.ui.theme import Colors, colors_of, contrast
from muniment_runtime.contracts import Headroom, Need

__all__ = ["PARTS", "MemoryBar", "Part", "memory_parts"]

PARTS = ("weights", "kv", "temporary", "base", "free", "reserve", "other")
"""Keys of all parts, in the order in which they are drawn."""


@dataclass(frozen=True)
class Part:
    """One part of the memory; ``key`` names its colour and, as ``ui.part_<key>``, its text."""

    key: str
    bytes: int


def memory_parts(headroom: Headroom, need: Need | None, margin_bytes: int) -> list[Part]:
    """Split the memory into parts that sum to ``total_bytes`` (or to what is needed, when that is more).

    ``other`` is what this process tree could not take: total minus headroom. The reserve comes out of the free
    part; when the need leaves less than the margin, only the rest is shown as reserve.
    """
    other = max(0, headroom.total_bytes - headroom.available_bytes)
    parts: list[Part] = []
    left = headroom.available_bytes
    if need is not None:
        parts = [
            Part("weights", need.weights_bytes),
            Part("kv", need.kv_bytes + need.recurrent_bytes),
            Part("temporary", need.compute_bytes + need.output_bytes),
            Part("base", need.base_bytes + need.residual_bytes),
        ]
        left -= need.total_bytes
    reserve = max(0, min(margin_bytes, left))
    parts.append(Part("free", max(0, left - reserve)))
    parts.append(Part("reserve", reserve))
    parts.append(Part("other", other))
    return [part for part in parts if part.bytes > 0]


def part_color(colors: Colors, key: str) -> str:
    """Return the fill of a part."""
    return colors.raised if key == "free" else str(getattr(colors, key))


class MemoryBar(QWidget):
    """Rounded bar with one segment per part; the reserve is hatched, so that it is told apart without colour."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setMinimumHeight(40)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.parts: list[Part] = []
        self._names: dict[str, str] = {}

    def sizeHint(self) -> QSize:
        """Return the wanted size."""
        return QSize(600, 40)

    def show_parts(self, parts: Sequence[Part], names: dict[str, str]) -> None:
        """Show parts; ``names`` are their texts for tool tip and description."""
        self.parts, self._names = list(parts), names
        self.setAccessibleDescription("; ".join(f"{names[p.key]} {size(p.bytes)}" for p in self.parts))
        self.update()

    def segments(self) -> list[tuple[Part, QRectF]]:
        """Return each part with its rectangle; widths are proportional to bytes."""
        total = sum(part.bytes for part in self.parts)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        left, found = area.left(), []
        for part in self.parts:
            width = area.width() * part.bytes / total
            found.append((part, QRectF(left, area.top(), width, area.height())))
            left += width
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the segments."""
        colors = colors_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        painter.setClipPath(outline)
        painter.fillPath(outline, QColor(colors.raised))
        for part, rect in self.segments():
            fill = part_color(colors, part.key)
            painter.fillRect(rect, QColor(fill))
            if part.key == "reserve":
                hatch = QColor(colors.surface)
                hatch.setAlpha(120)
                painter.fillRect(rect, QBrush(hatch, Qt.BrushStyle.BDiagPattern))
            self._label(painter, part, rect, fill)
            painter.setPen(QPen(QColor(colors.surface), 1.5))
            painter.drawLine(rect.topRight(), rect.bottomRight())
        painter.setClipping(False)
        painter.setPen(QPen(QColor(colors.border), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(outline)

    def event(self, event: QEvent) -> bool:
        """Show name and size of the segment under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            position: QPoint = event.pos()
            for part, rect in self.segments():
                if rect.contains(position):
                    QToolTip.showText(event.globalPos(), f"{self._names[part.key]} · {size(part.bytes)}", self)
                    return True
        return super().event(event)

    def _label(self, painter: QPainter, part: Part, rect: QRectF, fill: str) -> None:
        text = size(part.bytes)
        if painter.fontMetrics().horizontalAdvance(text) + 12 > rect.width():
            return
        ink = max(("#111111", "#ffffff"), key=lambda color: contrast(color, fill))
        if part.key == "reserve":
            width = painter.fontMetrics().horizontalAdvance(text) + 12
            plate = QRectF(rect.center().x() - width / 2, rect.center().y() - 11, width, 22)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(fill))
            painter.drawRoundedRect(plate, 5, 5)
        painter.setPen(QColor(ink))
        painter.drawText(rect, int(Qt.AlignmentFlag.AlignCenter), text)

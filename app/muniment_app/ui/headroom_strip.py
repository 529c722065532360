"""A painted strip: which choice holds at which headroom, with marks for now and for what is imagined."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from muniment_app.bridge.formats import size
from muniment_app.ui.headroom_scan import LogScale, Span
from muniment_app.ui.theme import Colors, colors_of, contrast
from muniment_app.ui.widgets import tooltip
from muniment_resources.i18n import Translator
from muniment_resources.units import MIB

__all__ = ["HeadroomStrip", "span_lines"]

INSET_PX = 10
"""Space at both ends, half the handle of the slider below: so both have the same scale."""

_BAR_TOP = 16.0
_BAR_HEIGHT = 30.0
_HEIGHT = 68
_LABELS_APART_PX = 90


def span_lines(translator: Translator, spans: Sequence[Span]) -> list[str]:
    """Return the strip in words, one line for each stretch; the numbers stand in stretches too narrow for a name."""
    text = translator.text
    lines = []
    for number, span in enumerate(spans, 1):
        name = span.name or text("ui.scan_nothing")
        if len(spans) == 1:
            lines.append(text("ui.scan_always", name=name))
        elif number == 1:
            lines.append(text("ui.scan_below", number=number, size=size(span.high_bytes), name=name))
        else:
            lines.append(text("ui.scan_from", number=number, size=size(span.low_bytes), name=name))
    return lines


class HeadroomStrip(QWidget):
    """Segments along a logarithmic scale of headroom. Its words are its accessible description."""

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator = translator
        self._scale = LogScale(256 * MIB, 512 * MIB)
        self._now_bytes = 0
        self._imagined_bytes: int | None = None
        self.spans: tuple[Span, ...] = ()
        self.setAccessibleName(translator.text("ui.scan"))
        self.setMinimumHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Return the wanted size."""
        return QSize(600, _HEIGHT)

    def show_scale(self, scale: LogScale, now_bytes: int) -> None:
        """Set the ends of the scale and the headroom that there is now."""
        self._scale, self._now_bytes = scale, now_bytes
        self.update()

    def show_imagined(self, imagined_bytes: int | None) -> None:
        """Mark an imagined headroom, or none."""
        self._imagined_bytes = imagined_bytes
        self.update()

    def show_spans(self, spans: Sequence[Span]) -> None:
        """Show which choice holds where."""
        self.spans = tuple(spans)
        self.setAccessibleDescription("; ".join(span_lines(self._translator, self.spans)))
        self.update()

    def segments(self) -> list[tuple[Span, QRectF]]:
        """Return each stretch with its rectangle; they cover the bar without gaps."""
        found = []
        for position, span in enumerate(self.spans):
            last = position == len(self.spans) - 1
            left = self._x(span.low_bytes)
            right = self._x(self._scale.high_bytes if last else self.spans[position + 1].low_bytes)
            found.append((span, QRectF(left, _BAR_TOP, right - left, _BAR_HEIGHT)))
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the bar, its names, the scale and the marks."""
        colors = colors_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small = QFont(self.font())
        small.setPointSizeF(9)
        painter.setFont(small)
        bar = QRectF(INSET_PX, _BAR_TOP, self.width() - 2 * INSET_PX, _BAR_HEIGHT)
        outline = QPainterPath()
        outline.addRoundedRect(bar, 7, 7)
        painter.setClipPath(outline)
        painter.fillPath(outline, QColor(colors.raised))
        for span, rect in self.segments():
            self._paint_segment(painter, colors, span, rect)
        painter.setClipping(False)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(colors.border), 1))
        painter.drawPath(outline)
        if not self.spans:
            painter.setPen(QColor(colors.muted))
            painter.drawText(bar, int(Qt.AlignmentFlag.AlignCenter), self._translator.text("ui.scan_running"))
        self._paint_scale(painter, colors)
        now, imagined = self._translator.text("ui.scan_now"), self._imagined_bytes
        if imagined is not None:
            ahead = self._x(self._now_bytes) - self._x(imagined)
            text = self._translator.text("ui.scan_imagined")
            self._paint_mark(painter, colors.warn, imagined, text, 0 <= ahead < _LABELS_APART_PX)
            now = now if abs(ahead) > _LABELS_APART_PX else ""
        self._paint_mark(painter, colors.text, self._now_bytes, now)

    def event(self, event: QEvent) -> bool:
        """Show the words of the strip as tool tip."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip and self.spans:
            lines = span_lines(self._translator, self.spans)
            QToolTip.showText(event.globalPos(), tooltip("\n".join(lines)), self)
            return True
        return super().event(event)

    def _x(self, value_bytes: int) -> float:
        return INSET_PX + self._scale.fraction(value_bytes) * (self.width() - 2 * INSET_PX)

    def _fill(self, colors: Colors, position: int) -> QColor:
        """Return the fill of a stretch: the accent, stronger with every better choice."""
        choices = [place for place, span in enumerate(self.spans) if span.name]
        share = 1.0 if len(choices) < 2 else choices.index(position) / (len(choices) - 1)
        soft, strong = QColor(colors.accent_soft), QColor(colors.weights)
        pairs = ((soft.red(), strong.red()), (soft.green(), strong.green()), (soft.blue(), strong.blue()))
        return QColor(*(round(weak + (full - weak) * share) for weak, full in pairs))

    def _paint_segment(self, painter: QPainter, colors: Colors, span: Span, rect: QRectF) -> None:
        fill = QColor(colors.raised)
        if span.name:
            fill = self._fill(colors, self.spans.index(span))
        painter.fillRect(rect, fill)
        if not span.name:
            hatch = QColor(colors.other)
            hatch.setAlpha(110)
            painter.fillRect(rect, QBrush(hatch, Qt.BrushStyle.BDiagPattern))
        metrics, name = painter.fontMetrics(), span.name or self._translator.text("ui.scan_nothing")
        number = str(self.spans.index(span) + 1)
        shown = next((text for text in (name, number) if metrics.horizontalAdvance(text) + 12 < rect.width()), "")
        if shown:
            width = metrics.horizontalAdvance(shown) + 12
            if not span.name:
                plate = QRectF(rect.center().x() - width / 2, rect.center().y() - 9, width, 18)
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(fill)
                painter.drawRoundedRect(plate, 5, 5)
            ink = max(("#111111", "#ffffff"), key=lambda color: contrast(color, fill.name()))
            painter.setPen(QColor(ink))
            painter.drawText(rect, int(Qt.AlignmentFlag.AlignCenter), shown)
        painter.setPen(QPen(QColor(colors.surface), 1.5))
        painter.drawLine(rect.topRight(), rect.bottomRight())

    def _paint_scale(self, painter: QPainter, colors: Colors) -> None:
        """Paint doublings of memory under the bar; the ends always, between them what has room."""
        painter.setPen(QColor(colors.muted))
        top, free_from = _BAR_TOP + _BAR_HEIGHT + 3, 0.0
        ticks = [self._scale.low_bytes]
        while ticks[-1] * 2 < self._scale.high_bytes:
            ticks.append(ticks[-1] * 2)
        ticks.append(self._scale.high_bytes)
        last = painter.fontMetrics().horizontalAdvance(size(ticks[-1]))
        for tick in ticks:
            text = size(tick)
            width = painter.fontMetrics().horizontalAdvance(text)
            left = min(max(self._x(tick) - width / 2, 0.0), self.width() - float(width))
            fits = left >= free_from and left + width + 12 <= self.width() - last
            if tick is ticks[-1] or fits:
                painter.drawText(QRectF(left, top, width + 2, 18), int(Qt.AlignmentFlag.AlignLeft), text)
                free_from = left + width + 12

    def _paint_mark(self, painter: QPainter, color: str, value_bytes: int, text: str, before: bool = False) -> None:
        x = self._x(value_bytes)
        painter.setPen(QPen(QColor(color), 2))
        # Only the edges of the bar: a line across it would strike out the name.
        painter.drawLine(QPointF(x, _BAR_TOP - 3), QPointF(x, _BAR_TOP + 5))
        painter.drawLine(QPointF(x, _BAR_TOP + _BAR_HEIGHT - 5), QPointF(x, _BAR_TOP + _BAR_HEIGHT))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(color))
        painter.drawPolygon(QPolygonF([QPointF(x - 5, 9), QPointF(x + 5, 9), QPointF(x, 15)]))
        if not text:
            return
        width = painter.fontMetrics().horizontalAdvance(text)
        before = (before and x - 9 > width) or x + 12 + width > self.width()
        left = x - 9 - width if before else x + 9
        painter.setPen(QColor(color))
        painter.drawText(QRectF(left, -2, width + 2, 18), int(Qt.AlignmentFlag.AlignLeft), text)

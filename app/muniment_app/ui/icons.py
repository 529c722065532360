"""Line icons, painted in the colour of the theme: no image files, sharp at every scale."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen

__all__ = ["draw_icon"]

_ICONS: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    # Poly-lines on a 24 x 24 grid.
    "ask": (
        ((4, 5), (20, 5), (20, 16), (11, 16), (7, 20), (7, 16), (4, 16), (4, 5)),
        ((8, 9), (16, 9)),
        ((8, 12), (13, 12)),
    ),
    "resources": (((4, 20), (4, 13)), ((9.3, 20), (9.3, 4)), ((14.7, 20), (14.7, 9)), ((20, 20), (20, 15))),
    "audit": (
        ((12, 3), (19, 6), (19, 12), (16.5, 17.5), (12, 21), (7.5, 17.5), (5, 12), (5, 6), (12, 3)),
        ((8.5, 12), (11, 14.5), (15.5, 9.5)),
    ),
    "page": (
        ((6, 3), (14, 3), (18, 7), (18, 21), (6, 21), (6, 3)),
        ((14, 3), (14, 7), (18, 7)),
        ((9, 12), (15, 12)),
        ((9, 16), (15, 16)),
    ),
    "left": (((14.5, 6), (8.5, 12), (14.5, 18)),),
    "right": (((9.5, 6), (15.5, 12), (9.5, 18)),),
    "plus": (((12, 6), (12, 18)), ((6, 12), (18, 12))),
    "minus": (((6, 12), (18, 12)),),
    "fit": (
        ((4, 6), (4, 18)),
        ((20, 6), (20, 18)),
        ((7, 12), (17, 12)),
        ((9.5, 9.5), (7, 12), (9.5, 14.5)),
        ((14.5, 9.5), (17, 12), (14.5, 14.5)),
    ),
    "copy": (((9, 9), (19, 9), (19, 20), (9, 20), (9, 9)), ((15, 9), (15, 4), (5, 4), (5, 15), (9, 15))),
    "remove": (((6, 7), (18, 7)), ((10, 7), (10, 4), (14, 4), (14, 7)), ((7.5, 7), (8.5, 20), (15.5, 20), (16.5, 7))),
    "model": (
        ((12, 3), (20, 7.5), (20, 16.5), (12, 21), (4, 16.5), (4, 7.5), (12, 3)),
        ((4, 7.5), (12, 12), (20, 7.5)),
        ((12, 12), (12, 21)),
    ),
    "warn": (((12, 4), (21, 20), (3, 20), (12, 4)), ((12, 10), (12, 14.5)), ((12, 17), (12, 17.4))),
    "tick": (((5, 12.5), (10, 17.5), (19, 7)),),
    "close": (((7, 7), (17, 17)), ((17, 7), (7, 17))),
    "find": (((15.5, 15.5), (20, 20)),),
}  # fmt: skip


def draw_icon(painter: QPainter, name: str, rect: QRectF, color: QColor, width: float = 1.7) -> None:
    """Paint a line icon into a square."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(rect.topLeft())
    painter.scale(rect.width() / 24, rect.height() / 24)
    pen = QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if name == "find":
        painter.drawEllipse(QRectF(4, 4, 13, 13))
    for points in _ICONS[name]:
        path = QPainterPath(QPointF(*points[0]))
        for point in points[1:]:
            path.lineTo(QPointF(*point))
        painter.drawPath(path)
    painter.restore()

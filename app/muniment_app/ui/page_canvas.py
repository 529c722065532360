"""Shows one page picture with marks. Knows nothing about services: it is given pixels and boxes.

Coordinates: ``zoom`` is logical pixels per PDF point; boxes are points from the page's top left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QPalette, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from muniment_app.ui.icons import draw_icon
from muniment_app.ui.theme import colors_of
from muniment_retrieval.model import Box, RenderedPage

__all__ = ["MARK_COLOR", "ImageCache", "PageCanvas", "to_image"]

MARK_COLOR = "#ffe066"
MARGIN_PX = 16
MARK_AT = 0.3
"""The mark is scrolled to this part of the height: a reader looks for the line in the upper third."""


def to_image(page: RenderedPage) -> QImage:
    """Return a picture that owns its pixels.

    Raises:
        ValueError: The number of bytes does not fit the size; such pixels must never reach native code.
    """
    if page.width < 1 or page.height < 1 or len(page.rgb) != page.width * page.height * 3:
        raise ValueError("size of the pixels does not fit the page")
    return QImage(page.rgb, page.width, page.height, page.width * 3, QImage.Format.Format_RGB888).copy()


class ImageCache:
    """Least recently used pictures, bounded in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._images: OrderedDict[tuple[str, int, int], QImage] = OrderedDict()
        self.bytes = 0

    def get(self, key: tuple[str, int, int]) -> QImage | None:
        """Return a picture and mark it as used."""
        image = self._images.get(key)
        if image is not None:
            self._images.move_to_end(key)
        return image

    def put(self, key: tuple[str, int, int], image: QImage) -> None:
        """Keep a picture; the oldest go until the bound holds. One larger than the bound is not kept."""
        old = self._images.pop(key, None)
        if old is not None:
            self.bytes -= old.sizeInBytes()
        self._images[key] = image
        self.bytes += image.sizeInBytes()
        while self.bytes > self._max_bytes:
            _, gone = self._images.popitem(last=False)
            self.bytes -= gone.sizeInBytes()

    def forget(self, document_id: str) -> None:
        """Drop all pictures of a document: it was removed."""
        for key in [key for key in self._images if key[0] == document_id]:
            self.bytes -= self._images.pop(key).sizeInBytes()


class PageCanvas(QAbstractScrollArea):
    """A scrolled page. Either a picture with marks, or a sentence."""

    resized = Signal()
    zoom_wanted = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self._image: QImage | None = None
        self._width_pt = 0.0
        self._height_pt = 0.0
        self._boxes: tuple[Box, ...] = ()
        self._message = ""
        self._busy = False
        self.zoom = 1.0

    @property
    def message(self) -> str:
        """The sentence that is shown instead of a page."""
        return self._message

    def set_message(self, text: str) -> None:
        """Show a sentence and no page."""
        self._image, self._message, self._boxes, self._busy = None, text, (), False
        self._layout()

    def set_busy(self, text: str) -> None:
        """Say that a page is on its way; an older picture stays but without marks, which would be wrong on it."""
        self._boxes, self._busy, self._message = (), True, text
        self._layout()

    def set_page(self, image: QImage, width_pt: float, height_pt: float, zoom: float, boxes: Sequence[Box]) -> None:
        """Show a picture of a page of this size in points."""
        self._image, self._message, self._busy = image, "", False
        self._width_pt, self._height_pt, self.zoom = width_pt, height_pt, zoom
        self._boxes = tuple(boxes)
        self._layout()

    def fit_width_zoom(self, width_pt: float) -> float:
        """Return the zoom at which a page of this width fills the view."""
        return max(0.1, (self.viewport().width() - 2 * MARGIN_PX) / width_pt)

    def scroll_to_mark(self) -> None:
        """Bring the first mark to 30 % of the height, or the page's top when there is none."""
        bar, across = self.verticalScrollBar(), self.horizontalScrollBar()
        if not self._boxes:
            bar.setValue(0)
            return
        x0, y0 = min(box[0] for box in self._boxes), min(box[1] for box in self._boxes)
        bar.setValue(round(y0 * self.zoom + MARGIN_PX - MARK_AT * self.viewport().height()))
        across.setValue(round(x0 * self.zoom + MARGIN_PX - 0.1 * self.viewport().width()))

    def page_rect(self) -> QRectF:
        """Return where the page stands in the viewport."""
        width, height = self._width_pt * self.zoom, self._height_pt * self.zoom
        left = max(float(MARGIN_PX), (self.viewport().width() - width) / 2)
        return QRectF(
            left - self.horizontalScrollBar().value(), MARGIN_PX - self.verticalScrollBar().value(), width, height
        )

    def mark_rects(self) -> list[QRectF]:
        """Return where the marks stand in the viewport: boxes x zoom from the page's corner."""
        page = self.page_rect()
        return [
            QRectF(
                QPointF(page.left() + x0 * self.zoom, page.top() + y0 * self.zoom),
                QPointF(page.left() + x1 * self.zoom, page.top() + y1 * self.zoom),
            )
            for x0, y0, x1, y1 in self._boxes
        ]

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the page and multiply the marks onto it, so that the text stays black."""
        colors = colors_of(self.palette())
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), QColor(colors.raised))
        if self._image is not None:
            page = self.page_rect()
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(page, self._image)
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Multiply)
            for rect in self.mark_rects():
                painter.fillRect(rect.adjusted(-1.5, -1, 1.5, 1), QColor(MARK_COLOR))
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
            painter.setPen(QPen(QColor(colors.border), 1))
            painter.drawRect(page)
        elif self._message:
            self._paint_message(painter)
        if self._image is not None and self._busy:
            self._paint_busy(painter)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Lay out again and say so: fit-width needs another picture."""
        super().resizeEvent(event)
        self._layout()
        self.resized.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom with Ctrl, scroll otherwise."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier and event.angleDelta().y():
            self.zoom_wanted.emit(1 if event.angleDelta().y() > 0 else -1)
            event.accept()
            return
        super().wheelEvent(event)

    def _layout(self) -> None:
        height = self._height_pt * self.zoom + 2 * MARGIN_PX if self._image is not None else 0
        width = self._width_pt * self.zoom + 2 * MARGIN_PX if self._image is not None else 0
        view = self.viewport().size()
        self.verticalScrollBar().setPageStep(view.height())
        self.verticalScrollBar().setSingleStep(40)
        self.verticalScrollBar().setRange(0, max(0, round(height - view.height())))
        self.horizontalScrollBar().setPageStep(view.width())
        self.horizontalScrollBar().setSingleStep(40)
        self.horizontalScrollBar().setRange(0, max(0, round(width - view.width())))
        self.viewport().update()

    def _paint_message(self, painter: QPainter) -> None:
        muted = self.palette().color(QPalette.ColorRole.PlaceholderText)
        middle = QPointF(self.viewport().rect().center())
        draw_icon(painter, "page", QRectF(middle.x() - 20, middle.y() - 64, 40, 40), muted)
        painter.setPen(muted)
        area = QRectF(24, middle.y() - 12, self.viewport().width() - 48, self.viewport().height() / 2)
        flags = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap)
        painter.drawText(area, flags, self._message)

    def _paint_busy(self, painter: QPainter) -> None:
        colors = colors_of(self.palette())
        width = self.fontMetrics().horizontalAdvance(self._message) + 28
        badge = QRectF((self.viewport().width() - width) / 2, 12, width, 28)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors.border), 1))
        painter.setBrush(QColor(colors.surface))
        painter.drawRoundedRect(badge, 14, 14)
        painter.setPen(QColor(colors.text))
        painter.drawText(badge, int(Qt.AlignmentFlag.AlignCenter), self._message)

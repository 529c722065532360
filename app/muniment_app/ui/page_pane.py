"""The page beside the answer: asks the page service for pictures and shows one with the passage marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from muniment_app.bridge.formats import failure
from muniment_app.bridge.tasks import Lane, Tasks
from muniment_app.services.api import LibraryService, PageService
from muniment_app.ui.page_canvas import ImageCache, PageCanvas, to_image
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, ElidedLabel, IconButton, PlainLabel, line
from muniment_resources.i18n import Translator
from muniment_retrieval.model import Box, RenderedPage

__all__ = ["PagePane", "PageTarget"]

CACHE_BYTES = 24 << 20
ZOOM_STEP = 1.25
MIN_ZOOM, MAX_ZOOM = 0.25, 4.0
FIT_STEP = 0.02
"""Zooms that fit the width are multiples of this, so that a width of one pixel more reuses the same picture."""
A4_POINTS = (595.0, 842.0)
"""Assumed for a page that could not be read when it was indexed."""


@dataclass(frozen=True)
class PageTarget:
    """What to show: a page (1-based), and the boxes of a passage on it. ``pages`` is 0 when unknown."""

    document_id: str
    name: str
    page: int
    pages: int
    boxes: tuple[Box, ...] = ()
    quote: str = ""
    position: str = ""


class PagePane(QWidget):
    """Tool line and canvas."""

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._service: PageService | None = None
        self._library: LibraryService | None = None
        self._cache = ImageCache(CACHE_BYTES)
        self._sizes: dict[tuple[str, int], tuple[float, float]] = {}
        self.target: PageTarget | None = None
        self._fit = True
        self._zoom = 1.0
        self._in_flight: tuple[str, int, int] | None = None
        self._scroll_pending = False
        self.canvas = PageCanvas()
        self.canvas.setAccessibleName(translator.text("ui.page"))
        self.canvas.resized.connect(self._on_resized)
        self.canvas.zoom_wanted.connect(self.zoom)
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(120)
        self._settle.timeout.connect(self._refresh)
        self._build()
        self.clear()

    def attach(self, service: PageService, library: LibraryService) -> None:
        """Give the services once they exist."""
        self._service, self._library = service, library

    def clear(self) -> None:
        """Show no page."""
        self.target = None
        self._title.set_full_text(self._translator.text("ui.page"))
        self._where.setText("")
        self._position.setText("")
        self.canvas.set_message(self._translator.text("ui.page_empty"))
        self._enable()

    def forget(self, document_id: str) -> None:
        """Drop everything of a removed document."""
        self._cache.forget(document_id)
        self._sizes = {key: size for key, size in self._sizes.items() if key[0] != document_id}
        if self.target and self.target.document_id == document_id:
            self.clear()

    def show_page(self, target: PageTarget) -> None:
        """Show a page and scroll to its passage."""
        self.target = target
        self._scroll_pending = True
        self._title.set_full_text(target.name)
        key = "ui.page_of" if target.pages else "ui.page_number"
        where = self._translator.text(key, page=target.page, pages=target.pages)
        self._where.setText(where)
        self._position.setText(target.position)
        self._enable()
        self._refresh()

    def step(self, by: int) -> None:
        """Turn pages. The passage stays on its own page, so the mark goes."""
        if self.target is None:
            return
        page = self.target.page + by
        if page >= 1 and (not self.target.pages or page <= self.target.pages):
            self.show_page(replace(self.target, page=page, boxes=(), quote="", position=""))

    def zoom(self, direction: int) -> None:
        """Zoom in (1), out (-1) or to the width (0)."""
        self._fit = direction == 0
        if direction:
            factor = ZOOM_STEP if direction > 0 else 1 / ZOOM_STEP
            self._zoom = min(MAX_ZOOM, max(MIN_ZOOM, self.canvas.zoom * factor))
        self._refresh()

    def copy_quote(self) -> None:
        """Copy the passage with its source."""
        if self.target and self.target.quote:
            source = self._translator.text("ui.quote_source", document=self.target.name, page=self.target.page)
            QGuiApplication.clipboard().setText(f"{self.target.quote}\n{source}")

    def _build(self) -> None:
        text = self._translator.text
        self._title = ElidedLabel(role="heading")
        self._where = PlainLabel(role="muted")
        self._position = PlainLabel(role="small")
        buttons: list[tuple[str, str, Callable[[], None]]] = [
            ("left", "ui.page_previous", lambda: self.step(-1)),
            ("right", "ui.page_next", lambda: self.step(1)),
            ("minus", "ui.zoom_out", lambda: self.zoom(-1)),
            ("plus", "ui.zoom_in", lambda: self.zoom(1)),
            ("fit", "ui.zoom_fit", lambda: self.zoom(0)),
            ("copy", "ui.copy_quote", self.copy_quote),
        ]
        self._buttons = {icon: IconButton(icon, text(key), action) for icon, key, action in buttons}
        tools = QHBoxLayout()
        tools.setContentsMargins(0, 0, 0, 0)
        tools.setSpacing(2)
        tools.addWidget(self._where)
        tools.addStretch(1)
        for button in self._buttons.values():
            tools.addWidget(button)
        head = QVBoxLayout()
        head.setContentsMargins(2 * GRID, GRID + 2, GRID, GRID - 2)
        head.setSpacing(0)
        name = QHBoxLayout()
        name.setContentsMargins(0, 0, GRID, 0)
        name.addWidget(self._title, 1)
        name.addWidget(self._position)
        head.addLayout(name)
        head.addLayout(tools)
        card = Card(margin=1)
        card.column.setSpacing(0)
        card.column.addLayout(head)
        card.column.addWidget(line())
        card.column.addWidget(self.canvas, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(card)

    def _enable(self) -> None:
        target = self.target
        for button in self._buttons.values():
            button.setEnabled(target is not None)
        if target:
            self._buttons["left"].setEnabled(target.page > 1)
            self._buttons["right"].setEnabled(not target.pages or target.page < target.pages)
            self._buttons["copy"].setEnabled(bool(target.quote))

    def _on_resized(self) -> None:
        if self.target and self._fit:
            self._settle.start()

    def _wanted(self, target: PageTarget) -> tuple[float, tuple[str, int, int]]:
        """Return zoom and cache key; the key holds the scale in thousandths of a pixel per point."""
        width_pt, _ = self._sizes[target.document_id, target.page]
        zoom = self._zoom
        if self._fit:
            fitting = self.canvas.fit_width_zoom(width_pt)
            zoom = min(MAX_ZOOM, max(MIN_ZOOM, math.floor(fitting / FIT_STEP) * FIT_STEP))
        scale = zoom * self.canvas.devicePixelRatioF()
        return zoom, (target.document_id, target.page, round(scale * 1000))

    def _refresh(self) -> None:
        """Show the wanted picture from the cache, or ask for it; one request at a time, the last wish wins."""
        if self.target is None or self._service is None:
            return
        if (self.target.document_id, self.target.page) not in self._sizes:
            self._ask_size(self.target)
            return
        zoom, key = self._wanted(self.target)
        image = self._cache.get(key)
        if image is not None:
            scale = key[2] / 1000
            self.canvas.set_page(image, image.width() / scale, image.height() / scale, zoom, self.target.boxes)
            if self._scroll_pending:
                self._scroll_pending = False
                self.canvas.scroll_to_mark()
            return
        self.canvas.set_busy(self._translator.text("ui.page_rendering"))
        if self._in_flight is not None:
            return
        self._in_flight = key
        service = self._service
        self._tasks.submit(
            Lane.READ,
            lambda _task: service.render(key[0], key[1], key[2] / 1000),
            lambda rendered: self._on_rendered(key, rendered),
            lambda error: self._on_failed(key, error),
        )

    def _ask_size(self, target: PageTarget) -> None:
        """Ask how large the page is, so that the first picture already fits the width."""
        library = self._library
        if library is None:
            return
        self.canvas.set_busy(self._translator.text("ui.page_rendering"))
        key = (target.document_id, target.page)

        def known(size: tuple[float, float]) -> None:
            self._sizes[key] = size if min(size) > 0 else A4_POINTS
            self._refresh()

        self._tasks.submit(
            Lane.READ,
            lambda _task: library.page_size(*key),
            known,
            # The picture may still be had, and if not, its error says more.
            lambda _error: known((0.0, 0.0)),
        )

    def _on_rendered(self, key: tuple[str, int, int], rendered: RenderedPage) -> None:
        self._in_flight = None
        try:
            image = to_image(rendered)
        except ValueError as error:
            self._on_failed(key, error)
            return
        self._cache.put(key, image)
        scale = key[2] / 1000
        size = (image.width() / scale, image.height() / scale)
        self._sizes[key[:2]] = size
        if self.target is None or (self.target.document_id, self.target.page) not in self._sizes:
            return
        zoom, wanted = self._wanted(self.target)
        if wanted[:2] == key[:2] and abs(wanted[2] - key[2]) <= max(2, key[2] // 100):
            # Rounding of the picture to whole pixels must not ask for the same page again and again.
            self.canvas.set_page(image, *size, zoom, self.target.boxes)
            if self._scroll_pending:
                self._scroll_pending = False
                self.canvas.scroll_to_mark()
            return
        self._refresh()

    def _on_failed(self, key: tuple[str, int, int], error: Exception) -> None:
        self._in_flight = None
        if self.target is None:
            return
        if (self.target.document_id, self.target.page) != key[:2]:
            self._refresh()
            return
        sentence, code = failure(self._translator, error)
        self.canvas.set_message(f"{sentence}\n{code}")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Page up and down turn pages."""
        if event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.step(-1 if event.key() == Qt.Key.Key_PageUp else 1)
            return
        super().keyPressEvent(event)

"""The main window: rail, pages, menus, status bar, drop target. Pages do the work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QCloseEvent,
    QColor,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from muniment_app.bridge.formats import size
from muniment_app.bridge.settings import SettingsStore, Theme
from muniment_app.bridge.tasks import Lane, Tasks
from muniment_app.services.api import Services
from muniment_app.ui.ask_page import AskPage
from muniment_app.ui.audit_page import AuditPage
from muniment_app.ui.dialogs import show_about
from muniment_app.ui.icons import draw_icon
from muniment_app.ui.resources_page import ResourcesPage
from muniment_app.ui.theme import GRID, colors_of
from muniment_app.ui.widgets import PlainLabel, RailButton
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Headroom, LoadedModel

__all__ = ["MainWindow"]

STATUS_INTERVAL_MS = 5000
CLOSE_TIMEOUT_S = 5.0


class DropOverlay(QWidget):
    """Shown over the window while files are dragged onto it."""

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._text = text
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint a veil with a dashed frame."""
        colors = colors_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(colors.window)
        veil.setAlpha(225)
        painter.fillRect(self.rect(), veil)
        painter.setPen(QPen(QColor(colors.accent), 2, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(20, 20, -20, -20), 16, 16)
        middle = QRectF(self.rect()).center()
        draw_icon(painter, "page", QRectF(middle.x() - 28, middle.y() - 68, 56, 56), QColor(colors.accent))
        font = self.font()
        font.setPointSizeF(15)
        painter.setFont(font)
        painter.setPen(QColor(colors.text))
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignCenter), self._text)


class MainWindow(QMainWindow):
    """The window. Made without services; ``attach`` brings them.

    Signals:
        theme_chosen: A ``Theme``.
        closed: The window was closed and the lanes have ended (or were given up on).
    """

    theme_chosen = Signal(object)
    closed = Signal()

    def __init__(self, translator: Translator, tasks: Tasks, settings: SettingsStore) -> None:
        super().__init__()
        self._tasks, self._settings = tasks, settings
        self._translator = translator
        self._services: Services | None = None
        self._status_busy = False
        self.setAcceptDrops(True)
        self.resize(1280, 800)
        self.setMinimumSize(960, 600)
        self._status_timer = QTimer(self)
        self._status_timer.setInterval(STATUS_INTERVAL_MS)
        self._status_timer.timeout.connect(self.refresh_status)
        self._build()

    def attach(self, services: Services) -> None:
        """Give the services once they exist."""
        self._services = services
        for page in (self.ask, self.resources, self.audit):
            page.attach(services)
        self.refresh_status()
        self._status_timer.start()

    def fail(self, error: Exception) -> None:
        """Say that the services could not be made."""
        self.ask.fail(error)

    def show_page(self, index: int) -> None:
        """Show Ask (0), Resources (1) or Audit (2)."""
        self.rail[index].setChecked(True)
        self.pages.setCurrentIndex(index)
        if index == 1:
            self.resources.refresh()
        elif index == 2:
            self.audit.refresh()

    def set_language(self, language: str) -> None:
        """Switch the language: at once when nothing runs, else at the next start."""
        self._settings.set_language(language)
        if language == self._translator.language:
            return
        if self._tasks.busy(Lane.ASK, Lane.INDEX, Lane.LONG):
            self.statusBar().showMessage(self._translator.text("ui.language_later"), 8000)
            return
        conversation, current = self.ask.conversation, self.pages.currentIndex()
        self._translator = Translator(language)
        self._build()
        if self._services is not None:
            self.attach(self._services)
        self.ask.restore(conversation)
        self.show_page(current)

    def set_theme(self, theme: Theme) -> None:
        """Switch the colours."""
        self._settings.set_theme(theme)
        self.theme_chosen.emit(theme)

    def refresh_status(self) -> None:
        """Measure headroom and ask what runs, for the status bar."""
        if self._services is None or self._status_busy:
            return
        plan = self._services.plan
        self._status_busy = True
        self._tasks.submit(
            Lane.READ,
            lambda _task: (plan.headroom(), plan.running()),
            self._on_status,
            self._on_status_failed,
        )

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take files and folders."""
        if self._services is not None and self._dropped(event):
            event.acceptProposedAction()
            self._overlay.setGeometry(self.rect())
            self._overlay.raise_()
            self._overlay.show()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        """Take the veil away."""
        self._overlay.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        """Index what was dropped."""
        self._overlay.hide()
        paths = self._dropped(event)
        if paths:
            event.acceptProposedAction()
            self.show_page(0)
            self.ask.add_paths(paths)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the veil over the whole window."""
        super().resizeEvent(event)
        self._overlay.setGeometry(self.rect())

    def changeEvent(self, event: QEvent) -> None:
        """Measure only while somebody can look."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.WindowStateChange and self._services is not None:
            if self.isMinimized():
                self._status_timer.stop()
            else:
                self._status_timer.start()

    def closeEvent(self, event: QCloseEvent) -> None:
        """End the lanes; services are closed by who made them."""
        self._status_timer.stop()
        self._tasks.close(CLOSE_TIMEOUT_S)
        event.accept()
        self.closed.emit()

    def _build(self) -> None:
        text = self._translator.text
        self.setWindowTitle("Muniment")
        self.ask = AskPage(self._translator, self._tasks)
        self.resources = ResourcesPage(self._translator, self._tasks)
        self.audit = AuditPage(self._translator, self._tasks)
        self.ask.changed.connect(self._show_index_state)
        self.ask.answered.connect(self.refresh_status)
        self.pages = QStackedWidget()
        for page in (self.ask, self.resources, self.audit):
            self.pages.addWidget(page)
        rail = QFrame()
        rail.setProperty("role", "rail")
        column = QVBoxLayout(rail)
        column.setContentsMargins(4, GRID, 4, GRID)
        column.setSpacing(GRID // 2)
        self.rail: list[RailButton] = []
        group = QButtonGroup(rail)
        for position, icon in enumerate(("ask", "resources", "audit")):
            button = RailButton(icon, text(f"ui.{icon}"), f"Ctrl+{position + 1}")
            button.clicked.connect(lambda _=False, index=position: self.show_page(index))
            group.addButton(button)
            column.addWidget(button)
            self.rail.append(button)
        column.addStretch(1)
        self.rail[0].setChecked(True)
        central = QWidget()
        row = QHBoxLayout(central)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(rail)
        row.addWidget(self.pages, 1)
        self.setCentralWidget(central)
        self._overlay = DropOverlay(text("ui.drop_here"), self)
        self._build_menus()
        self._build_status()

    def _build_menus(self) -> None:
        text = self._translator.text
        bar = self.menuBar()
        bar.clear()
        file = bar.addMenu(text("ui.menu_file"))
        self._action(file.addAction(text("ui.add_pdfs")), self.ask.documents.choose_files, "Ctrl+O")
        file.addSeparator()
        self._action(file.addAction(text("ui.quit")), self.close, "Ctrl+Q")
        view = bar.addMenu(text("ui.menu_view"))
        for position, name in enumerate(("ask", "resources", "audit")):
            action = view.addAction(text(f"ui.{name}"))
            self._action(action, partial(self.show_page, position), f"Ctrl+{position + 1}")
        view.addSeparator()
        languages = view.addMenu(text("ui.language"))
        current = self._translator.language
        self._choices(languages.addAction, [("English", "en"), ("中文", "zh_CN")], current, self.set_language)
        themes = view.addMenu(text("ui.theme"))
        options = [(text(f"ui.theme_{theme.value}"), theme.value) for theme in Theme]
        self._choices(themes.addAction, options, self._settings.theme.value, lambda value: self.set_theme(Theme(value)))
        about = bar.addMenu(text("ui.menu_help")).addAction(text("ui.about"))
        self._action(about, lambda: show_about(self, text("ui.about"), text("ui.about_text")))

    def _action(self, action: QAction, run: Callable[[], object], shortcut: str = "") -> None:
        if shortcut:
            action.setShortcut(QKeySequence(shortcut))
        action.triggered.connect(lambda _checked=False: run())

    def _choices(
        self,
        add: Callable[[str], QAction],
        options: list[tuple[str, str]],
        current: str,
        chosen: Callable[[str], None],
    ) -> None:
        group = QActionGroup(self)
        for name, value in options:
            action = add(name)
            action.setCheckable(True)
            action.setChecked(value == current)
            group.addAction(action)
            action.triggered.connect(lambda _=False, item=value: chosen(item))

    def _build_status(self) -> None:
        bar = self.statusBar()
        for name in ("_index_label", "_headroom_label", "_running_label"):
            old = getattr(self, name, None)
            if old is not None:
                bar.removeWidget(old)
                old.deleteLater()
        bar.setSizeGripEnabled(False)
        self._index_label = PlainLabel(self._translator.text("ui.status_starting"))
        self._headroom_label = PlainLabel()
        self._running_label = PlainLabel()
        bar.addWidget(self._index_label)
        bar.addPermanentWidget(self._headroom_label)
        bar.addPermanentWidget(self._running_label)

    def _show_index_state(self) -> None:
        self._index_label.setText(self.ask.documents.status_text())

    def _on_status(self, state: tuple[Headroom, LoadedModel | None]) -> None:
        self._status_busy = False
        headroom, running = state
        text = self._translator.text
        self._headroom_label.setText(text("ui.status_headroom", size=size(headroom.available_bytes)))
        self._running_label.setText(
            text("ui.status_running", model=running.model_id) if running else text("ui.status_idle")
        )

    def _on_status_failed(self, error: Exception) -> None:
        del error
        self._status_busy = False
        self._headroom_label.setText("")

    @staticmethod
    def _dropped(event: QDropEvent) -> list[Path]:
        return [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]

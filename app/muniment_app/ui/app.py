"""Entry of the window: shows it first, then builds the services in the background."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path

from PySide6.QtCore import QEvent, QLibraryInfo, QLocale, QObject, QTimer, QTranslator
from PySide6.QtWidgets import QApplication

from muniment_app.bridge.settings import SettingsStore, Theme
from muniment_app.bridge.tasks import Lane, Tasks
from muniment_app.config.settings import SettingsFile
from muniment_app.services.api import Services
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.theme import apply_font, apply_theme
from muniment_resources.i18n import Translator

__all__ = ["choose_input_method", "run", "start"]

UNSEEN_MS = 2000

_LOG = logging.getLogger(__name__)


def choose_input_method(environment: MutableMapping[str, str], plugins: Path) -> None:
    """Let Chinese typing work where fcitx is set up but its Qt plugin is not shipped with the Qt wheels.

    fcitx 5 speaks the ibus protocol, whose plugin is shipped.
    """
    wanted = environment.get("QT_IM_MODULE", "")
    folder = plugins / "platforminputcontexts"
    if wanted.startswith("fcitx") and not any(folder.glob("*fcitx*")):
        environment["QT_IM_MODULE"] = "ibus"


class _FirstPaint(QObject):
    """Calls back once, in the first idle moment after the first paint of a window."""

    def __init__(self, window: MainWindow, then: Callable[[], None]) -> None:
        super().__init__(window)
        self._window = window
        self._then = then
        self._done = False
        window.installEventFilter(self)
        # A window that nobody can see, such as one started minimised, is never painted.
        QTimer.singleShot(UNSEEN_MS, self, self._finish)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Wait for the paint event."""
        if event.type() is QEvent.Type.Paint:
            self._window.removeEventFilter(self)
            # What follows in this turn of the event loop are the paint events of the children.
            QTimer.singleShot(0, self, self._finish)
        return super().eventFilter(watched, event)

    def _finish(self) -> None:
        if not self._done:
            self._done = True
            self._then()


def start(
    application: QApplication,
    services_factory: Callable[[], Services] | None,
    translator: Translator,
    settings: SettingsStore,
    on_interactive: Callable[[], None] | None = None,
) -> MainWindow:
    """Show the window and begin to build the services; returns at once.

    Args:
        application: The application that the window belongs to.
        services_factory: Builds the services; called on a lane, never on the main thread. ``None``: the window stays
            without services.
        translator: Texts.
        settings: What the window remembers.
        on_interactive: Called when the window has been painted and takes input; services may still be missing.
    """
    _install_qt_texts(application, translator.language)
    apply_font(application)
    tasks = Tasks()
    window = MainWindow(translator, tasks, settings)
    # After the window is built: a style sheet that is there before styles every widget again at each step.
    apply_theme(application, settings.theme)
    window.theme_chosen.connect(lambda chosen: apply_theme(application, chosen))

    def follow_desktop() -> None:
        if settings.theme is Theme.SYSTEM:
            apply_theme(application, Theme.SYSTEM)

    application.styleHints().colorSchemeChanged.connect(lambda _scheme: follow_desktop())
    made: list[Services] = []

    def make(factory: Callable[[], Services]) -> Services:
        services = factory()
        made.append(services)
        return services

    def close() -> None:
        for services in made:
            services.close()

    window.closed.connect(close)

    def first_idle() -> None:
        if on_interactive is not None:
            on_interactive()
        if services_factory is not None:
            # Only now: the heavy imports of the services must not delay the first picture.
            tasks.submit(Lane.LONG, lambda _task: make(services_factory), window.attach, window.fail)

    _FirstPaint(window, first_idle)
    window.show()
    window.ask.box.setFocus()
    return window


def run(
    services_factory: Callable[[], Services],
    translator: Translator,
    settings_file: SettingsFile | None = None,
    exit_when_ready: bool = False,
) -> int:
    """Run the window until it is closed; return the exit code.

    Args:
        services_factory: See ``start``.
        translator: Texts.
        settings_file: Where language and theme are kept.
        exit_when_ready: Print ``ready`` when the window takes input, and end; for measurements and self tests.
    """
    choose_input_method(os.environ, Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)))
    application = QApplication(["muniment"])
    application.setApplicationName("Muniment")
    application.setDesktopFileName("muniment")
    settings = SettingsStore(settings_file)

    def say_ready() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        application.exit(0)

    if exit_when_ready:
        window = start(application, None, translator, settings, say_ready)
    else:
        window = start(application, services_factory, translator, settings)
    code = application.exec()
    del window
    return code


def _install_qt_texts(application: QApplication, language: str) -> None:
    """Load Qt's own translations, for the texts of file dialogs and context menus."""
    if language == "en":
        return
    texts = QTranslator(application)
    if texts.load(QLocale(language), "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        application.installTranslator(texts)
    else:
        _LOG.info("no Qt texts for %s", language)

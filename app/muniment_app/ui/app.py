"""Entry of the window: shows it first, then builds the services in the background."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path

from PySide6.QtCore import QLibraryInfo, QLocale, QTimer, QTranslator
from PySide6.QtWidgets import QApplication

from muniment_app.bridge.settings import SettingsStore, Theme
from muniment_app.bridge.tasks import Lane, Tasks
from muniment_app.config.settings import SettingsFile
from muniment_app.services.api import Services
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.theme import apply_theme
from muniment_resources.i18n import Translator

__all__ = ["choose_input_method", "run", "start"]

_LOG = logging.getLogger(__name__)


def choose_input_method(environment: MutableMapping[str, str], plugins: Path) -> None:
    """Let Chinese typing work where fcitx is set up but its Qt plugin is not shipped with the Qt wheels.

    fcitx 5 speaks the ibus protocol, whose plugin is shipped.
    """
    wanted = environment.get("QT_IM_MODULE", "")
    folder = plugins / "platforminputcontexts"
    if wanted.startswith("fcitx") and not any(folder.glob("*fcitx*")):
        environment["QT_IM_MODULE"] = "ibus"


def start(
    application: QApplication,
    services_factory: Callable[[], Services],
    translator: Translator,
    settings: SettingsStore,
    on_interactive: Callable[[], None] | None = None,
) -> MainWindow:
    """Show the window and begin to build the services; returns at once.

    Args:
        application: The application that the window belongs to.
        services_factory: Builds the services; called on a lane, never on the main thread.
        translator: Texts; a language that the user chose in the window goes before it.
        settings: What the window remembers.
        on_interactive: Called when the window has been painted and takes input; services may still be missing.
    """
    theme = settings.current.theme
    apply_theme(application, theme)
    language = settings.current.language
    if language and language != translator.language:
        translator = Translator(language)
    _install_qt_texts(application, translator.language)
    tasks = Tasks()
    window = MainWindow(translator, tasks, settings)
    window.theme_chosen.connect(lambda chosen: apply_theme(application, chosen))

    def follow_desktop() -> None:
        if settings.current.theme is Theme.SYSTEM:
            apply_theme(application, Theme.SYSTEM)

    application.styleHints().colorSchemeChanged.connect(lambda _scheme: follow_desktop())
    made: list[Services] = []

    def make() -> Services:
        services = services_factory()
        made.append(services)
        return services

    def close() -> None:
        for services in made:
            services.close()

    window.closed.connect(close)

    def first_idle() -> None:
        if on_interactive is not None:
            on_interactive()
        tasks.submit(Lane.LONG, lambda _task: make(), window.attach, window.fail)

    window.show()
    window.ask.box.setFocus()
    # The first turn of the event loop paints the window; heavy imports of the services must not delay it.
    QTimer.singleShot(0, lambda: QTimer.singleShot(0, first_idle))
    return window


def run(
    services_factory: Callable[[], Services],
    translator: Translator,
    settings: SettingsFile,
    exit_when_ready: bool = False,
) -> int:
    """Run the window until it is closed; return the exit code.

    Args:
        services_factory: Builds the services, in the background, once the window takes input.
        translator: Language of the window unless the settings name another.
        settings: Where choices are kept.
        exit_when_ready: Print ``ready`` when the window takes input, and leave: for self-tests and measurements.
    """
    choose_input_method(os.environ, Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)))
    application = QApplication(["muniment"])
    application.setApplicationName("Muniment")
    application.setDesktopFileName("muniment")

    def ready() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        application.quit()

    window = start(
        application, services_factory, translator, SettingsStore(settings), ready if exit_when_ready else None
    )
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

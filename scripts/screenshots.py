"""Renders every page of the window in both languages, both themes and two sizes: ``python -m scripts.screenshots OUT``.

The library is invented (tests/helpers/services.py), so that pictures can be shown to anyone.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QDeadlineTimer, QEventLoop
from PySide6.QtWidgets import QApplication

from muniment_app.bridge.settings import SettingsStore, Theme
from muniment_app.ui.app import start
from muniment_app.ui.main_window import MainWindow
from muniment_resources.i18n import LANGUAGES, Translator
from tests.helpers.services import Fake, not_found, plan

SIZES = ((1280, 720), (1440, 900))
WAIT_MS = 20_000


def spin(application: QApplication, until: Callable[[], bool]) -> None:
    """Run the event loop until a condition holds."""
    deadline = QDeadlineTimer(WAIT_MS)
    while not until():
        if deadline.hasExpired():
            raise TimeoutError("the window did not get there")
        application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)


def settle(application: QApplication) -> None:
    """Let layouts and short timers run out."""
    deadline = QDeadlineTimer(400)
    while not deadline.hasExpired():
        application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)


def shoot(application: QApplication, window: MainWindow, fake: Fake, prefix: Path) -> None:
    """Write the pictures of one window."""

    def save(name: str) -> None:
        settle(application)
        target = f"{prefix}_{name}.png"
        if not window.grab().save(target):
            raise OSError(target)

    spin(application, lambda: window.ask.documents.model.rowCount() > 0)
    save("ready")
    window.ask.box.setPlainText("What was net revenue in 2025 and what drove the change?")
    window.ask.ask()
    spin(application, lambda: bool(window.ask.answer_view.footer.text()))
    save("ask")
    fake.answer = not_found()
    window.ask.box.setPlainText("What does the chief executive earn?")
    window.ask.ask()
    spin(application, lambda: bool(window.ask.answer_view.rows))
    gate = fake.hold("index")
    window.ask.add_paths([Path("/documents/minutes-03.pdf"), Path("/documents/minutes-04.pdf")])
    save("not_found")
    gate.set()
    window.show_page(1)
    spin(application, lambda: window.resources.snapshot is not None)
    save("resources")
    window.show_page(2)
    window.audit.verify()
    spin(application, window.audit.verify_button.isEnabled)
    save("audit")


def main() -> int:
    """Entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only pictures whose prefix contains this")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    for language in LANGUAGES:
        for theme in (Theme.LIGHT, Theme.DARK):
            for width, height in SIZES:
                prefix = arguments.folder / f"{language}_{theme.value}_{width}x{height}"
                if arguments.only not in prefix.name:
                    continue
                settings = SettingsStore()
                settings.set_theme(theme)
                fake = Fake()
                fake.current_plan = replace(plan())
                window = start(application, fake.services, Translator(language), settings)
                window.resize(width, height)
                shoot(application, window, fake, prefix)
                window.close()
                print(prefix)
                empty = Fake(documents=(), installed=False)
                window = start(application, empty.services, Translator(language), settings)
                window.resize(width, height)
                spin(application, window.ask.start.get_button.isVisible)
                settle(application)
                window.grab().save(f"{prefix}_first_run.png")
                window.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

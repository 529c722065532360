"""A window over services in memory. Offscreen unless a display is asked for with ``MUNIMENT_TEST_DISPLAY=1``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from pytestqt.qtbot import QtBot

if os.environ.get("MUNIMENT_TEST_DISPLAY") != "1":
    os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtWidgets import QApplication

from muniment_app.bridge.settings import SettingsStore
from muniment_app.ui.app import start
from muniment_app.ui.main_window import MainWindow
from muniment_resources.i18n import Translator
from tests.helpers.services import Fake

Opener = Callable[..., MainWindow]


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def opener(qtbot: QtBot, qapp: QApplication) -> Iterator[Opener]:
    windows: list[tuple[MainWindow, Fake]] = []

    def open_window(fake: Fake, language: str = "en", settings: SettingsStore | None = None) -> MainWindow:
        window = start(qapp, fake.services, Translator(language), settings or SettingsStore())
        windows.append((window, fake))
        qtbot.waitUntil(lambda: window.ask.start.heading.text() != Translator(language).text("ui.starting_title"))
        return window

    yield open_window
    for window, fake in windows:
        for gate in fake.gates.values():
            gate.set()
        window.close()
        window.deleteLater()


@pytest.fixture
def window(opener: Opener, fake: Fake) -> MainWindow:
    return opener(fake)

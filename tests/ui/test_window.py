"""The frame: languages, themes, accessibility, start and end."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QLabel,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from muniment_app.bridge.settings import SettingsStore, Theme
from muniment_app.config.settings import Settings, SettingsFile
from muniment_app.services.api import Services
from muniment_app.ui.app import choose_input_method, start
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.theme import DARK, LIGHT, Colors, contrast, text_pairs
from muniment_app.ui.widgets import PlainLabel
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator, catalogue
from tests.helpers.services import Fake
from tests.ui.conftest import Opener


def shown_texts(window: MainWindow) -> set[str]:
    texts: set[str] = set()
    for widget in window.findChildren(QWidget):
        texts |= {widget.toolTip(), widget.accessibleName()}
        if isinstance(widget, (QLabel, QAbstractButton)):
            texts.add(widget.text())
        if isinstance(widget, (QLineEdit, QPlainTextEdit)):
            texts.add(widget.placeholderText())
    for menu in window.findChildren(QMenu):
        texts |= {menu.title()} | {action.text() for action in menu.actions()}
    return texts


def visit(qtbot: QtBot, window: MainWindow) -> None:
    window.ask.box.setPlainText("收入是多少？")
    window.ask.ask()
    qtbot.waitUntil(lambda: not window.ask.busy)
    window.show_page(1)
    qtbot.waitUntil(lambda: window.resources.snapshot is not None)
    window.show_page(2)
    qtbot.waitUntil(window.audit.verify_button.isEnabled)


def test_chinese_window_shows_no_english_text_of_the_catalogue(qtbot: QtBot, opener: Opener, fake: Fake) -> None:
    window = opener(fake, "zh_CN")
    visit(qtbot, window)
    english, chinese = catalogue("en"), catalogue("zh_CN")
    whole = {
        text
        for key, text in english.items()
        if key.startswith("ui.") and "{" not in text and text != chinese[key] and len(text) > 2
    }
    pieces = set()
    for key, text in english.items():
        if key.startswith("ui.") and "{" in text:
            literals = [literal.strip(" ·,.()") for literal, *_ in string.Formatter().parse(text)]
            pieces |= {literal for literal in literals if len(literal) > 8}
    shown = shown_texts(window)
    assert shown & whole == set()
    assert [(text, piece) for text in shown for piece in pieces if piece in text] == []


def test_language_switches_at_run_time_and_keeps_the_answer(
    qtbot: QtBot, opener: Opener, fake: Fake, tmp_path: Path
) -> None:
    file = SettingsFile(tmp_path / "settings.toml")
    window = opener(fake, "en", SettingsStore(file))
    visit(qtbot, window)
    qtbot.waitUntil(lambda: not window._tasks.busy())
    window.set_language("zh_CN")
    assert window.ask.answer_view.state.text() == "3 句中 2 句有依据"
    qtbot.waitUntil(lambda: window.ask.documents.model.rowCount() == 4)
    assert file.load().language == "zh_CN"


def test_language_waits_while_work_runs(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    gate = fake.hold("ask")
    window.ask.box.setPlainText("Anything?")
    window.ask.ask()
    assert fake.entered["ask"].wait(5)
    window.set_language("zh_CN")
    assert window.rail[0].text() == "Ask"
    assert "next start" in window.statusBar().currentMessage()
    gate.set()
    qtbot.waitUntil(lambda: not window.ask.busy)


def test_theme_switches_and_is_remembered(opener: Opener, fake: Fake, tmp_path: Path) -> None:
    file = SettingsFile(tmp_path / "settings.toml")
    window = opener(fake, "en", SettingsStore(file))
    window.set_theme(Theme.DARK)
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    assert application.palette().color(QPalette.ColorRole.Window).name() == DARK.window
    window.set_theme(Theme.LIGHT)
    assert application.palette().color(QPalette.ColorRole.Window).name() == LIGHT.window
    assert file.load() == Settings(language="", theme="light")
    assert SettingsStore(file).theme is Theme.LIGHT


def test_a_choice_holds_for_this_run_when_it_cannot_be_stored(opener: Opener, fake: Fake, tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.touch()
    window = opener(fake, "en", SettingsStore(SettingsFile(blocked / "settings.toml")))
    window.set_theme(Theme.DARK)
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    assert application.palette().color(QPalette.ColorRole.Window).name() == DARK.window


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_has_enough_contrast(colors: Colors) -> None:
    weak = [(name, round(contrast(ink, ground), 2)) for name, ink, ground in text_pairs(colors)
            if contrast(ink, ground) < 4.5]  # fmt: skip
    assert weak == []


def test_contrast_is_the_one_of_the_guideline() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_every_focusable_widget_has_a_name(qtbot: QtBot, opener: Opener, fake: Fake, language: str) -> None:
    window = opener(fake, language)
    visit(qtbot, window)
    unnamed = [
        (type(widget).__name__, widget.objectName())
        for widget in window.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not widget.accessibleName()
        and not isinstance(widget, (QMenu, QMenuBar))
        and not (isinstance(widget.parent(), QAbstractScrollArea) and widget.objectName().startswith("qt_"))
        and not isinstance(widget.parent(), QLineEdit)
    ]
    assert unnamed == []


def test_labels_never_interpret_markup(qtbot: QtBot, window: MainWindow) -> None:
    visit(qtbot, window)
    labels = window.findChildren(QLabel)
    assert len(labels) > 20
    assert [label.text() for label in labels if label.textFormat() is not Qt.TextFormat.PlainText] == []
    assert all(isinstance(label, PlainLabel) for label in labels)


def test_window_is_shown_before_the_services_exist(qtbot: QtBot, qapp: QApplication, fake: Fake) -> None:
    gate = fake.hold("build")
    order: list[str] = []

    def factory() -> Services:
        fake.wait("build")
        order.append("services")
        return fake.services()

    window = start(qapp, factory, Translator("en"), SettingsStore(), lambda: order.append("interactive"))
    assert fake.entered["build"].is_set() is False
    qtbot.waitUntil(lambda: order == ["interactive"])
    assert window.isVisible()
    assert window.ask.start.heading.text() == "Opening the workspace"
    gate.set()
    qtbot.waitUntil(lambda: window.ask.start.heading.text() == "What do you want to know?")
    window.close()
    assert fake.closed


def test_services_that_cannot_be_made_say_why(qtbot: QtBot, qapp: QApplication) -> None:
    def factory() -> Services:
        raise KnownError("E-STORE-KEY", name="index.db")

    window = start(qapp, factory, Translator("en"), SettingsStore())
    qtbot.waitUntil(lambda: window.ask.start.heading.text() == "The workspace could not be opened")
    assert "index.db" in window.ask.start.text.text()
    assert window.ask.start.note.text() == "E-STORE-KEY"
    window.close()


def test_menus_hold_real_actions_only(window: MainWindow) -> None:
    actions = [
        action
        for menu in window.menuBar().findChildren(QMenu)
        for action in menu.actions()
        if not action.isSeparator() and action.menu() is None
    ]
    assert {action.text() for action in actions} == {
        "Add PDFs…", "Quit", "Ask", "Resources", "Audit", "English", "中文", "As the system", "Light", "Dark",
        "About Muniment",
    }  # fmt: skip


def test_status_bar_shows_index_headroom_and_model(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window._headroom_label.text() == "Headroom 3.2 GiB")
    assert window._running_label.text() == "Running qwen2.5-coder-1.5b-instruct"
    qtbot.waitUntil(lambda: window._index_label.text() == "3 documents searchable")


def test_input_method_falls_back_to_ibus(tmp_path: Path) -> None:
    environment = {"QT_IM_MODULE": "fcitx5"}
    choose_input_method(environment, tmp_path)
    assert environment["QT_IM_MODULE"] == "ibus"
    folder = tmp_path / "platforminputcontexts"
    folder.mkdir()
    (folder / "libfcitx5platforminputcontextplugin.so").touch()
    environment = {"QT_IM_MODULE": "fcitx5"}
    choose_input_method(environment, tmp_path)
    assert environment["QT_IM_MODULE"] == "fcitx5"

"""Dialogs. All are opened without a nested event loop, show plain text only and report through a callback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLineEdit,
    QMessageBox,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import PlainLabel
from muniment_resources.i18n import Translator

__all__ = ["ExportDialog", "PasswordDialog", "confirm", "show_about"]


class _Dialog(QDialog):
    """A column with texts and two buttons. Deletes itself when it is closed."""

    def __init__(self, parent: QWidget, title: str, accept_text: str, reject_text: str) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(420)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(3 * GRID, 3 * GRID, 3 * GRID, 2 * GRID)
        self.column.setSpacing(int(1.5 * GRID))
        self.buttons = QDialogButtonBox()
        accept = self.buttons.addButton(accept_text, QDialogButtonBox.ButtonRole.AcceptRole)
        reject = self.buttons.addButton(reject_text, QDialogButtonBox.ButtonRole.RejectRole)
        accept.setProperty("kind", "primary")
        accept.setAccessibleName(accept_text)
        reject.setAccessibleName(reject_text)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)


class PasswordDialog(_Dialog):
    """Asks for the password of one file. The password is handed over once and kept nowhere.

    Args:
        reply: Takes the password, or ``None`` when the file is to be left out.
    """

    def __init__(
        self,
        parent: QWidget,
        translator: Translator,
        file_name: str,
        was_wrong: bool,
        reply: Callable[[str | None], None],
    ) -> None:
        text = translator.text
        super().__init__(parent, text("ui.password_title"), text("ui.password_open"), text("ui.password_skip"))
        self._reply: Callable[[str | None], None] | None = reply
        self.column.addWidget(PlainLabel(text("ui.password_ask", file=file_name), wrap=True))
        if was_wrong:
            wrong = PlainLabel(text("ui.password_wrong"), wrap=True)
            wrong.setProperty("tone", "bad")
            self.column.addWidget(wrong)
        self.edit = QLineEdit()
        self.edit.setEchoMode(QLineEdit.EchoMode.Password)
        self.edit.setAccessibleName(text("ui.password_title"))
        self.column.addWidget(self.edit)
        self.column.addWidget(PlainLabel(text("ui.password_note"), "small", wrap=True))
        self.column.addWidget(self.buttons)
        self.edit.setFocus()

    def done(self, result: int) -> None:
        """Hand over exactly one reply."""
        if self._reply is not None:
            reply, self._reply = self._reply, None
            reply(self.edit.text() if result == QDialog.DialogCode.Accepted else None)
        self.edit.clear()
        super().done(result)


class ExportDialog(_Dialog):
    """Asks whether the texts go into the bundle, then where to.

    Args:
        chosen: Takes the target and ``all`` or ``none``.
    """

    def __init__(self, parent: QWidget, translator: Translator, chosen: Callable[[Path, str], None]) -> None:
        text = translator.text
        super().__init__(parent, text("ui.export_title"), text("ui.export_choose"), text("ui.cancel"))
        self._translator, self._chosen = translator, chosen
        self.without = QRadioButton(text("ui.export_none"))
        self.with_openings = QRadioButton(text("ui.export_all"))
        self.without.setChecked(True)
        self.column.addWidget(PlainLabel(text("ui.export_what"), wrap=True))
        for button, note in ((self.without, "ui.export_none_note"), (self.with_openings, "ui.export_all_note")):
            button.setAccessibleName(button.text())
            self.column.addWidget(button)
            label = PlainLabel(text(note), "small", wrap=True)
            label.setContentsMargins(3 * GRID, 0, 0, 0)
            self.column.addWidget(label)
        self.column.addWidget(self.buttons)

    def accept(self) -> None:
        """Ask for the folder and report both choices."""
        openings = "all" if self.with_openings.isChecked() else "none"
        chosen = self._chosen
        files = QFileDialog(self.parentWidget(), self._translator.text("ui.export_title"))
        files.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        files.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        files.setFileMode(QFileDialog.FileMode.AnyFile)
        files.setDefaultSuffix("zip")
        files.selectFile("muniment-audit.zip")
        files.fileSelected.connect(lambda path: chosen(Path(path), openings))
        super().accept()
        files.open()


def confirm(parent: QWidget, title: str, question: str, yes: str, no: str, action: Callable[[], None]) -> QMessageBox:
    """Ask before something is removed; ``action`` runs on yes."""
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setWindowTitle(title)
    box.setText(question)
    accept = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.addButton(no, QMessageBox.ButtonRole.RejectRole)
    box.buttonClicked.connect(lambda button: action() if button is accept else None)
    box.open()
    return box


def show_about(parent: QWidget, title: str, text: str) -> QMessageBox:
    """Show what the program is."""
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setWindowTitle(title)
    box.setText(text)
    box.open()
    return box

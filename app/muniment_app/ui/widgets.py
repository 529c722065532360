"""Small building blocks: plain labels, cards, buttons and the table preset."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFocusEvent, QPainter, QPaintEvent, QPalette, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from muniment_app.bridge.models import TONE_ROLE
from muniment_app.ui.icons import draw_icon
from muniment_app.ui.theme import GRID, Colors, colors_of

__all__ = [
    "Card", "ElidedLabel", "IconButton", "InputFrame", "PlainLabel", "PlainView", "RailButton", "Swatch",
    "ToneDelegate", "chip", "line", "make_button", "make_table", "set_property", "tooltip",
]  # fmt: skip


def set_property(widget: QWidget, name: str, value: str) -> None:
    """Set a property that the style sheet selects on, and restyle the widget."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


class PlainLabel(QLabel):
    """A label that never interprets markup: names and texts may come from a document or a model."""

    def __init__(self, text: str = "", role: str = "", wrap: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        if role:
            self.setProperty("role", role)
        self.setText(text)


class ElidedLabel(PlainLabel):
    """One line that is shortened to the width it gets; the full text is its tool tip.

    Names are shortened in the middle, because their ends tell them apart; running text at its end.
    """

    def __init__(
        self,
        text: str = "",
        role: str = "",
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
        parent: QWidget | None = None,
    ) -> None:
        self._full = ""
        self._mode = mode
        super().__init__("", role, parent=parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.set_full_text(text)

    @property
    def full_text(self) -> str:
        """The text before shortening."""
        return self._full

    def set_full_text(self, text: str) -> None:
        """Set the text."""
        self._full = text
        self.setToolTip(tooltip(text))
        self.setAccessibleName(text)
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten again."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._full, self._mode, max(20, self.width())))


def tooltip(text: str) -> str:
    """Return a tool tip that Qt cannot take for markup: it guesses from the first tag, so ``<`` is replaced."""
    return text.replace("<", "‹")


class Card(QFrame):
    """A rounded surface with a column of widgets."""

    def __init__(self, kind: str = "plain", margin: int = 2 * GRID, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", kind)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(margin, margin, margin, margin)
        self.column.setSpacing(GRID)


def chip(text: str = "", kind: str = "plain") -> PlainLabel:
    """Return a small rounded label."""
    label = PlainLabel(text)
    label.setProperty("chip", kind)
    label.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)
    return label


def line() -> QFrame:
    """Return a horizontal hair line."""
    frame = QFrame()
    frame.setProperty("role", "line")
    frame.setFixedHeight(1)
    return frame


def make_button(text: str, action: Callable[[], None], kind: str = "plain") -> QPushButton:
    """Return a push button; its accessible name is its text without the mnemonic."""
    button = QPushButton(text)
    button.setProperty("kind", kind)
    button.setAccessibleName(text.replace("&", ""))
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.clicked.connect(lambda _checked=False: action())
    return button


class IconButton(QToolButton):
    """A tool button with a painted icon that follows the theme."""

    def __init__(self, icon: str, name: str, action: Callable[[], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon_name = icon
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFixedSize(30, 30)
        self.clicked.connect(lambda _checked=False: action())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the frame of the style, then the icon."""
        super().paintEvent(event)
        colors = colors_of(self.palette())
        color = QColor(colors.text if self.isEnabled() else colors.border)
        painter = QPainter(self)
        side = 18.0
        draw_icon(
            painter, self._icon_name, QRectF((self.width() - side) / 2, (self.height() - side) / 2, side, side), color
        )


class RailButton(QAbstractButton):
    """An entry of the left rail: icon over a word, filled when current."""

    def __init__(self, icon: str, text: str, shortcut: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon_name = icon
        self.setText(text)
        self.setCheckable(True)
        self.setAutoExclusive(True)
        self.setAccessibleName(text)
        self.setToolTip(f"{text} ({shortcut})")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setFixedSize(80, 64)

    def sizeHint(self) -> QSize:
        """Return the fixed size."""
        return QSize(80, 64)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint pill, icon and word."""
        colors = colors_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pill = QRectF(self.rect()).adjusted(6, 3, -6, -3)
        if self.isChecked() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.accent_soft if self.isChecked() else colors.raised))
            painter.drawRoundedRect(pill, 10, 10)
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(pill, 10, 10)
        ink = QColor(colors.accent if self.isChecked() else colors.muted)
        draw_icon(painter, self._icon_name, QRectF(self.width() / 2 - 11, 11, 22, 22), ink)
        font = self.font()
        font.setPointSizeF(9)
        font.setWeight(font.Weight.DemiBold if self.isChecked() else font.Weight.Normal)
        painter.setFont(font)
        painter.setPen(ink)
        painter.drawText(QRectF(0, 36, self.width(), 20), int(Qt.AlignmentFlag.AlignCenter), self.text())


class Swatch(QWidget):
    """A small square in the colour of a part of the memory bar."""

    def __init__(self, key: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key = key
        self.setFixedSize(12, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the square; the reserve is hatched as in the bar."""
        colors = colors_of(self.palette())
        fill = QColor(colors.raised if self._key == "free" else getattr(colors, self._key))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors.border), 1))
        painter.setBrush(fill)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(box, 3, 3)
        if self._key == "reserve":
            painter.setBrush(QBrush(QColor(colors.surface), Qt.BrushStyle.BDiagPattern))
            painter.drawRoundedRect(box, 3, 3)


class PlainView(QPlainTextEdit):
    """Read-only plain text."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setProperty("role", "detail")
        self.setTabChangesFocus(True)


class ToneDelegate(QStyledItemDelegate):
    """Colours cells by their tone; the state of a document gets a dot."""

    def __init__(self, dots: tuple[int, ...] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._dots = dots

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        """Set the ink of the cell."""
        super().initStyleOption(option, index)
        tone = index.data(TONE_ROLE)
        if not tone:
            return
        colors = colors_of(option.palette)
        ink = _ink(colors, tone)
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
            option.palette.setColor(role, ink)
        if tone in ("accent", "strong"):
            option.font.setBold(True)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint the cell, and a dot before the text of dotted columns."""
        super().paint(painter, option, index)
        if index.data(Qt.ItemDataRole.CheckStateRole) is not None:
            self._paint_check(painter, option, index)
        tone = index.data(TONE_ROLE)
        if index.column() not in self._dots or not tone:
            return
        rect = option.rect
        color = _ink(colors_of(option.palette), tone)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawEllipse(QPointF(rect.left() + 4, rect.center().y() + 0.5), 3.2, 3.2)
        painter.restore()

    def _paint_check(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint the tick box over the one of the style, in the colours of the theme."""
        shown = QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        element = QStyle.SubElement.SE_ItemViewItemCheckIndicator
        box = QRectF(option.widget.style().subElementRect(element, shown, option.widget))
        colors = colors_of(option.palette)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(box.adjusted(-1, -1, 1, 1), QColor(colors.accent_soft if selected else colors.surface))
        box = QRectF(box.center().x() - 7.5, box.center().y() - 7.5, 15, 15)
        ticked = Qt.CheckState(index.data(Qt.ItemDataRole.CheckStateRole)) is Qt.CheckState.Checked
        usable = bool(index.flags() & Qt.ItemFlag.ItemIsUserCheckable)
        painter.setPen(QPen(QColor(colors.accent if ticked else colors.muted if usable else colors.border), 1.2))
        painter.setBrush(QColor(colors.accent if ticked else colors.surface if usable else colors.raised))
        painter.drawRoundedRect(box, 4, 4)
        if ticked:
            draw_icon(painter, "tick", box.adjusted(1, 1, -1, -1), QColor(colors.on_accent), 3.2)
        painter.restore()


def _ink(colors: Colors, tone: str) -> QColor:
    inks = {
        "good": colors.good,
        "warn": colors.warn,
        "bad": colors.bad,
        "accent": colors.accent,
        "quiet": colors.muted,
        "strong": colors.text,
    }
    return QColor(inks.get(tone, colors.text))


def make_table(
    model: QAbstractItemModel, name: str, stretch: int, row_height: int = 32, dots: tuple[int, ...] = ()
) -> QTableView:
    """Return a calm table: whole rows, no grid, one stretched column, the others as wide as their content."""
    view = QTableView()
    view.setModel(model)
    view.setAccessibleName(name)
    view.setItemDelegate(ToneDelegate(dots, view))
    view.setShowGrid(False)
    view.setWordWrap(False)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setTabKeyNavigation(False)
    view.setFrameShape(QFrame.Shape.NoFrame)
    vertical = view.verticalHeader()
    vertical.setVisible(False)
    vertical.setDefaultSectionSize(row_height)
    horizontal = view.horizontalHeader()
    horizontal.setHighlightSections(False)
    horizontal.setMinimumSectionSize(36)
    horizontal.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    horizontal.setResizeContentsPrecision(60)
    horizontal.setSectionResizeMode(stretch, QHeaderView.ResizeMode.Stretch)
    return view


class InputFrame(Card):
    """A card around an editor that shows the editor's focus."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("input", GRID, parent)
        self.setProperty("active", "false")

    def follow(self, editor: QPlainTextEdit, event: QFocusEvent) -> None:
        """Show or hide the focus line."""
        del editor
        set_property(self, "active", "true" if event.gotFocus() else "false")

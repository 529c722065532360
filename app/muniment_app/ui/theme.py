"""Colours, spacing and the style sheet. One calm accent, warm paper light, slate dark.

Every pair of text and ground that is used keeps a contrast of at least 4.5 : 1 (WCAG 2.1, 1.4.3); a test computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from muniment_app.bridge.settings import Theme

__all__ = ["DARK", "GRID", "LIGHT", "Colors", "apply_font", "apply_theme", "colors_of", "contrast", "text_pairs"]

GRID = 8
"""Spacing unit in pixels; all distances are multiples or halves of it."""


@dataclass(frozen=True)
class Colors:
    """Named colours of one theme, as ``#rrggbb``."""

    window: str
    surface: str
    raised: str
    border: str
    text: str
    muted: str
    accent: str
    accent_soft: str
    on_accent: str
    good: str
    good_soft: str
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    weights: str
    kv: str
    temporary: str
    base: str
    reserve: str
    other: str


LIGHT = Colors(
    window="#f4f2ee",
    surface="#ffffff",
    raised="#faf9f6",
    border="#e0dcd4",
    text="#1d2329",
    muted="#5b636b",
    accent="#17606b",
    accent_soft="#dfeeee",
    on_accent="#ffffff",
    good="#1f6b3f",
    good_soft="#e3f1e7",
    warn="#7d4c00",
    warn_soft="#fbefd6",
    bad="#a02d2d",
    bad_soft="#fbe9e7",
    weights="#17606b",
    kv="#4f9aa3",
    temporary="#d39b3a",
    base="#8a7fb5",
    reserve="#c4695c",
    other="#b9b5ac",
)

DARK = Colors(
    window="#15181b",
    surface="#1c2024",
    raised="#23282d",
    border="#32383e",
    text="#e7e9eb",
    muted="#9ea7af",
    accent="#74c5c9",
    accent_soft="#1d383b",
    on_accent="#0d2123",
    good="#7fca98",
    good_soft="#1b3326",
    warn="#e6bd74",
    warn_soft="#3a2f1a",
    bad="#f09a90",
    bad_soft="#412523",
    weights="#3d97a1",
    kv="#84c5cb",
    temporary="#d9a94f",
    base="#9d92cc",
    reserve="#c8695c",
    other="#565d64",
)

_FAMILIES = (
    "Inter", "Segoe UI", "SF Pro Text", "Helvetica Neue", "Noto Sans",
    "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei UI", "Source Han Sans SC", "DejaVu Sans",
)  # fmt: skip


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.1, relative luminance)."""

    def luminance(color: str) -> float:
        channels = []
        for start in (1, 3, 5):
            value = int(color[start : start + 2], 16) / 255
            channels.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
        return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def text_pairs(colors: Colors) -> list[tuple[str, str, str]]:
    """Return (name, text colour, ground) of every pair the window draws."""
    grounds = {"window": colors.window, "surface": colors.surface, "raised": colors.raised}
    inks = {"text": colors.text, "muted": colors.muted, "accent": colors.accent}
    pairs = [(f"{ink} on {ground}", inks[ink], grounds[ground]) for ink in inks for ground in grounds]
    for tone in ("good", "warn", "bad"):
        ink = getattr(colors, tone)
        pairs.append((f"{tone} on its own ground", ink, getattr(colors, f"{tone}_soft")))
        pairs.append((f"{tone} on surface", ink, colors.surface))
        pairs.append((f"text on {tone}", colors.text, getattr(colors, f"{tone}_soft")))
    pairs.append(("button text", colors.on_accent, colors.accent))
    pairs.append(("selected text", colors.text, colors.accent_soft))
    pairs.append(("citation", colors.accent, colors.accent_soft))
    return pairs


def colors_of(palette: QPalette) -> Colors:
    """Return the colours that belong to a palette: painted widgets need no shared state for the theme."""
    # The ink, not the ground: a transparent ground in the style sheet reads as black.
    return DARK if palette.color(QPalette.ColorRole.WindowText).lightness() > 128 else LIGHT


def apply_theme(application: QApplication, theme: Theme) -> Colors:
    """Set palette and style sheet of the application.

    ``SYSTEM`` follows the desktop's colour scheme; an explicit choice uses the own palette because the scheme of
    the desktop cannot be overridden on every platform.
    """
    dark = theme is Theme.DARK or (
        theme is Theme.SYSTEM and application.styleHints().colorScheme() is Qt.ColorScheme.Dark
    )
    colors = DARK if dark else LIGHT
    application.setStyle("Fusion")
    application.setPalette(_palette(colors))
    application.setStyleSheet(_stylesheet(colors))
    return colors


def apply_font(application: QApplication) -> None:
    """Give the application a font whose families include a Chinese one, so that both scripts share one look."""
    current = application.font()
    present = set(QFontDatabase.families())
    font = QFont(current)
    font.setFamilies([family for family in _FAMILIES if family in present] or [current.family()])
    font.setPointSizeF(max(10.0, current.pointSizeF()))
    application.setFont(font)


def _palette(colors: Colors) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for key, value in {
        role.Window: colors.window,
        role.WindowText: colors.text,
        role.Base: colors.surface,
        role.AlternateBase: colors.raised,
        role.Text: colors.text,
        role.Button: colors.surface,
        role.ButtonText: colors.text,
        role.ToolTipBase: colors.raised,
        role.ToolTipText: colors.text,
        role.PlaceholderText: colors.muted,
        role.Highlight: colors.accent,
        role.HighlightedText: colors.on_accent,
        role.Link: colors.accent,
        role.Mid: colors.border,
        role.BrightText: colors.bad,
    }.items():
        palette.setColor(key, QColor(value))
    for key in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, key, QColor(colors.muted))
    return palette


def _stylesheet(c: Colors) -> str:
    return f"""
QWidget {{ color: {c.text}; }}
QToolTip {{ background: {c.raised}; color: {c.text}; border: 1px solid {c.border}; padding: 6px 8px; }}
QMenuBar {{ background: {c.window}; padding: 2px 8px; }}
QMenuBar::item {{ padding: 5px 10px; border-radius: 6px; background: transparent; }}
QMenuBar::item:selected {{ background: {c.accent_soft}; }}
QMenu {{ background: {c.surface}; border: 1px solid {c.border}; padding: 6px; }}
QMenu::item {{ padding: 6px 28px 6px 24px; border-radius: 5px; }}
QMenu::item:selected {{ background: {c.accent_soft}; color: {c.text}; }}
QMenu::item:disabled {{ color: {c.muted}; }}
QMenu::separator {{ height: 1px; background: {c.border}; margin: 6px 4px; }}
QStatusBar {{ background: {c.window}; border-top: 1px solid {c.border}; }}
QStatusBar::item {{ border: none; }}
QStatusBar QLabel {{ color: {c.muted}; padding: 3px 10px; }}
QSplitter::handle {{ background: transparent; }}

QLabel {{ background: transparent; }}
QLabel[role="title"] {{ font-size: 15pt; font-weight: 600; }}
QLabel[role="heading"] {{ font-weight: 600; }}
QLabel[role="question"] {{ font-size: 13pt; font-weight: 600; }}
QLabel[role="muted"] {{ color: {c.muted}; }}
QLabel[role="small"] {{ color: {c.muted}; font-size: 9pt; }}
QLabel[role="figure"] {{ font-size: 19pt; font-weight: 600; }}
QLabel[tone="good"] {{ color: {c.good}; }}
QLabel[tone="warn"] {{ color: {c.warn}; }}
QLabel[tone="bad"] {{ color: {c.bad}; }}
QLabel[chip="plain"], QLabel[chip="good"], QLabel[chip="warn"], QLabel[chip="bad"] {{
    border-radius: 9px; padding: 2px 10px; font-size: 9pt; font-weight: 600; }}
QLabel[chip="plain"] {{ background: {c.accent_soft}; color: {c.accent}; }}
QLabel[chip="good"] {{ background: {c.good_soft}; color: {c.good}; }}
QLabel[chip="warn"] {{ background: {c.warn_soft}; color: {c.warn}; }}
QLabel[chip="bad"] {{ background: {c.bad_soft}; color: {c.bad}; }}

QFrame[card="plain"] {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 10px; }}
QFrame[card="input"] {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 12px; }}
QFrame[card="input"][active="true"] {{ border: 1px solid {c.accent}; }}
QFrame[card="good"] {{ background: {c.good_soft}; border: 1px solid {c.good_soft}; border-radius: 10px; }}
QFrame[card="warn"] {{ background: {c.warn_soft}; border: 1px solid {c.warn_soft}; border-radius: 10px; }}
QFrame[card="bad"] {{ background: {c.bad_soft}; border: 1px solid {c.bad_soft}; border-radius: 10px; }}
QFrame[role="line"] {{ background: {c.border}; max-height: 1px; border: none; }}
QFrame[role="rail"] {{ background: {c.window}; border: none; border-right: 1px solid {c.border}; }}

QPushButton {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 7px; padding: 6px 14px; }}
QPushButton:hover {{ background: {c.raised}; border-color: {c.muted}; }}
QPushButton:pressed {{ background: {c.accent_soft}; }}
QPushButton:focus {{ border: 1px solid {c.accent}; }}
QPushButton:disabled {{ color: {c.muted}; background: {c.window}; border-color: {c.border}; }}
QPushButton[kind="primary"] {{ background: {c.accent}; color: {c.on_accent}; border: 1px solid {c.accent};
    font-weight: 600; }}
QPushButton[kind="primary"]:hover {{ border: 1px solid {c.text}; }}
QPushButton[kind="primary"]:focus {{ border: 1px solid {c.text}; }}
QPushButton[kind="primary"]:disabled {{ background: {c.border}; color: {c.muted}; border-color: {c.border}; }}
QPushButton[kind="row"] {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 8px; padding: 0; }}
QPushButton[kind="row"]:hover, QPushButton[kind="row"]:focus {{ border-color: {c.accent}; }}
QPushButton[kind="segment"] {{ padding: 4px 12px; }}
QPushButton[kind="segment"]:checked {{ background: {c.accent_soft}; color: {c.accent}; }}
QPushButton[kind="segment"]:checked:focus {{ border: 1px solid {c.accent}; }}
QToolButton {{ background: transparent; border: 1px solid transparent; border-radius: 7px; padding: 5px; }}
QToolButton:hover {{ background: {c.accent_soft}; }}
QToolButton:focus {{ border: 1px solid {c.accent}; }}

QLineEdit {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 7px; padding: 6px 10px;
    selection-background-color: {c.accent}; selection-color: {c.on_accent}; }}
QLineEdit:focus {{ border: 1px solid {c.accent}; }}
QSpinBox {{ background: {c.surface}; border: 1px solid {c.border}; border-radius: 7px; padding: 4px 12px;
    min-width: 84px; selection-background-color: {c.accent}; selection-color: {c.on_accent}; }}
QSpinBox:focus {{ border: 1px solid {c.accent}; }}
QSpinBox::up-button, QSpinBox::down-button {{ width: 0; border: none; }}
QSlider {{ min-height: 24px; }}
QSlider::groove:horizontal {{ height: 4px; background: {c.border}; border-radius: 2px; margin: 0 2px; }}
QSlider::sub-page:horizontal {{ background: {c.accent}; border-radius: 2px; margin: 0 2px; }}
QSlider::handle:horizontal {{ width: 16px; height: 16px; margin: -7px 0; border-radius: 9px;
    background: {c.surface}; border: 2px solid {c.accent}; }}
QSlider::handle:horizontal:hover, QSlider::handle:horizontal:focus {{ background: {c.accent}; }}
QPlainTextEdit, QTextBrowser {{ background: transparent; border: none;
    selection-background-color: {c.accent}; selection-color: {c.on_accent}; }}
QPlainTextEdit[role="detail"] {{ background: {c.raised}; border: 1px solid {c.border}; border-radius: 8px;
    padding: 8px; }}
QScrollArea {{ background: transparent; border: none; }}
QScrollArea > QWidget > QWidget[role="page"] {{ background: transparent; }}

QTableView {{ background: {c.surface}; border: none; outline: 0; selection-background-color: {c.accent_soft};
    selection-color: {c.text}; alternate-background-color: {c.surface}; }}
QTableView::item {{ padding: 0 8px; border: none; border-bottom: 1px solid {c.raised}; }}
QTableView::item:selected {{ background: {c.accent_soft}; }}
QHeaderView {{ background: {c.surface}; border: none; }}
QHeaderView::section {{ background: {c.surface}; color: {c.muted}; border: none;
    border-bottom: 1px solid {c.border}; padding: 6px 11px; font-size: 9pt; font-weight: 600; }}
QTableCornerButton::section {{ background: {c.surface}; border: none; }}

QProgressBar {{ background: {c.border}; border: none; border-radius: 3px; max-height: 6px; min-height: 6px; }}
QProgressBar::chunk {{ background: {c.accent}; border-radius: 3px; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
QScrollBar::handle {{ background: {c.border}; border-radius: 4px; margin: 1px; min-height: 28px; min-width: 28px; }}
QScrollBar::handle:hover {{ background: {c.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QDialog, QMessageBox {{ background: {c.window}; }}
"""

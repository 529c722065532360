"""What the window remembers: holds the settings of this run and stores every change in the settings file."""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import StrEnum

from muniment_app.config.settings import Settings, SettingsFile

__all__ = ["SettingsStore", "Theme"]

_LOG = logging.getLogger(__name__)


class Theme(StrEnum):
    """Which colours to use; ``SYSTEM`` follows the desktop."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class SettingsStore:
    """The settings that hold now.

    Args:
        file: Where they are kept, or ``None`` to keep them for this run only.
    """

    def __init__(self, file: SettingsFile | None = None) -> None:
        self._file = file
        self._current = file.load() if file else Settings()

    @property
    def theme(self) -> Theme:
        """The theme that the user chose."""
        return Theme(self._current.theme)

    def set_language(self, language: str) -> None:
        """Remember the language for the next start."""
        self._change(replace(self._current, language=language))

    def set_theme(self, theme: Theme) -> None:
        """Remember the theme."""
        self._change(replace(self._current, theme=theme.value))

    def _change(self, settings: Settings) -> None:
        self._current = settings
        if self._file is None:
            return
        try:
            self._file.save(settings)
        except OSError as error:
            # No setting is worth a dialog: it holds for this run.
            _LOG.warning("settings.not-saved cause=%s", type(error).__name__)

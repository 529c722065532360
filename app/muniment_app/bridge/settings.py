"""What the window remembers while it runs: the settings file of the program, with a copy for this run."""

from __future__ import annotations

import logging
from dataclasses import replace

from muniment_app.config.settings import Settings, SettingsFile, Theme

__all__ = ["SettingsStore", "Theme"]

_LOG = logging.getLogger(__name__)


class SettingsStore:
    """The settings that hold now.

    Args:
        file: Where they are kept, or ``None`` to keep them for this run only.
    """

    def __init__(self, file: SettingsFile | None = None) -> None:
        self._file = file
        self._current = Settings() if file is None else file.load()

    @property
    def current(self) -> Settings:
        """The settings that hold now."""
        return self._current

    def set_language(self, language: str) -> None:
        """Remember the language."""
        self._save(replace(self._current, language=language))

    def set_theme(self, theme: Theme) -> None:
        """Remember the theme."""
        self._save(replace(self._current, theme=theme))

    def _save(self, settings: Settings) -> None:
        self._current = settings
        if self._file is None:
            return
        try:
            self._file.save(settings)
        except OSError as error:
            # No setting is worth an interruption; it holds for this run.
            _LOG.warning("settings.not_saved cause=%s", type(error).__name__)

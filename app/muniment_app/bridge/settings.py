"""What the window remembers: language and theme. A small JSON file, written whole or not at all."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from muniment_resources.i18n import LANGUAGES

__all__ = ["SettingsStore", "Theme", "WindowSettings"]

_LOG = logging.getLogger(__name__)


class Theme(StrEnum):
    """Which colours to use; ``SYSTEM`` follows the desktop."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class WindowSettings:
    """``language`` is ``None`` until the user chose one: then the caller's language holds."""

    language: str | None = None
    theme: Theme = Theme.SYSTEM


class SettingsStore:
    """Keeps ``WindowSettings`` in a file.

    Args:
        path: The file, or ``None`` to keep the settings for this run only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._current = self._read()

    @property
    def current(self) -> WindowSettings:
        """The settings that hold now."""
        return self._current

    def set_language(self, language: str) -> None:
        """Remember the language."""
        self._save(replace(self._current, language=language))

    def set_theme(self, theme: Theme) -> None:
        """Remember the theme."""
        self._save(replace(self._current, theme=theme))

    def _read(self) -> WindowSettings:
        """Read the file; a missing or damaged one gives the defaults, because no setting is worth a failed start."""
        if self._path is None:
            return WindowSettings()
        try:
            raw = json.loads(self._path.read_text("utf-8"))
            language = raw.get("language")
            return WindowSettings(language if language in LANGUAGES else None, Theme(raw.get("theme", Theme.SYSTEM)))
        except FileNotFoundError:
            return WindowSettings()
        except (OSError, ValueError, AttributeError):
            _LOG.warning("window settings could not be read; defaults are used")
            return WindowSettings()

    def _save(self, settings: WindowSettings) -> None:
        self._current = settings
        if self._path is None:
            return
        temporary = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(asdict(settings)), "utf-8")
            temporary.replace(self._path)
        except OSError:
            _LOG.warning("window settings could not be written; they hold for this run")

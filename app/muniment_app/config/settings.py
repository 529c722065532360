"""User settings: every option once, with type, default and allowed values; stored as TOML."""

from __future__ import annotations

import logging
import os
import tempfile
import tomllib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import tomli_w

from muniment_resources.i18n import LANGUAGES

__all__ = ["Settings", "SettingsFile", "Theme"]

log = logging.getLogger(__name__)


class Theme(StrEnum):
    """Which colours the window uses; ``SYSTEM`` follows the desktop."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class Settings:
    """All options.

    Attributes:
        language: A language of the catalogue, or empty for the language of the system.
        theme: Colours of the window.
    """

    language: str = ""
    theme: Theme = Theme.SYSTEM


class SettingsFile:
    """Reads and writes settings. A file that cannot be read is set aside, never overwritten."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Settings:
        """Return the stored settings; defaults where nothing valid is stored."""
        try:
            raw = tomllib.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return Settings()
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            log.warning("settings.unreadable cause=%s", type(error).__name__)
            self._set_aside()
            return Settings()
        # A value outside its range becomes the default; the rest of the file still holds.
        language, theme = raw.get("language"), raw.get("theme")
        return Settings(
            language=language if language in LANGUAGES else "",
            theme=Theme(theme) if theme in list(Theme) else Theme.SYSTEM,
        )

    def save(self, settings: Settings) -> None:
        """Store settings atomically: a crash leaves the old or the new file, never half of one."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                tomli_w.dump({name: str(value) for name, value in asdict(settings).items()}, stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self._path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _set_aside(self) -> None:
        number = 1
        while (target := self._path.with_suffix(f".broken-{number}")).exists():
            number += 1
        try:
            self._path.replace(target)
        except OSError as error:
            log.warning("settings.not-set-aside cause=%s", type(error).__name__)

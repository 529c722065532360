"""User settings: every option once, with type, default and allowed values; stored as TOML."""

from __future__ import annotations

import logging
import os
import tempfile
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import tomli_w

from muniment_resources.i18n import LANGUAGES

__all__ = ["THEMES", "Settings", "SettingsFile"]

THEMES = ("system", "light", "dark")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """All options.

    Attributes:
        language: A language of the catalogue, or empty for the language of the system.
        theme: ``system``, ``light`` or ``dark``.
    """

    language: str = ""
    theme: str = "system"

    def validated(self) -> Settings:
        """Return these settings with every value outside its range replaced by the default."""
        default = Settings()
        return replace(
            self,
            language=self.language if self.language in ("", *LANGUAGES) else default.language,
            theme=self.theme if self.theme in THEMES else default.theme,
        )


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
        known = {name: str(raw[name]) for name in asdict(Settings()) if name in raw}
        return Settings(**known).validated()

    def save(self, settings: Settings) -> None:
        """Store settings atomically: a crash leaves the old or the new file, never half of one."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                tomli_w.dump(asdict(settings.validated()), stream)
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

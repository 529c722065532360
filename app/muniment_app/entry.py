"""The start of the program proper: chooses the language, runs the command line or opens the window.

Light on purpose: what a command needs, services or Qt, is imported when the command runs, so that ``--help`` and the
window's first picture wait for nothing else.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from muniment_app.cli.main import language_of, run
from muniment_app.config.settings import SettingsFile
from muniment_app.services.api import Services
from muniment_app.workspace.paths import Home, resolve_home
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator

__all__ = ["main"]

LOG_BYTES = 1 << 20


class _Program:
    """One run of the program.

    Args:
        argv: Arguments without the program's name.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv

    def run(self) -> int:
        """Run the command line and return the exit code."""
        stored = SettingsFile(resolve_home(None, os.environ).settings).load().language
        return run(self._argv, os.environ, self._services, self._launch_gui, stored)

    def _translator(self, home: Home) -> Translator:
        return Translator(language_of(self._argv, os.environ, SettingsFile(home.settings).load().language))

    def _services(self, home: Path | None, workspace_name: str) -> Services:
        resolved = resolve_home(home, os.environ)
        resolved.create()
        _log_to(resolved)
        bootstrap = importlib.import_module("muniment_app.bootstrap")
        services: Services = bootstrap.build_services(resolved, workspace_name, translator=self._translator(resolved))
        return services

    def _launch_gui(self, home: Path | None, workspace_name: str, exit_when_ready: bool) -> int:
        """Open the window; one sentence instead when it cannot be opened here."""
        resolved = resolve_home(home, os.environ)
        translator = self._translator(resolved)
        try:
            # By name: the command line must work without Qt.
            window = importlib.import_module("muniment_app.ui.app")
        except ImportError as error:
            sentence = translator.error(KnownError("E-GUI-MISSING", name=error.name or "PySide6"))
            sys.stderr.write(f"{sentence} [E-GUI-MISSING]\n")
            return 1
        code: int = window.run(
            lambda: self._services(home, workspace_name),
            translator,
            SettingsFile(resolved.settings),
            exit_when_ready,
        )
        return code


def _log_to(home: Home) -> None:
    """Send logs to a file that rotates; standard error stays for people."""
    import logging.handlers  # noqa: PLC0415  (brings in the socket module, which the first picture does not need)

    handler = logging.handlers.RotatingFileHandler(
        home.logs / "muniment.log", maxBytes=LOG_BYTES, backupCount=3, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def main(argv: Sequence[str]) -> int:
    """Run the program with these arguments and return the exit code."""
    return _Program(argv).run()

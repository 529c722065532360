"""Entry of the program proper: command line or window. Stays light; the services are wired when first needed."""

from __future__ import annotations

import functools
import importlib
import logging
import logging.handlers
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


def _services(home: Path | None, workspace_name: str) -> Services:
    resolved = resolve_home(home, os.environ)
    resolved.create()
    _log_to(resolved)
    # Late: databases, cryptography and readers take a third of a second, and the window must show before.
    wiring = importlib.import_module("muniment_app.wiring")
    services: Services = wiring.build_services(resolved, workspace_name)
    return services


def _log_to(home: Home) -> None:
    """Send logs to a file that rotates; standard error stays for people."""
    handler = logging.handlers.RotatingFileHandler(
        home.logs / "muniment.log", maxBytes=LOG_BYTES, backupCount=3, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _launch_gui(home: Path | None, workspace_name: str, exit_when_ready: bool) -> int:
    """Open the window; one sentence instead when it cannot be opened here."""
    file = SettingsFile(resolve_home(home, os.environ).settings)
    translator = Translator(language_of(sys.argv[1:], os.environ, file.load().language))
    try:
        # Late and by name: the command line must work, and start fast, without Qt.
        window = importlib.import_module("muniment_app.ui.app")
    except ImportError as error:
        sentence = translator.error(KnownError("E-GUI-MISSING", name=error.name or "PySide6"))
        sys.stderr.write(f"{sentence} [E-GUI-MISSING]\n")
        return 1
    services = functools.partial(_services, home, workspace_name)
    code: int = window.run(services, translator, file, exit_when_ready=exit_when_ready)
    return code


def main(argv: Sequence[str]) -> int:
    """Run the command line; the entry point of the program proper."""
    stored = SettingsFile(resolve_home(None, os.environ).settings).load().language
    return run(argv, os.environ, _services, _launch_gui, stored)

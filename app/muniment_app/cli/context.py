"""What every command shares: services on demand, translated output, one place that turns errors into exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import click

from muniment_app.services.api import Services
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator

__all__ = ["Cli", "ExitCode", "GuiLauncher", "ServicesFactory", "json_option"]

ServicesFactory = Callable[[Path | None, str], Services]
"""Builds the services for (home folder or None for the default, workspace name)."""

GuiLauncher = Callable[[Path | None, str, bool], int]
"""Opens the window for (home folder or None, workspace name, whether to end as soon as it is ready)."""


class ExitCode(IntEnum):
    """Exit codes of the command-line contract."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    DEGRADED = 4
    AUDIT = 5
    NOTHING_FITS = 6


EXIT_BY_CODE: Mapping[str, ExitCode] = {
    "E-PLAN-NOTHING-FITS": ExitCode.NOTHING_FITS,
    "E-ASK-EMPTY": ExitCode.USAGE,
    "E-ASK-LONG": ExitCode.USAGE,
}


@dataclass
class Cli:
    """State of one command-line run.

    Attributes:
        translator: Language of everything people read.
        factory: Builds the services when a command first needs them.
        launch_gui: Opens the window; injected, because the command line may not import Qt.
        home, workspace: Values of the global options.
    """

    translator: Translator
    factory: ServicesFactory
    launch_gui: GuiLauncher
    home: Path | None = None
    workspace: str = "default"
    _services: Services | None = field(default=None, repr=False)

    @property
    def services(self) -> Services:
        """The services, built on first use."""
        if self._services is None:
            self._services = self.factory(self.home, self.workspace)
        return self._services

    def close(self) -> None:
        """Close the services in their own order."""
        if self._services is not None:
            self._services.close()
            self._services = None

    def text(self, key: str, /, **params: object) -> str:
        """Return a catalogue text of area ``cli``."""
        return self.translator.text(f"cli.{key}", **params)

    def say(self, text: str = "") -> None:
        """Print a line of the result for people."""
        click.echo(text)

    def note(self, text: str) -> None:
        """Print a line about the work, not the result: standard error."""
        click.echo(text, err=True)

    def progress(self, text: str) -> None:
        """Overwrite the progress line on a terminal; silent otherwise."""
        if sys.stderr.isatty():
            width = 100
            click.echo("\r" + text[:width].ljust(width), err=True, nl=False)

    def progress_done(self) -> None:
        """Clear the progress line."""
        if sys.stderr.isatty():
            click.echo("\r" + " " * 100 + "\r", err=True, nl=False)

    def emit(self, value: object) -> None:
        """Print the one JSON object of ``--json``."""
        click.echo(json.dumps(value, ensure_ascii=False))

    @contextmanager
    def guarded(self, as_json: bool = False) -> Iterator[None]:
        """Turn a known error into its sentence and exit code; close the services in any case."""
        try:
            yield
        except KnownError as error:
            self.progress_done()
            sentence = self.translator.error(error)
            if as_json:
                self.emit({"status": "error", "error": {"code": error.code, "message": sentence}})
            self.note(f"{sentence} [{error.code}]")
            raise SystemExit(int(EXIT_BY_CODE.get(error.code, ExitCode.ERROR))) from None
        except KeyboardInterrupt:
            self.progress_done()
            self.note(self.text("interrupted"))
            raise SystemExit(130) from None
        finally:
            self.close()


def json_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--json`` flag, the same on every command."""
    return click.option("--json", "as_json", is_flag=True, help=cli.text("help.json"))

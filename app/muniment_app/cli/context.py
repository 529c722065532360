"""What every command shares: services on demand, translated output, one place that turns errors into exit codes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

import click

from muniment_app.cli.report import log_bug
from muniment_app.cli.stop import Stop
from muniment_app.cli.table import fit, pad
from muniment_app.services.api import Services
from muniment_app.workspace.paths import resolve_home
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Profile

__all__ = ["Cli", "ExitCode", "GuiLauncher", "ServicesFactory", "json_option", "model_option", "profile_option"]

ServicesFactory = Callable[[Path | None, str], Services]
"""Builds the services for (home folder or None for the default, workspace name)."""

GuiLauncher = Callable[[Path | None, str, bool], int]
"""Opens the window for (home folder or None, workspace name, whether to end as soon as it is ready)."""


class ExitCode(IntEnum):
    """Exit codes of the command-line contract; the last two are 128 plus the number of the signal they stand for."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    DEGRADED = 4
    AUDIT = 5
    NOTHING_FITS = 6
    INTERRUPTED = 130
    PIPE_CLOSED = 141


EXIT_BY_CODE: Mapping[str, ExitCode] = {
    "E-PLAN-NOTHING-FITS": ExitCode.NOTHING_FITS,
    "E-ASK-EMPTY": ExitCode.USAGE,
    "E-ASK-LONG": ExitCode.USAGE,
    "E-ASK-CANCELLED": ExitCode.INTERRUPTED,
    "E-CANCELLED": ExitCode.INTERRUPTED,
    "E-QUANTIZE-TYPE": ExitCode.USAGE,
}


@dataclass
class Cli:
    """State of one command-line run.

    Attributes:
        translator: Language of everything people read.
        factory: Builds the services when a command first needs them.
        launch_gui: Opens the window; injected, because the command line may not import Qt.
        home, workspace: Values of the global options.
        environ: Environment, for the place of the log when no home is given.
    """

    translator: Translator
    factory: ServicesFactory
    launch_gui: GuiLauncher
    home: Path | None = None
    workspace: str = "default"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _emitted: bool = field(default=False, repr=False)
    _stop: Stop | None = field(default=None, repr=False)
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
        try:
            click.echo(text)
        except BrokenPipeError:
            self._leave_pipe()

    def note(self, text: str) -> None:
        """Print a line about the work, not the result: standard error. Nobody reading it is no reason to fail."""
        with suppress(BrokenPipeError):
            click.echo(text, err=True)

    def progress(self, text: str) -> None:
        """Overwrite the progress line on a terminal; silent otherwise."""
        if sys.stderr.isatty():
            width = self._line_cells()
            click.echo("\r" + pad(fit(text, width), width), err=True, nl=False)

    def progress_done(self) -> None:
        """Clear the progress line."""
        if sys.stderr.isatty():
            click.echo("\r" + " " * self._line_cells() + "\r", err=True, nl=False)

    def emit(self, value: object) -> None:
        """Print the one JSON object of ``--json``."""
        self._emitted = True
        self.say(json.dumps(value, ensure_ascii=False))

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], bool]]:
        """Let the first Ctrl-C only ask the work to stop: yields the ``cancelled`` callback of services."""
        if self._stop is None:
            self._stop = Stop(self.text("stopping"))
        with self._stop.listening():
            yield self._stop.asked

    @property
    def stopped(self) -> bool:
        """Whether the user asked to stop."""
        return self._stop is not None and self._stop.asked()

    def leave_if_stopped(self) -> None:
        """End the command when the user asked to stop and the work came back early without an error."""
        if self.stopped:
            raise KeyboardInterrupt

    @contextmanager
    def prompting(self) -> Iterator[None]:
        """Let Ctrl-C end a prompt inside ``stoppable``."""
        if self._stop is None:
            yield
        else:
            with self._stop.interruptible():
                yield

    @contextmanager
    def guarded(self, as_json: bool = False) -> Iterator[None]:
        """Close the services at the end, and turn what went wrong into one sentence and an exit code."""
        try:
            try:
                yield
            finally:
                self.close()
        except click.ClickException:
            raise
        except (KeyboardInterrupt, click.Abort, Exception) as error:  # the boundary: people get a sentence
            self.progress_done()
            raise SystemExit(int(self.explain(error, as_json))) from None

    def explain(self, error: BaseException, as_json: bool = False) -> ExitCode:
        """Say in one sentence why the command ended, and return its exit code.

        A known error has its sentence in the catalogue. Anything else is a bug: its place goes into the log file.
        """
        if isinstance(error, KeyboardInterrupt | click.Abort):
            self.note(self.text("interrupted"))
            return ExitCode.INTERRUPTED
        if not isinstance(error, KnownError):
            log_path = log_bug(error, resolve_home(self.home, self.environ))
            error = KnownError("E-BUG", type=type(error).__name__, log=str(log_path))
        sentence = self.translator.error(error)
        if as_json and not self._emitted:
            self.emit({"status": "error", "error": {"code": error.code, "message": sentence}})
        self.note(f"{sentence} [{error.code}]")
        return EXIT_BY_CODE.get(error.code, ExitCode.ERROR)

    def _line_cells(self) -> int:
        # One cell less than there is: a full line would make some terminals begin the next.
        return max(1, shutil.get_terminal_size().columns - 1)

    def _leave_pipe(self) -> NoReturn:
        """End quietly: whoever read the output, such as ``head``, has had enough."""
        # Nothing may fail at exit when the interpreter flushes what is left.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(int(ExitCode.PIPE_CLOSED))


def json_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--json`` flag, the same on every command."""
    return click.option("--json", "as_json", is_flag=True, help=cli.text("help.json"))


def profile_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--profile`` option of commands that plan."""
    return click.option(
        "--profile",
        type=click.Choice([profile.value for profile in Profile]),
        default=Profile.REALTIME.value,
        show_default=True,
        help=cli.text("help.profile"),
    )


def model_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--model`` option of commands that plan."""
    return click.option("--model", metavar="NAME", help=cli.text("help.model"))


def context_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--context`` option of commands that plan."""
    return click.option("--context", type=click.IntRange(min=256), help=cli.text("help.context"))


def override_option(cli: Cli) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The ``--override`` option of commands that plan."""
    return click.option("--override", is_flag=True, help=cli.text("help.override"))

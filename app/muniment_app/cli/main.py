"""Builds the command line in the user's language and runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from muniment_app import __version__
from muniment_app.cli import asking, audit, demo, doctor, documents, models, planning
from muniment_app.cli.context import Cli, GuiLauncher, ServicesFactory
from muniment_resources.i18n import LANGUAGES, Translator, detect_language

__all__ = ["build", "language_of", "run"]


def language_of(argv: Sequence[str], environ: Mapping[str, str], stored: str = "") -> str:
    """Return the language: ``--lang``, then the stored setting, then the locale of the environment.

    Looked up before the commands are built, because their help is translated too.
    """
    for position, argument in enumerate(argv):
        if argument == "--lang" and position + 1 < len(argv):
            return detect_language([argv[position + 1]])
        if argument.startswith("--lang="):
            return detect_language([argument.removeprefix("--lang=")])
    return detect_language(
        [environ.get("MUNIMENT_LANG"), stored, *(environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))]
    )


def build(cli: Cli) -> click.Group:
    """Return the root command."""

    @click.group(help=cli.text("help.root"), invoke_without_command=True)
    @click.option("--home", type=click.Path(path_type=Path, file_okay=False), help=cli.text("help.home"))
    @click.option("-w", "--workspace", default="default", help=cli.text("help.workspace"))
    @click.option("--lang", type=click.Choice(LANGUAGES), help=cli.text("help.lang"))
    @click.version_option(__version__, prog_name="muniment", help=cli.text("help.version"))
    @click.help_option("--help", "-h", help=cli.text("help.help"))
    @click.pass_context
    def root(context: click.Context, home: Path | None, workspace: str, lang: str | None) -> None:
        del lang  # already used to build these commands
        cli.home, cli.workspace = home, workspace
        if context.invoked_subcommand is None:
            context.invoke(gui, exit_when_ready=False)

    @root.command("gui", help=cli.text("help.gui"))
    # For measurements and self tests only, so it has no help text.
    @click.option("--exit-when-ready", is_flag=True, hidden=True)
    def gui(exit_when_ready: bool) -> None:
        raise SystemExit(cli.launch_gui(cli.home, cli.workspace, exit_when_ready))

    for module in (demo, documents, asking, planning, models, audit, doctor):
        module.register(root, cli)
    _explain_help(root, cli)
    return root


def _explain_help(group: click.Group, cli: Cli) -> None:
    """Give every command a help option in the user's language; click's own is English."""
    for command in group.commands.values():
        click.help_option("--help", "-h", help=cli.text("help.help"))(command)
        if isinstance(command, click.Group):
            _explain_help(command, cli)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    factory: ServicesFactory,
    launch_gui: GuiLauncher,
    stored_language: str = "",
) -> int:
    """Run one command and return its exit code."""
    cli = Cli(Translator(language_of(argv, environ, stored_language)), factory, launch_gui, environ=environ)
    try:
        build(cli).main(list(argv), prog_name="muniment", standalone_mode=True)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except Exception as error:  # the boundary: what no command guards, such as opening the window
        return int(cli.explain(error))

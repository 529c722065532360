"""docs/cli.md and the README name every command and option that the program has, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from muniment_app.cli.context import Cli
from muniment_app.cli.main import build
from muniment_app.services.api import Services
from muniment_resources.i18n import LANGUAGES, Translator

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "cli.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def _no_services(_home: Path | None, _workspace: str) -> Services:
    raise AssertionError("help needs no services")


def _root(language: str = "en") -> click.Group:
    return build(Cli(Translator(language), _no_services, lambda *_: 0))


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _options(command: click.Command) -> set[str]:
    shown = [item for item in command.params if isinstance(item, click.Option) and not item.hidden]
    return {name for item in shown for name in (*item.opts, *item.secondary_opts)}


def test_every_command_and_option_is_documented() -> None:
    missing: list[str] = []
    for path, command in _commands(_root()):
        name = " ".join(path)
        if path and not isinstance(command, click.Group) and f"## {name}" not in DOCS and f"`{name}" not in DOCS:
            missing.append(name)
        missing += [f"{name} {option}" for option in sorted(_options(command)) if option not in DOCS]
    assert missing == []


def test_documented_options_exist() -> None:
    existing = {option for _, command in _commands(_root()) for option in _options(command)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOCS)) - existing - {"--help"} == set()


def test_readme_lists_every_command() -> None:
    names = {path[0] for path, _ in _commands(_root()) if path}
    assert {name for name in names if f"`{name}" not in README} == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_command_explains_itself(language: str) -> None:
    silent = [path for path, command in _commands(_root(language)) if not command.help]
    silent += [
        (*path, option.name or "")
        for path, command in _commands(_root(language))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert silent == []

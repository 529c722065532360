"""Commands about models: list, add, import, requantize, verify, remove."""

from __future__ import annotations

from pathlib import Path

import click

from muniment_app.cli.context import Cli, ExitCode, json_option
from muniment_app.cli.table import columns
from muniment_app.services.api import ModelInfo
from muniment_app.services.serialize import model_json
from muniment_resources.units import format_bytes

__all__ = ["register", "show_bytes"]


def show_bytes(cli: Cli, name: str, done: int, total: int) -> None:
    """Show how much of a file is done."""
    percent = 100 * done // total if total else 0
    cli.progress(cli.text("bytes", name=name, done=format_bytes(done), total=format_bytes(total), percent=percent))


def _remark(cli: Cli, model: ModelInfo) -> str:
    if model.base is not None:
        return cli.text("model.made_from", quantization=model.quantization, base=model.base)
    return cli.text("model.starter") if model.starter else ""


def register(group: click.Group, cli: Cli) -> None:
    """Add the commands of this module."""

    @group.group("models", help=cli.text("help.models"))
    def models() -> None:
        pass

    @models.command("list", help=cli.text("help.models_list"))
    @json_option(cli)
    def list_command(as_json: bool) -> None:
        with cli.guarded(as_json):
            known = cli.services.models.list()
            if as_json:
                cli.emit({"models": [model_json(model) for model in known]})
                return
            rows = [
                (
                    cli.text("model.installed" if model.installed else "model.available"),
                    format_bytes(model.size_bytes),
                    model.model_id,
                    model.licence,
                    _remark(cli, model),
                )
                for model in known
            ]
            for line in columns(rows, right=(1,)):
                cli.say(line)

    @models.command("add", help=cli.text("help.models_add"))
    @click.argument("name")
    def add(name: str) -> None:
        with cli.guarded():
            with cli.stoppable() as cancelled:
                model = cli.services.models.add(name, lambda done, total: show_bytes(cli, name, done, total), cancelled)
            cli.progress_done()
            cli.say(cli.text("model.added", name=model.model_id, size=format_bytes(model.size_bytes)))

    @models.command("import", help=cli.text("help.models_import"))
    @click.argument("file", type=click.Path(path_type=Path))
    def import_command(file: Path) -> None:
        with cli.guarded():
            with cli.stoppable() as cancelled:
                model = cli.services.models.import_file(
                    file, lambda done, total: show_bytes(cli, file.name, done, total), cancelled
                )
            cli.progress_done()
            cli.say(cli.text("model.added", name=model.model_id, size=format_bytes(model.size_bytes)))

    @models.command("verify", help=cli.text("help.models_verify"))
    @click.argument("name", required=False)
    @json_option(cli)
    def verify(name: str | None, as_json: bool) -> None:
        with cli.guarded(as_json):
            result = cli.services.models.verify(name, lambda done, total: show_bytes(cli, name or "", done, total))
            cli.progress_done()
            if as_json:
                cli.emit({"models": result})
            else:
                for model_id, intact in result.items():
                    cli.say(cli.text("model.intact" if intact else "model.damaged", name=model_id))
        if not all(result.values()):
            raise SystemExit(int(ExitCode.ERROR))

    @models.command("remove", help=cli.text("help.models_remove"))
    @click.argument("name")
    def remove(name: str) -> None:
        with cli.guarded():
            cli.services.models.remove(name)
            cli.say(cli.text("model.removed", name=name))

    _register_requantize(models, cli)


def _register_requantize(models: click.Group, cli: Cli) -> None:
    @models.command("requantize", help=cli.text("help.models_requantize"))
    @click.argument("name")
    @click.argument("type_", metavar="TYPE")
    @json_option(cli)
    def requantize(name: str, type_: str, as_json: bool) -> None:
        with cli.guarded(as_json):
            with cli.stoppable() as cancelled:
                model = cli.services.models.requantize(
                    name, type_, lambda done, total: show_bytes(cli, name, done, total), cancelled
                )
            cli.progress_done()
            if as_json:
                cli.emit(model_json(model))
                return
            cli.say(
                cli.text(
                    "model.requantized",
                    name=model.model_id,
                    size=format_bytes(model.size_bytes),
                    quantization=model.quantization,
                )
            )
            asked = type_.strip().upper()
            if not model.quantization.startswith(f"{asked}-"):
                cli.say(cli.text("model.fell_back", made=model.quantization.partition("-")[0], asked=asked))

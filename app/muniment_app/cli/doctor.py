"""The doctor command: what this installation can do here, as facts."""

from __future__ import annotations

import sys

import click

from muniment_app import __version__
from muniment_app.cli.context import Cli, json_option
from muniment_app.cli.headroom import headroom_text
from muniment_app.cli.table import columns
from muniment_runtime.planner.serialize import headroom_json

__all__ = ["register"]


def _version(distribution: str) -> str | None:
    from importlib import metadata  # noqa: PLC0415  (see below)

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


CAGE_LAYERS = (
    "limits",
    "low_priority",
    "oom_preferred",
    "parent_death_signal",
    "audit_hook",
    "seccomp",
    "landlock_abi",
    "kernel_network",
    "kernel_writes",
)
"""Layers that a worker reports and that have a name in the catalogue."""


def cage_layer(cli: Cli, name: str) -> str:
    """Return a layer of the cage in words; one that is not known yet keeps its own name."""
    return cli.text(f"cage.{name}") if name in CAGE_LAYERS else name


def _state(cli: Cli, active: bool) -> str:
    return cli.text("doctor.on" if active else "doctor.off")


def register(group: click.Group, cli: Cli) -> None:
    """Add the command of this module."""

    @group.command("doctor", help=cli.text("help.doctor"))
    @json_option(cli)
    def doctor(as_json: bool) -> None:
        # Late: these take longer to load than any other command takes to print its help.
        import platform  # noqa: PLC0415

        from muniment_retrieval.store.database import sqlite_version  # noqa: PLC0415

        with cli.guarded(as_json):
            headroom = cli.services.plan.headroom()
            versions = {
                "muniment": __version__,
                "python": platform.python_version(),
                "sqlite": ".".join(map(str, sqlite_version())),
                "llama-cpp-python": _version("llama-cpp-python"),
                "pypdfium2": _version("pypdfium2"),
                "PySide6-Essentials": _version("PySide6-Essentials"),
            }
            sandbox = cli.services.pages.capabilities()
            installed = [model.model_id for model in cli.services.models.list() if model.installed]
            if as_json:
                cli.emit(
                    {
                        "versions": versions,
                        "system": sys.platform,
                        "headroom": headroom_json(headroom),
                        "sandbox": sandbox,
                        "models": installed,
                    }
                )
                return
            rows = [(name, version or cli.text("doctor.missing")) for name, version in versions.items()]
            for line in columns(rows):
                cli.say(line)
            cli.say()
            for line in headroom_text(headroom, cli.translator):
                cli.say(line)
            cli.say()
            cli.say(cli.text("doctor.sandbox"))
            for line in columns([(cage_layer(cli, name), _state(cli, active)) for name, active in sandbox.items()]):
                cli.say(f"    {line}")
            cli.say()
            cli.say(cli.text("doctor.models", names=", ".join(installed) or cli.text("doctor.none")))

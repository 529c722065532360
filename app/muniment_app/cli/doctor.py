"""The doctor command: what this installation can do here, as facts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from muniment_app import __version__
from muniment_app.cli.context import Cli, json_option
from muniment_app.cli.table import columns
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Headroom, Limit
from muniment_runtime.headroom.chain import signal_amount, split_name

__all__ = ["headroom_json", "headroom_text", "register"]

_INDENT = "  "


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


def headroom_json(headroom: Headroom) -> dict[str, object]:
    """Return the headroom with every limit, signal and device; ``binding`` names a limit."""
    return {
        "available_bytes": headroom.available_bytes,
        "limits": [{"name": limit.name, "bytes": limit.bytes} for limit in headroom.limits],
        "binding": headroom.binding,
        "pressure": headroom.pressure.value,
        "signals": [{"name": signal.name, "value": signal.value} for signal in headroom.signals],
        "devices": [{"name": limit.name, "bytes": limit.bytes} for limit in headroom.device_limits],
    }


def headroom_text(headroom: Headroom, translator: Translator) -> list[str]:
    """Return the headroom for people: the limit chain as a table, what the pressure is read from, devices."""
    text = translator.text
    available = format_bytes(headroom.available_bytes)
    lines = [text("cli.doctor.headroom", bytes=available)]
    lines += [_INDENT + line for line in _limit_table(headroom.limits, translator, headroom.binding)]
    key, detail = split_name(headroom.binding)
    lines.append(_INDENT + text(f"plan.binding.{key}", detail=detail, size=available))
    pressure = text(f"plan.pressure.{headroom.pressure.value}")
    rows = [
        (_label(translator, f"plan.signal.{item.name}", value=""), signal_amount(item)) for item in headroom.signals
    ]
    lines += ["", text("cli.doctor.signals" if rows else "cli.doctor.pressure", pressure=pressure)]
    lines += [_INDENT * 2 + line for line in columns(rows, right=(1,))]
    if headroom.device_limits:
        lines += ["", text("cli.doctor.devices")]
        lines += [_INDENT + line for line in _limit_table(headroom.device_limits, translator)]
    return lines


def _limit_table(limits: Sequence[Limit], translator: Translator, binding: str = "") -> list[str]:
    rows = []
    for limit in limits:
        key, detail = split_name(limit.name)
        mark = "*" if limit.name == binding else " "
        label = _label(translator, f"plan.limit.{key}", detail=detail, size="")
        rows.append((f"{mark} {label}", format_bytes(limit.bytes), f"{limit.bytes:,}"))
    return columns(rows, right=(1, 2))


def _label(translator: Translator, key: str, **params: str) -> str:
    # The catalogue's line ends with the amount; without it, what stands before is the label.
    return translator.text(key, **params).rstrip(" :：")


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

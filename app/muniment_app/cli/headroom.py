"""Headroom in the terminal: the limit chain as a table, signals and devices. Shared by ``doctor`` and ``plan``."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_app.cli.table import columns
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Headroom, Limit
from muniment_runtime.headroom.chain import signal_amount, split_name

__all__ = ["headroom_text", "label", "limit_table", "pressure_text"]

_INDENT = "  "


def headroom_text(headroom: Headroom, translator: Translator) -> list[str]:
    """Return the headroom for people: the limit chain as a table, what the pressure is read from, devices."""
    text = translator.text
    available = format_bytes(headroom.available_bytes)
    lines = [text("cli.doctor.headroom", bytes=available)]
    lines += [_INDENT + line for line in columns(limit_table(headroom.limits, translator, headroom.binding), (1, 2))]
    key, detail = split_name(headroom.binding)
    lines.append(_INDENT + text(f"plan.binding.{key}", detail=detail, size=available))
    lines += ["", *pressure_text(headroom, translator)]
    if headroom.device_limits:
        lines += ["", text("cli.doctor.devices")]
        lines += [_INDENT + line for line in columns(limit_table(headroom.device_limits, translator), (1, 2))]
    return lines


def pressure_text(headroom: Headroom, translator: Translator) -> list[str]:
    """Return the pressure level and the readings behind it."""
    pressure = translator.text(f"plan.pressure.{headroom.pressure.value}")
    rows = [(label(translator, f"plan.signal.{item.name}", value=""), signal_amount(item)) for item in headroom.signals]
    heading = translator.text("cli.doctor.signals" if rows else "cli.doctor.pressure", pressure=pressure)
    return [heading, *(_INDENT * 2 + line for line in columns(rows, right=(1,)))]


def limit_table(limits: Sequence[Limit], translator: Translator, binding: str = "") -> list[tuple[str, str, str]]:
    """Return a row for each limit: label, readable size, exact bytes; a star marks the binding one."""
    rows = []
    for limit in limits:
        key, detail = split_name(limit.name)
        mark = "*" if limit.name == binding else " "
        name = label(translator, f"plan.limit.{key}", detail=detail, size="")
        rows.append((f"{mark} {name}", format_bytes(limit.bytes), f"{limit.bytes:,}"))
    return rows


def label(translator: Translator, key: str, **params: str | int | float) -> str:
    """Return what stands before the amount in a line of the catalogue; the amount has its own column."""
    return translator.text(key, **params).rstrip(" :：.。")

"""Sizes as people read them, in every language alike."""

from __future__ import annotations

import re

__all__ = ["GIB", "KIB", "MIB", "format_bytes", "parse_bytes"]

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def format_bytes(size_bytes: int) -> str:
    """Return a size in binary units: ``812 B``, ``4.2 MiB``, ``512 MiB``, ``23.8 GiB``.

    One decimal below ten of a unit and for GiB, none otherwise: enough to compare, short enough for a table cell.
    A value that rounds up to 1024 of a unit is shown as one of the next.
    """
    sign = "-" if size_bytes < 0 else ""
    size = abs(size_bytes)
    if size < KIB:
        return f"{sign}{size} B"
    if size < MIB - KIB // 2:
        return f"{sign}{_scaled(size, KIB)} KiB"
    if size < GIB - MIB // 2:
        return f"{sign}{_scaled(size, MIB)} MiB"
    return f"{sign}{size / GIB:.1f} GiB"


def _scaled(size: int, unit: int) -> str:
    value = size / unit
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def parse_bytes(text: str) -> int | None:
    """Return the bytes of ``1500000000``, ``1500 MB``, ``1.5GiB`` or ``2g``; ``None`` for anything else.

    ``i`` means powers of 1024, as does a bare letter (``2g``); ``MB`` means powers of 1000. Fractions of a byte are
    dropped.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, unit, binary = match.groups()
    power = " kmgt".index(unit.lower() or " ")
    decimal = bool(unit) and not binary and text.strip().lower().endswith("b")
    return int(float(number) * (1000 if decimal else 1024) ** power)

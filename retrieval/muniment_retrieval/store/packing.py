"""Packs the lines of a page into a small blob and back. Pure.

Text is not stored again: a line is its length in the page text and its box. Coordinates are hundredths of a point
in 32-bit integers, deflated; boxes of neighbouring lines share most of their bytes.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence

from muniment_retrieval.model import Line

__all__ = ["pack_lines", "unpack_lines"]

_FIELDS = 6


def pack_lines(lines: Sequence[Line]) -> bytes:
    """Return start, end and box of each line."""
    values = array("i")
    for line in lines:
        values.append(line.start)
        values.append(line.end)
        values.extend(round(value * 100) for value in line.box)
    return zlib.compress(values.tobytes(), 3)


def unpack_lines(blob: bytes, text: str) -> tuple[Line, ...]:
    """Return the lines of a page with this text."""
    values = array("i")
    values.frombytes(zlib.decompress(blob))
    lines: list[Line] = []
    for index in range(0, len(values), _FIELDS):
        start, end, x0, y0, x1, y1 = values[index : index + _FIELDS]
        lines.append(Line(text[start:end], start, end, (x0 / 100, y0 / 100, x1 / 100, y1 / 100)))
    return tuple(lines)

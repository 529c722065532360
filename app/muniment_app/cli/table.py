"""Plain text in columns, aligned as a terminal shows it: a Chinese character takes two cells. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

__all__ = ["cells", "columns", "fit", "pad"]

GAP = "  "
_ELLIPSIS = "…"
_NO_CELL = frozenset({"Mn", "Me", "Cf", "Cc"})
"""Categories that take no cell: marks over another character, format characters and control characters."""


def _cell(character: str) -> int:
    if unicodedata.category(character) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cells(text: str) -> int:
    """Return how many cells of a terminal the text takes.

    Wide and fullwidth characters take two (Unicode Standard Annex 11); ambiguous ones take one, as terminals do unless
    told otherwise.
    """
    return sum(map(_cell, text))


def pad(text: str, width: int, right: bool = False) -> str:
    """Fill the text with spaces to ``width`` cells, on its left side when ``right``; longer text stays as it is."""
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def fit(text: str, width: int) -> str:
    """Return the text in at most ``width`` cells; an ellipsis stands for what was cut off."""
    if cells(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += _cell(character)
        if used > width - 1:
            break
        kept.append(character)
    return ("".join(kept) + _ELLIPSIS)[: max(0, width)]


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return one line per row, each column as wide as its widest text.

    Args:
        rows: Texts; every row has the same number. A heading is simply the first row.
        right: Numbers of the columns that are aligned on the right, from 0.

    Returns:
        Lines without spaces at the end.
    """
    if not rows:
        return []
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            pad(text, width, number in right) for number, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

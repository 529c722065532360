"""Finds the numbers and dates of a text in a form in which equal values are equal. Pure.

``(1,234)`` and ``-1,234`` are one value, ``１２`` and ``12`` too. A unit belongs to its number: ``3.5 million`` is not
``3.5 billion``. Nothing is converted: ``3.5 million`` and ``3,500,000`` differ, since the quote must carry the figure
as it was said. A unit may be missing on one side, as in tables whose head names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muniment_retrieval.normalise import Folded, fold_with_offsets

__all__ = ["Figure", "figures", "missing_figures"]

_MINUS = "\u2212\u2012\u2013\u2014\ufe63"
_UNITS = r"%|‰|percent(?:age points?)?|per cent|thousand|million|billion|trillion|bn|mn|万亿|亿|萬|億|万|千|百万"
_FIGURE = re.compile(
    rf"(?P<open>\()?\s?(?P<sign>(?<![\w)])[-{_MINUS}])?\s?(?:(?:[$€£¥]|us\$|rmb)\s?(?P<inner>[-{_MINUS}])?)?"
    rf"(?P<number>(?<![\d.])\d+(?:,\d+)*(?:\.\d+)*)\s?(?P<close>\))?\s?(?P<unit>{_UNITS})?(?P<late>\s?\))?"
)
_PERCENT = frozenset({"percent", "per cent"})


@dataclass(frozen=True)
class Figure:
    """A number with the unit that follows it; ``start``/``end`` are offsets in the raw text."""

    value: str
    unit: str
    negative: bool
    start: int
    end: int


def _plain(number: str) -> str:
    number = number.replace(",", "")
    if number.count(".") > 1:
        return number
    whole, dot, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (dot + fraction if fraction else "")


def figures(raw: str) -> list[Figure]:
    """Return the figures of a text, in order."""
    folded: Folded = fold_with_offsets(raw)
    found: list[Figure] = []
    for match in _FIGURE.finditer(folded.text):
        unit = match.group("unit") or ""
        closed = match.group("close") or match.group("late")
        # Brackets mean minus only around a bare amount; "(2017)" in prose is told apart by the caller's equality.
        negative = bool(match.group("sign") or match.group("inner") or (match.group("open") and closed))
        start = match.start("number")
        end = match.end("unit") if unit else match.end("number")
        found.append(
            Figure(
                _plain(match.group("number")),
                "%" if unit in _PERCENT else unit,
                negative,
                folded.starts[start],
                folded.ends[end - 1],
            )
        )
    return found


def _matches(wanted: Figure, there: Figure) -> bool:
    if wanted.value != there.value:
        return False
    # A unit may be left out in a table ("in millions" stands in its head), but never be another one.
    if wanted.unit and there.unit and wanted.unit != there.unit:
        return False
    # A loss of 5 is written (5): the sign may move into words, but a minus must not appear from nowhere.
    return there.negative or not wanted.negative


def missing_figures(claim: str, sources: Sequence[str]) -> list[Figure]:
    """Return the figures of ``claim`` that stand in none of the sources."""
    there = [figure for source in sources for figure in figures(source)]
    return [wanted for wanted in figures(claim) if not any(_matches(wanted, figure) for figure in there)]

"""Joins the text fragments of a page to visual lines. Pure.

PDFium hands out text in the order in which it was drawn and breaks it where the baseline moves. A table row whose
cells sit on slightly different baselines, or that was drawn column by column, comes out in pieces; a number is then
torn from the label that says what it is. Two rules mend that and leave columns of prose alone:

1. *Neighbours*: a fragment joins the one before it when both overlap vertically by at least half of the lower one's
   height and it stands to the right, unless a gutter parts them: both are prose (several words) and
   each continues on a line of its own directly below or above. Then they are lines of two columns.
2. *Number columns*: three or more fragments in a row that hold only figures, each below the one before, were drawn
   as a column. Each joins the earlier line of the same height that stands to its left. Words never move.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muniment_retrieval.model import Box

__all__ = ["SOFT_HYPHEN", "Fragment", "join_rows", "same_baseline", "union"]

SOFT_HYPHEN = "\u00ad"
"""Marks a word that was broken at a line end; the break may be removed when the text is compared."""

_FIGURES = re.compile(r"[\d\s.,:;()\[\]%$€£¥+\-–—−/*]+")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_MIN_COLUMN = 3


@dataclass(frozen=True)
class Fragment:
    """Text on one baseline with its box as shown; ``hyphen``: a word goes on in the next fragment."""

    text: str
    box: Box
    hyphen: bool = False


def same_baseline(first: Box, second: Box) -> bool:
    """Whether two boxes overlap vertically by at least half of the lower one's height."""
    height = min(first[3] - first[1], second[3] - second[1])
    shared = min(first[3], second[3]) - max(first[1], second[1])
    return height > 0 and shared >= 0.5 * height


def union(first: Box, second: Box) -> Box:
    """Return the smallest box that holds both."""
    return min(first[0], second[0]), min(first[1], second[1]), max(first[2], second[2]), max(first[3], second[3])


def _is_figures(text: str) -> bool:
    return _FIGURES.fullmatch(text) is not None and _DIGIT.search(text) is not None


def _is_prose(text: str) -> bool:
    letters = len(_LETTER.findall(text))
    return letters >= 20 and letters >= 0.6 * len(text)


def _continues(fragments: Sequence[Fragment], index: int, skip: int) -> bool:
    """Whether a prose line stands directly below or above fragment ``index``, at the same left edge."""
    box = fragments[index].box
    height = box[3] - box[1]
    for near in range(max(0, index - 3), min(len(fragments), index + 4)):
        if near in (index, skip):
            continue
        other = fragments[near].box
        gap = max(other[1] - box[3], box[1] - other[3])
        if (
            abs(other[0] - box[0]) <= height
            and -0.2 * height <= gap <= 1.5 * height
            and _is_prose(fragments[near].text)
        ):
            return True
    return False


def _parted_by_gutter(fragments: Sequence[Fragment], left: int, right: int) -> bool:
    if not (_is_prose(fragments[left].text) and _is_prose(fragments[right].text)):
        return False
    return _continues(fragments, left, right) and _continues(fragments, right, left)


def _separator(first: Fragment, gap: float) -> str:
    """A space between cells; none where one word or number was only drawn in pieces ("(848" and ")")."""
    height = first.box[3] - first.box[1]
    return "" if gap < 0.15 * height or first.text.endswith(" ") else " "


def _join(first: Fragment, second: Fragment) -> Fragment:
    if first.hyphen:
        text = first.text.removesuffix(SOFT_HYPHEN) + "-" + second.text
    else:
        text = first.text + _separator(first, second.box[0] - first.box[2]) + second.text.lstrip(" ")
    return Fragment(text, union(first.box, second.box), second.hyphen)


def _join_neighbours(fragments: Sequence[Fragment]) -> list[Fragment]:
    rows: list[Fragment] = []
    for index, fragment in enumerate(fragments):
        if rows:
            last = rows[-1]
            to_the_right = fragment.box[0] >= last.box[2] - 0.5 * (last.box[3] - last.box[1])
            if (
                to_the_right
                and same_baseline(last.box, fragment.box)
                and not _parted_by_gutter(fragments, index - 1, index)
            ):
                rows[-1] = _join(last, fragment)
                continue
        rows.append(fragment)
    return rows


def _column_runs(rows: Sequence[Fragment]) -> list[range]:
    """Return the index ranges of figures drawn one below the other."""
    runs: list[range] = []
    start = 0
    for index in range(1, len(rows) + 1):
        goes_on = (
            index < len(rows)
            and _is_figures(rows[index].text)
            and _is_figures(rows[index - 1].text)
            and rows[index].box[1] > rows[index - 1].box[1]
            and rows[index].box[0] < rows[index - 1].box[2]
            and rows[index].box[2] > rows[index - 1].box[0]
        )
        if not goes_on:
            if index - start >= _MIN_COLUMN and _is_figures(rows[start].text):
                runs.append(range(start, index))
            start = index
    return runs


def _join_number_columns(rows: list[Fragment]) -> list[Fragment]:
    joined: list[Fragment | None] = list(rows)
    for run in _column_runs(rows):
        targets: dict[int, int] = {}
        for index in run:
            for earlier in range(run.start - 1, -1, -1):
                target = joined[earlier]
                if (
                    target is not None
                    and target.box[2] <= rows[index].box[0]
                    and same_baseline(target.box, rows[index].box)
                ):
                    targets[index] = earlier
                    break
        # A column that mostly stands beside nothing is a list of its own.
        if len(targets) * 3 < len(run) * 2 or len(set(targets.values())) != len(targets):
            continue
        for index, earlier in targets.items():
            target = joined[earlier]
            if target is not None:
                joined[earlier] = _join(target, rows[index])
                joined[index] = None
    return [row for row in joined if row is not None]


def join_rows(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the visual lines of a page in reading order."""
    return _join_number_columns(_join_neighbours(fragments))

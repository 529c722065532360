"""Cuts pages into passages that are searched and cited as units. Pure.

Small passages (about 500 characters) serve small models best and keep a citation short. A passage never crosses a
page and is always a contiguous piece of the page text, so that its place on the page is known. What it loses by
being small (which document, which section, what the columns of a table mean) stands in its ``header``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from muniment_retrieval.model import Chunk, Line, PageText
from muniment_retrieval.normalise import has_cjk, readable

__all__ = ["TARGET_CHARS", "chunk_document", "chunk_page", "is_table_row", "repeated_lines", "telling_title"]

TARGET_CHARS = 480
"""Size at which a passage ends at the next good place, in Latin characters; a CJK character counts double."""

MAX_CHARS = 640
"""Size that a passage does not pass unless one sentence or line alone is longer."""

_MIN_PAGES_FOR_REPEATS = 4
_EDGE_LINES = 3
_MAX_HEADER = 240
_MAX_OVERLAP = 160
_WIDE = re.compile("[\u2e80-\U0010ffff]")
_LETTERS = re.compile(r"[^\W\d_]")
_DIGITS = re.compile(r"\d+")
_TELLING = re.compile(r"[^\W\d_]{3}|[\u4e00-\u9fff]{2}")
_NUMBER = re.compile(r"[(\-−$€£¥]*\d[\d,.]*[)%]*")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])[\"”’)]?\s+(?=[\"“‘(A-Z0-9])|(?<=[。！？；]))")
_ENUMERATION = re.compile(
    r"(?:item|part|note|section|article|chapter|schedule|appendix|exhibit)\s+[\divxab]+\b"
    r"|第[一二三四五六七八九十百零\d]+[章节條条部分]"
    r"|[（(]?[一二三四五六七八九十]{1,3}[）)、.．]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Unit:
    """The smallest piece: a table row or line, or a sentence (part) of a prose line."""

    start: int
    end: int
    size: int
    table: bool
    heading: bool
    sentence_end: bool
    paragraph_end: bool


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


def is_table_row(text: str) -> bool:
    """Whether a line reads like a row of a table: at least two numbers that make up a good part of its words."""
    words = text.split()
    numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
    return numbers >= 2 and numbers * 4 >= len(words)


def _is_heading(text: str) -> bool:
    text = readable(text).strip()
    if not 2 <= _size(text) <= 90 or text[-1] in ".,;:，。；：" or is_table_row(text):
        return False
    if _ENUMERATION.match(text):
        return True
    if has_cjk(text):
        return False
    words = [word for word in text.split() if word[0].isalpha()]
    letters = len(_LETTERS.findall(text))
    if not 1 <= len(words) <= 12 or letters < 0.7 * len(text):
        return False
    capitals = sum(word[0].isupper() for word in words if len(word) > 3)
    long_words = sum(len(word) > 3 for word in words)
    return text.isupper() or (long_words > 0 and capitals == long_words and text[0].isupper())


def _mask(text: str) -> str:
    return _DIGITS.sub("#", " ".join(text.split())).lower()


def _edge_lines(page: PageText) -> list[Line]:
    """Return the lines nearest to the top and the bottom of the page, wherever they stand in the text."""
    ordered = sorted(page.lines, key=lambda line: line.box[1])
    return ordered[:_EDGE_LINES] + ordered[_EDGE_LINES:][-_EDGE_LINES:]


def repeated_lines(pages: Iterable[PageText]) -> frozenset[str]:
    """Return running heads and feet: lines at a page's edge that recur, digits masked, on over half of the pages."""
    counts: Counter[str] = Counter()
    readable_pages = 0
    for page in pages:
        if page.lines:
            readable_pages += 1
            counts.update({_mask(line.text) for line in _edge_lines(page)})
    if readable_pages < _MIN_PAGES_FOR_REPEATS:
        return frozenset()
    return frozenset(text for text, count in counts.items() if count * 2 > readable_pages)


def _units(page: PageText, line: Line, next_line: Line | None) -> list[_Unit]:
    text = line.text
    table = is_table_row(text)
    heading = _is_heading(text)
    gap = (next_line.box[1] - line.box[3]) if next_line is not None else 0.0
    height = max(line.box[3] - line.box[1], 1.0)
    # A blank of more than one line height, or a jump back up to the next column, ends a paragraph.
    paragraph_end = next_line is None or gap > height or gap < -3 * height
    if table or heading:
        return [_Unit(line.start, line.end, _size(text), table, heading, True, paragraph_end)]
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(text) if 0 < match.end() < len(text)), len(text)]
    units: list[_Unit] = []
    for first, last in pairwise(cuts):
        final = last == len(text)
        ends = not final or text.rstrip().endswith((".", "!", "?", "。", "！", "？", "；", ":", "："))
        start, end = line.start + first, line.start + last
        piece = page.text[start:end]
        units.append(_Unit(start, end, _size(piece), False, False, ends, final and paragraph_end))
    return [part for unit in units for part in _split_long(unit, page.text)]


def _split_long(unit: _Unit, text: str) -> list[_Unit]:
    """Cut a unit that is longer than any passage may be, at blanks where there are some."""
    if unit.size <= MAX_CHARS:
        return [unit]
    parts: list[_Unit] = []
    start = unit.start
    step = TARGET_CHARS * (unit.end - unit.start) // unit.size
    while unit.end - start > step:
        blank = text.rfind(" ", start + step // 2, start + step)
        end = blank + 1 if blank >= 0 else start + step
        parts.append(_Unit(start, end, _size(text[start:end]), unit.table, False, False, False))
        start = end
    tail = _size(text[start : unit.end])
    parts.append(_Unit(start, unit.end, tail, unit.table, False, unit.sentence_end, unit.paragraph_end))
    return parts


def _best_cut(units: Sequence[_Unit]) -> int:
    """Return after how many units to cut: after a paragraph, row or sentence of the second half, else at the end."""
    half = sum(unit.size for unit in units) / 2
    best, best_rank = len(units), 0
    size = 0
    for index, unit in enumerate(units[:-1]):
        size += unit.size
        if size < half:
            continue
        following = units[index + 1]
        if unit.heading:
            rank = 0
        elif following.heading or unit.paragraph_end:
            rank = 3
        elif unit.table:
            rank = 1 if following.table else 2
        elif following.table:
            rank = 0  # a label and the figures that belong to it
        else:
            rank = 1 if unit.sentence_end else 0
        if rank and rank >= best_rank:
            best, best_rank = index + 1, rank
    if best_rank:
        return best
    # A heading belongs to what follows it.
    end = len(units)
    while end > 1 and units[end - 1].heading:
        end -= 1
    return end


def _pack(units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Group the units of one contiguous run into passages."""
    groups: list[list[_Unit]] = []
    pending: list[_Unit] = []
    size = 0
    for unit in units:
        if pending and size + unit.size > MAX_CHARS:
            cut = _best_cut(pending)
            groups.append(pending[:cut])
            pending = _overlap(pending[:cut]) + pending[cut:]
            size = sum(item.size for item in pending)
        pending.append(unit)
        size += unit.size
        if size >= TARGET_CHARS and (unit.paragraph_end or (unit.sentence_end and not unit.heading)):
            groups.append(pending)
            pending = []
            size = 0
    if pending:
        groups.append(pending)
    return groups


def _overlap(group: Sequence[_Unit]) -> list[_Unit]:
    """Repeat one short prose unit when the cut went through a sentence or paragraph."""
    last = group[-1]
    if len(group) > 1 and not last.table and not last.paragraph_end and last.size <= _MAX_OVERLAP:
        return [last]
    return []


def _runs(page: PageText, repeated: frozenset[str]) -> list[list[_Unit]]:
    """Return the units of the page, parted where a running head or foot was left out."""
    edges = {line.start for line in _edge_lines(page)}
    runs: list[list[_Unit]] = [[]]
    for index, line in enumerate(page.lines):
        if line.start in edges and _mask(line.text) in repeated:
            if runs[-1]:
                runs.append([])
            continue
        next_line = page.lines[index + 1] if index + 1 < len(page.lines) else None
        runs[-1].extend(_units(page, line, next_line))
    return [run for run in runs if run]


def _header(title: str, heading: str, columns: str) -> str:
    parts = [part for part in (title, heading, columns) if part]
    return " | ".join(parts)[:_MAX_HEADER]


def chunk_page(
    page: PageText, title: str, heading: str, repeated: frozenset[str], first_ordinal: int
) -> tuple[list[Chunk], str]:
    """Cut one page.

    Args:
        page: A readable page.
        title: Of the document.
        heading: The section that the page before ended in.
        repeated: Running heads and feet to leave out, from ``repeated_lines``.
        first_ordinal: Number of the first chunk within the document.

    Returns:
        The chunks, and the section in which the page ends.
    """
    chunks: list[Chunk] = []
    for run in _runs(page, repeated):
        columns: list[str] = []
        in_table = False
        for group in _pack(run):
            first = group[0]
            heading = _opening_heading(page.text, group) or heading
            # Column heads only where the table began in an earlier passage.
            heads = " / ".join(columns) if first.table and in_table else ""
            start, end = group[0].start, group[-1].end
            chunks.append(
                Chunk(
                    page.number,
                    first_ordinal + len(chunks),
                    _header(title, heading, heads),
                    page.text[start:end],
                    start,
                    end,
                )
            )
            before: list[str] = []
            for unit in group:
                text = " ".join(readable(page.text[unit.start : unit.end]).split())
                if unit.table and not in_table:
                    columns = before[-2:] + ([text] if _is_column_head(text) else [])
                elif unit.table and _is_column_head(text):
                    columns = [*columns[-2:], text]
                elif not unit.table and unit.size > _MAX_OVERLAP // 2:
                    columns = []
                in_table = unit.table or (in_table and unit.size <= _MAX_OVERLAP // 2)
                before.append(text[:100])
                if unit.heading:
                    heading = text
    return chunks, heading


def _opening_heading(text: str, group: Sequence[_Unit]) -> str:
    """Return the last heading among the first lines of a passage: it names the passage better than what came before."""
    found = ""
    for unit in group[:3]:
        if unit.heading:
            found = " ".join(readable(text[unit.start : unit.end]).split())
    return found


def _is_column_head(text: str) -> bool:
    """Whether a row of numbers names the columns: nothing but years, perhaps with a word or two."""
    numbers = [word for word in text.split() if _NUMBER.fullmatch(word)]
    return bool(numbers) and all(re.fullmatch(r"(?:19|20)\d\d", number.strip("()")) for number in numbers)


def telling_title(title: str, name: str) -> str:
    """Return what a document is called in the header of its passages.

    The title of the metadata, unless it is empty or only a number of the publisher's system, as in many filings;
    then the file name, with its separators as blanks: it often holds company, year and kind.
    """
    if _TELLING.search(title):
        return title
    return " ".join(re.split(r"[_\s]+", PurePath(name).stem)).strip()


def chunk_document(pages: Iterable[PageText], title: str, repeated: frozenset[str]) -> Iterator[Chunk]:
    """Yield the chunks of all readable pages in order, numbered through the document."""
    heading = ""
    ordinal = 0
    for page in pages:
        if page.error is None and page.lines:
            chunks, heading = chunk_page(page, title, heading, repeated, ordinal)
            ordinal += len(chunks)
            yield from chunks

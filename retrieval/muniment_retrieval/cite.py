"""Checks an answer against its evidence and locates the quote that proves it. Pure.

The model copies a line and then answers. Both are only claims: the line must be found in a passage that was shown,
the figures of the answer must stand in it, and document, page and boxes come from the index, never from the model.

Support of an answer:

* ``exact``: the copied line stands in the passage as it is (after folding) and holds every figure of the answer,
  and, for an answer without figures, all of its content words;
* ``strong``: the line is found with small differences (at least 90 % of its characters align, in order) or lacks
  nothing but words; every figure of the answer stands in the quote. Also: the answer says more than a bare figure,
  and all figures and at least 60 % of its words stand on exactly one other line of the evidence;
* ``partial``: the line is found but lacks words of the answer, or a figure stands only in the passage's header;
* ``none``: no such line, or a figure of the answer is missing from the quote.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muniment_retrieval.figures import figures, missing_figures
from muniment_retrieval.model import Box, Citation, Evidence, Line, Sentence, Support
from muniment_retrieval.normalise import Folded, cjk_terms, fold, fold_with_offsets, readable, tokens

__all__ = ["CheckedAnswer", "Quote", "check_answer", "find_quote", "split_sentences"]

MIN_ALIGNED = 0.9
_MIN_QUOTE = 3
_MIN_PART = 12
_RANK = {Support.NONE: 0, Support.PARTIAL: 1, Support.STRONG: 2, Support.EXACT: 3}
_STRONG_WORDS = 0.6
_MIN_CLAIM_WORDS = 2
_SKIPPED = re.compile(r"[\s\-\u00ad\u2010-\u2015\u2212|·•…_*`\"'“”‘’]+")
_LABEL = re.compile(r"^\s*\[\d{1,2}\]\s*|\s*\[\d{1,2}\]\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"“(A-Z0-9])|(?<=[。！？])|\n+")
_EMPTY_TEXT = "a an and are as at be by for from has have in is it its of on or that the this to was were which with"
_EMPTY_WORDS = frozenset(_EMPTY_TEXT.split())


@dataclass(frozen=True)
class Quote:
    """A found line: which evidence, where in its passage, and the text as it stands there."""

    evidence: Evidence
    start: int
    end: int
    text: str
    aligned: float


@dataclass(frozen=True)
class CheckedAnswer:
    """What may be shown: sentences with support, the citations, and whether the main claim is carried."""

    sentences: tuple[Sentence, ...]
    citations: tuple[Citation, ...]
    main_supported: bool


@dataclass(frozen=True)
class _Bare:
    """Folded text without blanks, hyphens and quotation marks, with the raw offsets of what is left."""

    text: str
    starts: list[int]
    ends: list[int]


def _bare(raw: str) -> _Bare:
    folded: Folded = fold_with_offsets(raw)
    keep = [index for index, character in enumerate(folded.text) if not _SKIPPED.match(character)]
    return _Bare(
        "".join(folded.text[index] for index in keep),
        [folded.starts[index] for index in keep],
        [folded.ends[index] for index in keep],
    )


def _locate(wanted: str, there: str) -> tuple[int, int, float] | None:
    """Return start, end and aligned share of ``wanted`` in ``there``; digits must agree one by one."""
    position = there.find(wanted)
    if position >= 0:
        return position, position + len(wanted), 1.0
    matcher = difflib.SequenceMatcher(None, there, wanted, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return None
    longest = max(blocks, key=lambda block: block.size)
    # Only the neighbourhood of the longest common piece: scattered letters of a page are no quote.
    slack = len(wanted) // 10 + 2
    low = max(0, longest.a - longest.b - slack)
    window = there[low : longest.a + len(wanted) - longest.b + slack]
    near = [
        block
        for block in difflib.SequenceMatcher(None, window, wanted, autojunk=False).get_matching_blocks()
        if block.size
    ]
    if not near:
        return None
    start, end = low + near[0].a, low + near[-1].a + near[-1].size
    # Against the longer side, so that what the model left out counts like what it made up.
    aligned = sum(block.size for block in near) / max(len(wanted), end - start)
    return (start, end, aligned) if aligned >= MIN_ALIGNED else None


def _widen(raw: str, start: int, end: int) -> tuple[int, int]:
    """Take in the rest of a word or number that was cut, so that 234 is never quoted out of 1,234."""
    while start > 0 and raw[start - 1] not in " \n\u00a0" and _joins(raw[start - 1], raw[start]):
        start -= 1
    while end < len(raw) and raw[end] not in " \n\u00a0" and _joins(raw[end - 1], raw[end]):
        end += 1
    return start, end


def _joins(left: str, right: str) -> bool:
    digits = (left.isdigit() or left in ".,") and (right.isdigit() or right in ".,%")
    words = left.isascii() and right.isascii() and left.isalpha() and right.isalpha()
    return (digits and (left.isdigit() or right.isdigit())) or words


def find_quote(untrusted_line: str, evidence: Sequence[Evidence]) -> Quote | None:
    """Find a line that the model copied in the passages it was shown; the best alignment wins, then the order.

    Figures must agree exactly: a line that aligns well but holds another number is not that line.
    """
    wanted = _bare(_LABEL.sub("", untrusted_line)).text
    if len(wanted) < _MIN_QUOTE:
        return None
    best: Quote | None = None
    for item in evidence:
        if not item.used:
            continue
        raw = item.passage.text
        there = _bare(raw)
        found = _locate(wanted, there.text)
        if found is None or (best is not None and found[2] <= best.aligned):
            continue
        start, end = _widen(raw, there.starts[found[0]], there.ends[found[1] - 1])
        if missing_figures(_LABEL.sub("", untrusted_line), [raw[start:end]]):
            continue
        best = Quote(item, start, end, raw[start:end], found[2])
        if found[2] == 1.0:
            break
    return best


def _quotes(untrusted_line: str, evidence: Sequence[Evidence]) -> list[Quote]:
    """Return where the copied line stands; where it stands nowhere as a whole, the sentences of it that do.

    Small models join a heading to a sentence, or two sentences, and copy each of them faithfully.
    """
    whole = find_quote(untrusted_line, evidence)
    if whole is not None:
        return [whole]
    parts = (part for part in split_sentences(untrusted_line) if len(part) >= _MIN_PART)
    return [quote for part in parts if (quote := find_quote(part, evidence)) is not None]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of an answer."""
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]


def _content(text: str) -> set[str]:
    folded = fold(text)
    words = {word for word in tokens(folded) if word not in _EMPTY_WORDS and not word[0].isdigit()}
    return words | set(cjk_terms(folded))


def _word_share(claim: str, source: str) -> float:
    wanted = _content(claim)
    return len(wanted & _content(source)) / len(wanted) if wanted else 1.0


def _grade(claim: str, quote: Quote) -> Support:
    context = f"{quote.evidence.passage.header}\n{quote.text}"
    if missing_figures(claim, [quote.text]) and missing_figures(claim, [context]):
        return Support.NONE
    in_quote = not missing_figures(claim, [quote.text])
    share = _word_share(claim, context)
    if figures(claim):
        if not in_quote:
            # A year that stands only in the head of the table: carried by the page, not by the quote.
            return Support.PARTIAL
        return Support.EXACT if quote.aligned == 1.0 else Support.STRONG
    if share >= 1.0:
        return Support.EXACT if quote.aligned == 1.0 else Support.STRONG
    if share >= _STRONG_WORDS:
        return Support.STRONG
    return Support.PARTIAL if share > 0 else Support.NONE


def _fallback(claim: str, evidence: Sequence[Evidence]) -> tuple[Quote, Support] | None:
    """Look for the one line of the evidence that holds all figures and most words of a claim.

    A claim of less than two words proves nothing this way: a bare figure stands somewhere on many pages, and the
    line that the model copied for it says what it is the figure of.
    """
    found: list[tuple[Quote, float]] = []
    numbers = figures(claim)
    if len(_content(claim)) < _MIN_CLAIM_WORDS:
        return None
    for item in evidence:
        if not item.used:
            continue
        position = 0
        for line in item.passage.text.split("\n"):
            start, position = position, position + len(line) + 1
            share = _word_share(claim, line)
            if numbers and missing_figures(claim, [line]):
                continue
            if share < (_STRONG_WORDS if numbers else 1.0):
                continue
            found.append((Quote(item, start, start + len(line), line, 0.0), share))
    places = {(quote.evidence.passage.document_id, quote.evidence.passage.page, quote.text) for quote, _ in found}
    if len(places) != 1:
        return None
    return found[0][0], Support.STRONG


def _boxes(quote: Quote, lines: Sequence[Line]) -> tuple[Box, ...]:
    start = quote.evidence.passage.start + quote.start
    end = quote.evidence.passage.start + quote.end
    return tuple(line.box for line in lines if line.start < end and line.end > start)


def check_answer(
    untrusted_line: str,
    untrusted_answer: str,
    evidence: Sequence[Evidence],
    lines_of: Callable[[int], Sequence[Line]],
) -> CheckedAnswer:
    """Check the two fields of the model's reply.

    Args:
        untrusted_line: The line that the model says it copied; may be empty.
        untrusted_answer: Its answer.
        evidence: What it was shown.
        lines_of: Lines of a passage by chunk id, with page offsets (``Library.chunk_lines``).

    Returns:
        Each sentence with its support. ``main_supported`` is the support of the first sentence that makes a
        claim: at least partial, and no figure of it missing from the cited text.
    """
    quotes = _quotes(untrusted_line, evidence)
    sentences: list[Sentence] = []
    citations: list[Citation] = []
    numbers: dict[tuple[int, int, int], int] = {}
    for text in split_sentences(untrusted_answer):
        claim = re.sub(r"\[\d{1,2}\]", "", text)
        graded = max(((quote, _grade(claim, quote)) for quote in quotes), key=lambda pair: _RANK[pair[1]], default=None)
        if graded is None or graded[1] is Support.NONE:
            graded = _fallback(claim, evidence) or graded
        if graded is None or graded[1] is Support.NONE:
            sentences.append(Sentence(text, Support.NONE, ()))
            continue
        place, support = graded
        key = (place.evidence.n, place.start, place.end)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            passage = place.evidence.passage
            boxes = _boxes(place, lines_of(passage.chunk_id))
            shown = " ".join(readable(place.text).split())
            citations.append(
                Citation(
                    numbers[key],
                    passage.document_id,
                    passage.document,
                    passage.page,
                    shown,
                    boxes,
                    support,
                    place.evidence.n,
                )
            )
        sentences.append(Sentence(text, support, (numbers[key],)))
    main = bool(sentences) and sentences[0].support is not Support.NONE
    return CheckedAnswer(tuple(sentences), tuple(citations), main)

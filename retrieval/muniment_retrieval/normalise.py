"""Brings text to the form in which it is compared and searched. Pure.

Raw text is what the page shows and what is quoted. Its folded form has one code point per meaning: compatibility
forms (full width, ligatures, Kangxi radicals) by NFKC, no line-end hyphens, one blank between words, none between
Chinese or Japanese characters, no case. ``fold_with_offsets`` also says where each folded character came from.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

__all__ = ["Folded", "cjk_terms", "fold", "fold_with_offsets", "has_cjk", "readable", "tokens"]

# Han (with extensions and compatibility forms), kana. Hangul is written with blanks and is tokenised as words.
_CJK = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_MARKS = "\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
_HYPHEN_BREAK = re.compile("[\u00ad\ufffe][ \u00a0]*\n?[ \u00a0]*")
_BLANKS = re.compile(r"\s+")
_CJK_GAP = re.compile(f"(?<=[{_CJK}{_CJK_MARKS}])\\s+(?=[{_CJK}{_CJK_MARKS}])")
_CJK_RUN = re.compile(f"[{_CJK}]+")
# A number with its thousands separators and fraction, a run of Chinese or Japanese, or a word.
_TOKEN = re.compile(f"\\d+(?:[.,]\\d+)*|[{_CJK}]+|[^\\W\\d_{_CJK}]+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ASCII_SPACE = re.compile(r"[\t\n\x0b\x0c\r\x1c-\x1f ]+")


@dataclass(frozen=True)
class Folded:
    """Folded text; character ``i`` of it came from ``raw[starts[i]:ends[i]]``."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def readable(raw: str) -> str:
    """Return text as a person would type it: line-end hyphens and non-breaking blanks resolved, lines kept."""
    return _HYPHEN_BREAK.sub("", raw).replace("\u00a0", " ").replace("\u202f", " ")


def has_cjk(text: str) -> bool:
    """Whether the text holds a Chinese or Japanese character."""
    return _CJK_RUN.search(text) is not None


def fold(raw: str) -> str:
    """Return the folded form."""
    if raw.isascii():
        return _ASCII_SPACE.sub(" ", raw).strip().lower()
    return fold_with_offsets(raw).text if _needs_clusters(raw) else _fold_fast(raw)


def _needs_clusters(raw: str) -> bool:
    """Whether NFKC may act across characters, so that only the slow way is certain to agree with the offsets."""
    return any(unicodedata.combining(character) or "\u1100" <= character <= "\u11ff" for character in set(raw))


def _fold_fast(raw: str) -> str:
    text = _CJK_GAP.sub("", _HYPHEN_BREAK.sub("", raw))
    text = unicodedata.normalize("NFKC", text).casefold()
    return _CJK_GAP.sub("", _BLANKS.sub(" ", text)).strip()


def _clusters(raw: str) -> list[tuple[int, int]]:
    """Split into base characters with the combining marks that follow them."""
    spans: list[tuple[int, int]] = []
    for index, character in enumerate(raw):
        if spans and unicodedata.combining(character):
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return spans


def fold_with_offsets(raw: str) -> Folded:
    """Return the folded form with the origin of each character."""
    dropped = bytearray(len(raw))
    for pattern in (_HYPHEN_BREAK, _CJK_GAP):
        for match in pattern.finditer(raw):
            dropped[match.start() : match.end()] = b"\x01" * (match.end() - match.start())
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(raw):
        if dropped[start]:
            continue
        for character in unicodedata.normalize("NFKC", raw[start:end]).casefold():
            if character.isspace():
                if not characters:
                    continue
                if characters[-1] == " ":
                    ends[-1] = end
                    continue
                character = " "  # noqa: PLW2901 - the folded form of every blank
            characters.append(character)
            starts.append(start)
            ends.append(end)
    text = "".join(characters)
    gaps = {index for match in _CJK_GAP.finditer(text) for index in range(match.start(), match.end())}
    if text.endswith(" "):
        gaps.add(len(text) - 1)
    if gaps:
        keep = [index for index in range(len(text)) if index not in gaps]
        text = "".join(text[index] for index in keep)
        starts = [starts[index] for index in keep]
        ends = [ends[index] for index in keep]
    return Folded(text, tuple(starts), tuple(ends))


def tokens(folded: str) -> list[str]:
    """Return words and numbers of folded text, in order; Chinese and Japanese runs are left to ``cjk_terms``.

    ``1,234.5`` gives ``1234.5`` and, for those who search without the fraction, ``1234``.
    """
    found: list[str] = []
    for match in _TOKEN.finditer(folded):
        token = match.group()
        if token[0].isdigit():
            found.extend(_number_tokens(token))
        elif not _CJK_RUN.match(token):
            found.append(token)
    return found


def _number_tokens(token: str) -> list[str]:
    if _THOUSANDS.fullmatch(token):
        joined = token.replace(",", "")
    elif "," in token or token.count(".") > 1:
        return re.split(r"[.,]", token)
    else:
        joined = token
    return [joined, joined.partition(".")[0]] if "." in joined else [joined]


def cjk_terms(folded: str) -> list[str]:
    """Return the character bigrams of each Chinese or Japanese run; a character that stands alone is kept."""
    found: list[str] = []
    for match in _CJK_RUN.finditer(folded):
        run = match.group()
        if len(run) == 1:
            found.append(run)
        else:
            found.extend(run[index : index + 2] for index in range(len(run) - 1))
    return found

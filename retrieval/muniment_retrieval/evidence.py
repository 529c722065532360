"""Chooses which passages the model sees, within the token budget of the plan. Pure.

Passages are never cut: one that does not fit is left out and counted. A passage that says nearly the same as one
before it is left out as well, because two copies cost twice and prove nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muniment_retrieval.model import Evidence, Passage
from muniment_retrieval.normalise import fold, readable

__all__ = ["MAX_PASSAGES", "left_out", "pack", "render"]

MAX_PASSAGES = 8
_DUPLICATE = 0.9
_SHINGLE = 8

CountTokens = Callable[[Sequence[str]], list[int]]


def _shingles(text: str) -> frozenset[str]:
    folded = "".join(fold(text).split())
    return frozenset(folded[index : index + _SHINGLE] for index in range(max(1, len(folded) - _SHINGLE + 1)))


def _body(passage: Passage, header: bool) -> str:
    text = readable(passage.text).strip()
    return f"{passage.header}\n{text}" if header and passage.header else text


def render(n: int, text: str) -> str:
    """Return one numbered piece of evidence as it stands in the prompt."""
    return f"[{n}] {text}\n"


def pack(
    passages: Sequence[Passage], budget_tokens: int, count_tokens: CountTokens, limit: int = MAX_PASSAGES
) -> list[Evidence]:
    """Number the passages that fit, best first; the rest come after them, unused.

    The header is shown with the first passage of a document and again where it says something else (another
    section, other column heads).

    Args:
        passages: Best first.
        budget_tokens: For all evidence together, numbers included.
        count_tokens: Counts tokens of several texts at once, as the model will see them.
        limit: Most passages that are used.

    Returns:
        All passages as evidence: used ones in order of their numbers, then those left out.
    """
    seen: list[frozenset[str]] = []
    shown: set[tuple[str, str]] = set()
    used: list[Evidence] = []
    unused: list[Evidence] = []
    # Two counts in one call each: with and without header; the number costs the same for each of 1..9.
    plain = [_body(passage, header=False) for passage in passages]
    headed = [_body(passage, header=True) for passage in passages]
    counts = count_tokens([render(9, text) for text in plain + headed]) if passages else []
    left = budget_tokens
    for index, passage in enumerate(passages):
        first = (passage.document_id, passage.header) not in shown
        text = headed[index] if first else plain[index]
        tokens = counts[len(plain) + index] if first else counts[index]
        shingles = _shingles(passage.text)
        twin = any(len(shingles & other) >= _DUPLICATE * min(len(shingles), len(other)) for other in seen)
        if twin or len(used) >= limit or tokens > left:
            unused.append(Evidence(0, passage, text, tokens, used=False))
            continue
        left -= tokens
        seen.append(shingles)
        shown.add((passage.document_id, passage.header))
        used.append(Evidence(len(used) + 1, passage, text, tokens, used=True))
    return used + unused


def left_out(evidence: Sequence[Evidence]) -> int:
    """Return how many passages the model does not see."""
    return sum(not item.used for item in evidence)

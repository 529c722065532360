"""When the program abstains although the model has answered. Pure rules over question, answer and cited text.

The model is not asked whether the passages suffice: small models give up on good evidence and answer from bad one.
Two signs are certain enough to decide without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from muniment_retrieval.figures import figures, missing_figures
from muniment_retrieval.normalise import cjk_terms, fold, tokens

__all__ = ["Abstention", "judge", "names_what_is_asked"]

_CHOICE = re.compile(r"\bor\b|还是|或者", re.IGNORECASE)
_EMPTY_TEXT = "a an and are as at be by for from has have in is it its of on or that the to was were"
_EMPTY_WORDS = frozenset(_EMPTY_TEXT.split())


_MOST = 0.75


class Abstention(StrEnum):
    """Why an answer is not given.

    ``FIGURES``: a year, amount or number of the question stands nowhere near the quote: it is about another one.
    ``ECHO``: the answer says only what the question said.
    """

    FIGURES = "figures"
    ECHO = "echo"


def _words(text: str) -> set[str]:
    folded = fold(text)
    return {word for word in tokens(folded) if word not in _EMPTY_WORDS} | set(cjk_terms(folded))


def names_what_is_asked(question: str, quote: str) -> bool:
    """Whether most words of a quoted line stand in the question: then the line itself is an answer.

    ``Net income 3,033 10,073 11,588`` answers a question about net income in the document's own words, also where
    the model has garbled the figure that it took from the row. A line about something else does not.
    """
    words = {word for word in _words(quote) if not word[0].isdigit()}
    return bool(words) and len(words & _words(question)) >= _MOST * len(words)


def judge(question: str, untrusted_answer: str, sources: Sequence[str]) -> Abstention | None:
    """Return why the answer must not be given, or ``None``.

    Args:
        question: The user's words.
        untrusted_answer: The answer, already found to be carried by its quotes.
        sources: Text that tells what the quotes are about: passages with their headers, names of the documents.
    """
    if missing_figures(question, sources):
        return Abstention.FIGURES
    said = _words(untrusted_answer)
    if not figures(untrusted_answer) and not _CHOICE.search(question) and said <= _words(question):
        return Abstention.ECHO
    return None

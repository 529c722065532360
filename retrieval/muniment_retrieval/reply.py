"""Splits the model's reply into its two fields: the copied line and the answer. Pure; nothing is believed yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ModelReply", "parse_reply", "question_language"]

_ANSWER = re.compile(r"(?:^|\n|\s)\s*(?:\*\*)?(?:Answer|ANSWER|答案|回答)(?:\*\*)?\s*[:：]\s*")
_LINE = re.compile(r"^\s*(?:\*\*)?(?:Line|LINE|原文)(?:\*\*)?\s*[:：]\s*")
_NUMBERED = re.compile(r"^\s*(?:Passage\s*)?\[(\d{1,3})\]\s*[:：]?\s*")
_QUOTES = "\"'“”‘’«»「」『』`*"
_CJK = re.compile(r"[㐀-䶿一-鿿豈-﫿]")


@dataclass(frozen=True)
class ModelReply:
    """The two fields as the model wrote them, trimmed of labels and quotation marks.

    Attributes:
        untrusted_line: The line it claims to have copied; may be empty.
        untrusted_answer: Its answer; empty when it gave none.
    """

    untrusted_line: str
    untrusted_answer: str


def _strip(text: str) -> str:
    text = _NUMBERED.sub("", text.strip())
    return text.strip().strip(_QUOTES).strip()


def parse_reply(untrusted_text: str) -> ModelReply:
    """Return the fields of a reply that may or may not keep to the asked form.

    Without an answer label the whole text is taken as the copied line, and the answer is empty.
    """
    body = _LINE.sub("", untrusted_text.strip(), count=1)
    parts = _ANSWER.split(f"\n{body}", maxsplit=1)
    line = _strip(parts[0])
    answer = ""
    if len(parts) > 1:
        # Small models go on with a second round of fields; only the first is the answer.
        answer = re.split(r"\n\s*(?:Line|LINE|原文|Question|问题)\s*[:：]|\n\s*\n", parts[1], maxsplit=1)[0]
    return ModelReply(untrusted_line=line, untrusted_answer=_strip(answer))


def question_language(question: str) -> str:
    """Return ``zh`` when the question is mostly Chinese, else ``en``: the answer follows the question."""
    letters = sum(character.isalpha() for character in question)
    chinese = len(_CJK.findall(question))
    return "zh" if letters and chinese * 3 >= letters else "en"

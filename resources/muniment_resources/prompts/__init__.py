"""The prompts, one file per task, with a section per language of the question."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from importlib import resources

__all__ = ["AnswerPrompt", "answer_prompt"]


@dataclass(frozen=True)
class AnswerPrompt:
    """Texts of the answer prompt.

    Attributes:
        system: The system turn.
        user: The user turn with the placeholders ``{question}`` and ``{passages}``.
        reply: Start of the reply that the model continues.
        quote_end: Ends the copied line.
        answer: What is written after it, so that the model fills in the answer.
        sha256: Of the file: names the version of the prompt in the audit log.
    """

    system: str
    user: str
    reply: str
    answer: str
    quote_end: str
    sha256: str


def answer_prompt(language: str) -> AnswerPrompt:
    """Return the answer prompt for a question in ``language`` (``zh`` or anything else for English)."""
    raw = (resources.files("muniment_resources") / "prompts" / "answer.toml").read_bytes()
    section = tomllib.loads(raw.decode("utf-8"))["zh" if language.startswith("zh") else "en"]
    return AnswerPrompt(**section, sha256=hashlib.sha256(raw).hexdigest())

"""Renders the answer prompt for a model: reviewed template round untrusted text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from muniment_resources.prompts import answer_prompt
from muniment_retrieval.evidence import render
from muniment_retrieval.model import Evidence
from muniment_retrieval.reply import question_language
from muniment_runtime.contracts import Segment
from muniment_runtime.engine.templates import Speaker, Turn, load_template

__all__ = ["RenderedPrompt", "render_answer_prompt"]


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt ready for the engine.

    Attributes:
        segments: Control text is trusted; question and passages are not.
        reply_start: What the reply already begins with; put before the model's words when they are read.
        sha256: Hash over the chat template and the prompt file, for the audit log.
    """

    segments: tuple[Segment, ...]
    reply_start: str
    sha256: str


def render_answer_prompt(template: str, question: str, evidence: Sequence[Evidence]) -> RenderedPrompt:
    """Return the prompt for a question over numbered evidence, in the language of the question.

    Args:
        template: Key of the reviewed chat template of the model.
        question: The user's words; tokenised with special tokens off.
        evidence: Passages in the order in which the model shall read them; unused ones are skipped.
    """
    prompt = answer_prompt(question_language(question))
    user = prompt.user.format(
        question=question, passages="\n".join(render(item.n, item.text) for item in evidence if item.used)
    )
    chat = load_template(template)
    segments = chat.render((Turn(Speaker.SYSTEM, prompt.system), Turn(Speaker.USER, user)), prompt.reply)
    digest = hashlib.sha256(f"{chat.sha256}{prompt.sha256}".encode()).hexdigest()
    return RenderedPrompt(segments, prompt.reply, digest)

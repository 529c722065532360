"""Renders the answer prompt for a model: reviewed template round untrusted text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from muniment_resources.prompts import answer_prompt
from muniment_retrieval.evidence import render
from muniment_retrieval.model import Evidence, Passage
from muniment_retrieval.reply import question_language
from muniment_runtime.contracts import GenerateRequest, NextField
from muniment_runtime.engine.templates import Speaker, Turn, load_template
from muniment_runtime.planner.demand import Demand, demand_of

__all__ = ["MAX_QUOTE_TOKENS", "MIN_EVIDENCE_TOKENS", "RenderedPrompt", "demand_for", "render_answer_prompt"]


MAX_QUOTE_TOKENS = 96
"""A printed line with figures takes about 40 tokens; a longer copy proves nothing more."""
MIN_EVIDENCE_TOKENS = 256
"""Below this a context cannot hold even one passage beside the question."""
LEAST_PASSAGES = 3
"""Fewer passages miss the right page too often: a smaller model that reads more is the better choice then."""
_TEMPLATE_TOKENS = 32
"""Marks of a chat template round two turns."""


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt ready for the engine.

    Attributes:
        request: Control text is trusted; question and passages are not.
        reply_start: What the reply already begins with; put before the model's words when they are read.
        sha256: Hash over the chat template and the prompt file, for the audit log.
    """

    request: GenerateRequest
    reply_start: str
    sha256: str


def render_answer_prompt(template: str, question: str, evidence: Sequence[Evidence], max_tokens: int) -> RenderedPrompt:
    """Return the request for a question over numbered evidence, in the language of the question.

    Args:
        template: Key of the reviewed chat template of the model.
        question: The user's words; tokenised with special tokens off.
        evidence: Passages in the order in which the model shall read them; unused ones are skipped.
        max_tokens: Longest answer; the copied line has its own limit.
    """
    prompt = answer_prompt(question_language(question))
    passages = "\n".join(render(item.n, item.text) for item in evidence if item.used)
    # One pass over the template: braces in a question or a passage stay what they are.
    user = prompt.user.format(question=question, passages=passages)
    chat = load_template(template)
    segments = chat.render((Turn(Speaker.SYSTEM, prompt.system), Turn(Speaker.USER, user)), prompt.reply)
    request = GenerateRequest(
        segments,
        max_tokens=MAX_QUOTE_TOKENS,
        stop=(prompt.quote_end, "\n"),
        fields=(NextField(prompt.answer, max_tokens, ("\n",)),),
    )
    digest = hashlib.sha256(f"{chat.sha256}{prompt.sha256}".encode()).hexdigest()
    return RenderedPrompt(request, prompt.reply, digest)


def demand_for(question: str, passages: Sequence[Passage], max_tokens: int, cap_tokens: int) -> Demand:
    """Return how much context a question needs, estimated before a model and its tokenizer are chosen.

    Args:
        question: The user's words.
        passages: The evidence that the profile would read, best first.
        max_tokens: Longest answer.
        cap_tokens: The most context that the profile takes.
    """
    prompt = answer_prompt(question_language(question))
    fixed = (prompt.system, prompt.user.format(question=question, passages=""), prompt.reply, prompt.answer)
    texts = [f"{passage.header}\n{passage.text}" for passage in passages]
    written = MAX_QUOTE_TOKENS + max_tokens + _TEMPLATE_TOKENS
    return demand_of(fixed, texts, written, cap_tokens, LEAST_PASSAGES)

"""How much context a task needs: instructions, evidence, question and answer. Pure.

Before a model is chosen there is no tokenizer, so tokens are estimated from characters, on the safe side: a context
that turns out a little larger than needed costs a few MiB, one that is too small costs a passage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from muniment_runtime.planner.need import CONTEXT_STEP, padded

__all__ = ["CONTEXTS", "Demand", "context_for", "demand_of", "tokens_estimate"]

CONTEXTS = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304, 131072)
"""Contexts that plans use. Steps, not exact sizes: a question that needs a little more than the one before then finds
the loaded model large enough.
"""

# Measured on 1,075 pieces of 450 characters from 30 English reports with the vocabularies of Qwen 2.5, SmolLM2 and
# Gemma 3: 4.9 characters a token at the median, 2.4 at the 5th percentile (tables of figures). Chinese, on few pages:
# 1.5 at the median, 1.3 at the least with vocabularies that know the language.
_CHARACTERS_PER_TOKEN = 2.4
_IDEOGRAPHS_PER_TOKEN = 1.3
_FIRST_IDEOGRAPH = 0x2E80


@dataclass(frozen=True)
class Demand:
    """Tokens of one sequence.

    Attributes:
        needed: All evidence that the task should read fits.
        least: Below this the task is not worth trying: too few passages fit beside question and answer.
    """

    needed: int
    least: int


def tokens_estimate(text: str) -> int:
    """Return an upper estimate of the tokens of a text without a tokenizer."""
    ideographs = sum(ord(character) >= _FIRST_IDEOGRAPH for character in text)
    return math.ceil((len(text) - ideographs) / _CHARACTERS_PER_TOKEN + ideographs / _IDEOGRAPHS_PER_TOKEN)


def demand_of(
    prompt: Iterable[str], passages: Iterable[str], answer_tokens: int, cap_tokens: int, least_passages: int = 1
) -> Demand:
    """Return the demand of a question.

    Args:
        prompt: Instructions, question and labels: everything but the evidence.
        passages: The evidence, best first.
        answer_tokens: Upper bound of what the model may write.
        cap_tokens: The most that this profile reads; more evidence is left out, and counted.
        least_passages: Passages below which nothing is asked.
    """
    fixed = sum(map(tokens_estimate, prompt)) + answer_tokens
    sizes = [tokens_estimate(text) for text in passages]
    least = fixed + sum(sizes[:least_passages])
    return Demand(needed=max(least, min(fixed + sum(sizes), cap_tokens)), least=least)


def context_for(tokens: int) -> int:
    """Return the smallest context of ``CONTEXTS`` that holds ``tokens``."""
    return next((context for context in CONTEXTS if context >= tokens), padded(tokens, CONTEXT_STEP))

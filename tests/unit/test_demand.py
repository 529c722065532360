"""How much context a task needs, estimated without a tokenizer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muniment_runtime.planner.demand import CONTEXTS, context_for, demand_of, tokens_estimate


def test_estimate_counts_letters_and_ideographs_apart() -> None:
    assert tokens_estimate("") == 0
    assert tokens_estimate("a" * 24) == 10
    assert tokens_estimate("字" * 13) == 10
    assert tokens_estimate("a" * 24 + "字" * 13) == 20


def test_demand_holds_prompt_evidence_and_answer() -> None:
    prompt, passages = ["p" * 240], ["x" * 480, "y" * 240]
    asked = demand_of(prompt, passages, 50, 4096)
    assert asked.needed == 100 + 200 + 100 + 50
    assert asked.least == 100 + 200 + 50


def test_demand_is_capped_by_the_profile_but_never_below_the_least() -> None:
    passages = ["x" * 2400] * 8
    assert demand_of([], passages, 100, 2048).needed == 2048
    assert demand_of([], passages, 100, 500).needed == demand_of([], passages, 100, 500).least == 1100
    assert demand_of([], passages, 100, 4096, least_passages=3).least == 3100
    assert demand_of([], [], 100, 500).least == 100


@given(st.integers(1, 300_000))
def test_context_is_the_smallest_step_that_holds_the_tokens(tokens: int) -> None:
    context = context_for(tokens)
    assert context >= tokens
    assert context % 256 == 0
    smaller = [step for step in CONTEXTS if step < context]
    assert all(step < tokens for step in smaller)

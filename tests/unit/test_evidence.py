"""Packing evidence into a budget."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_retrieval.evidence import left_out, pack, render
from tests.helpers.pages import passage


def _count(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def _different(index: int) -> str:
    return f"{index} " + " ".join(f"word{index}{letter}" for letter in "abcdefgh")


def test_numbers_follow_the_order_and_the_budget_holds() -> None:
    passages = [passage(_different(index), chunk_id=index, header="T | S") for index in range(6)]
    packed = pack(passages, 260, _count)
    used = [item for item in packed if item.used]
    assert [item.n for item in used] == list(range(1, len(used) + 1))
    assert 1 < len(used) < 6
    assert sum(len(render(item.n, item.text)) for item in used) <= 260
    assert left_out(packed) == 6 - len(used)
    assert len(packed) == 6


def test_header_is_shown_once() -> None:
    passages = [passage(_different(index), chunk_id=index, header="Report | Notes") for index in range(3)]
    texts = [item.text for item in pack(passages, 10_000, _count)]
    assert [text.startswith("Report | Notes\n") for text in texts] == [True, False, False]


def test_near_duplicates_are_left_out() -> None:
    text = "The same sentence about harbour fees stands in two filings of the company."
    packed = pack([passage(text, chunk_id=1), passage(text + " ", chunk_id=2, document="b.pdf")], 10_000, _count)
    assert [item.used for item in packed] == [True, False]


def test_a_passage_that_does_not_fit_does_not_block_a_smaller_one() -> None:
    packed = pack([passage("x" * 500, chunk_id=1), passage("small", chunk_id=2)], 100, _count)
    assert [(item.n, item.text) for item in packed if item.used] == [(1, "small")]


def test_line_end_hyphens_are_resolved_for_the_model() -> None:
    assert pack([passage("gov\u00ad\nerned by")], 100, _count)[0].text == "governed by"


def test_nothing_in_nothing_out() -> None:
    assert pack([], 100, _count) == []

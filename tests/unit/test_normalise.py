"""Examples of folding and tokens."""

from __future__ import annotations

import pytest

from muniment_retrieval.normalise import cjk_terms, fold, readable, tokens


@pytest.mark.parametrize(
    ("raw", "folded"),
    [
        ("Net\u00a0 Sales", "net sales"),
        ("consec\u00ad\ntetuer", "consectetuer"),
        ("consec\ufffetetuer", "consectetuer"),
        ("工业\n园区", "工业园区"),
        ("⼯业", "工业"),
        ("１，２３４．５％", "1,234.5%"),
        ("A股 上海", "a股上海"),
        ("ﬁnance", "finance"),
    ],
)
def test_fold(raw: str, folded: str) -> None:
    assert fold(raw) == folded


def test_numbers_are_one_token_and_their_whole_part() -> None:
    assert tokens("1,234.5 and 59,293 and 12.5% on 31.12.2017") == [
        "1234.5", "1234", "and", "59293", "and", "12.5", "12", "on", "31", "12", "2017",
    ]  # fmt: skip


def test_bigrams() -> None:
    assert cjk_terms("营业收入 a 元") == ["营业", "业收", "收入", "元"]


def test_readable_resolves_breaks_and_keeps_lines() -> None:
    assert readable("multi\u00ad\nyear\u00a0plan\nnext") == "multiyear plan\nnext"

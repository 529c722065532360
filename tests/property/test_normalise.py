"""Folding and its offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muniment_retrieval.normalise import cjk_terms, fold, fold_with_offsets, tokens

TEXT = st.text(
    st.one_of(
        st.sampled_from(" \n\u00a0\u00ad\ufffe\u3000-,.()０１２ＡＢﬁ⼯营业收入，。e\u0301İßΣ가"),
        st.characters(codec="utf-8", exclude_categories=("Cs", "Cn")),
    ),
    max_size=60,
)


@given(TEXT)
def test_both_ways_of_folding_agree(raw: str) -> None:
    assert fold(raw) == fold_with_offsets(raw).text


@given(TEXT)
def test_offsets_are_ordered_and_inside(raw: str) -> None:
    folded = fold_with_offsets(raw)
    assert len(folded.text) == len(folded.starts) == len(folded.ends)
    assert list(folded.starts) == sorted(folded.starts)
    assert all(0 <= start < end <= len(raw) for start, end in zip(folded.starts, folded.ends, strict=True))


@given(TEXT)
def test_tokens_hold_no_blank_and_no_quote(raw: str) -> None:
    for token in tokens(fold(raw)) + cjk_terms(fold(raw)):
        assert token.split() == [token]
        assert '"' not in token

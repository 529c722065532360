"""Chunks cover what is not a running head, in order, and are exact slices of one page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muniment_retrieval.chunking import MAX_CHARS, chunk_document, repeated_lines
from tests.helpers.pages import page

WORDS = st.sampled_from(
    [
        "revenue",
        "Net",
        "The agreement",
        "1,234",
        "(56)",
        "7.8%",
        "2017",
        "ends.",
        "Item 7",
        "营业收入",
        "。",
        "增长了",
        "x" * 90,
    ]
)
LINE = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)
PAGES = st.lists(st.lists(LINE, max_size=40), min_size=1, max_size=6)


def _squeezed(text: str) -> str:
    return "".join(text.split())


@given(PAGES)
def test_chunks_are_exact_slices_that_cover_every_line(contents: list[list[str]]) -> None:
    pages = [page(number, lines) for number, lines in enumerate(contents, 1)]
    chunks = list(chunk_document(pages, "Title", frozenset()))
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.page for chunk in chunks] == sorted(chunk.page for chunk in chunks)
    for source in pages:
        mine = [chunk for chunk in chunks if chunk.page == source.number]
        covered = 0
        for chunk in mine:
            assert source.text[chunk.start : chunk.end] == chunk.text
            assert chunk.text.strip()
            # Nothing but blanks may lie between two chunks; an overlap goes back, never past its predecessor.
            assert not source.text[covered : chunk.start].strip()
            assert chunk.end > covered
            covered = chunk.end
        assert not source.text[covered:].strip()


@given(PAGES)
def test_chunks_stay_small(contents: list[list[str]]) -> None:
    pages = [page(number, lines) for number, lines in enumerate(contents, 1)]
    for chunk in chunk_document(pages, "Title", frozenset()):
        # A repeated unit of at most 160 and one table row or heading more than the cap at most.
        wide = sum(character >= "\u2e80" for character in chunk.text)
        assert len(chunk.text) + wide <= 2 * MAX_CHARS


@given(
    st.lists(st.lists(st.text("abcdefghij ", min_size=3, max_size=30), min_size=8, max_size=12), min_size=6, max_size=9)
)
def test_running_heads_are_left_out_and_the_rest_is_not(contents: list[list[str]]) -> None:
    pages = [
        page(number, [f"Annual Report 2020 page {number}", *("body " + line for line in lines)])
        for number, lines in enumerate(contents, 1)
    ]
    repeated = repeated_lines(pages)
    assert "annual report # page #" in repeated
    for chunk in chunk_document(pages, "", repeated):
        assert "Annual Report" not in chunk.text

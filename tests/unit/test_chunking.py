"""Headers of chunks: what a passage loses by being small."""

from __future__ import annotations

import pytest

from muniment_retrieval.chunking import chunk_document, is_table_row, repeated_lines, telling_title
from tests.helpers.pages import page

ROWS = [f"Expense category number {index} 1,{index:03d} 2,{index:03d} 3,{index:03d}" for index in range(40)]


def test_rows_of_a_long_table_keep_the_column_heads() -> None:
    lines = ["CONSOLIDATED STATEMENTS OF OPERATIONS", "(in millions)", "2015 2016 2017", *ROWS]
    chunks = list(chunk_document([page(1, lines)], "ACME 10-K", frozenset()))
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.header.startswith("ACME 10-K | CONSOLIDATED STATEMENTS OF OPERATIONS")
    assert "2015 2016 2017" in chunks[-1].header
    assert "(in millions)" in chunks[-1].header


def test_section_goes_on_over_the_page_break() -> None:
    body = "The company sells boats and the boats are sold to people who like to sail on the sea in summer."
    pages = [page(1, ["Item 1. Business Overview", body]), page(2, [body + " Again"])]
    chunks = list(chunk_document(pages, "T", frozenset()))
    assert chunks[-1].page == 2
    assert chunks[-1].header == "T | Item 1. Business Overview"


def test_prose_is_cut_at_the_end_of_a_sentence() -> None:
    sentence = "Every ship that enters the harbour pays a fee to the keeper. "
    chunks = list(chunk_document([page(1, [sentence * 2] * 12)], "", frozenset()))
    assert len(chunks) > 2
    assert all(chunk.text.rstrip().endswith("keeper.") for chunk in chunks)


def test_pages_with_errors_give_no_chunks() -> None:
    assert list(chunk_document([page(1, ["text"], error="E-DOC-CRASH")], "", frozenset())) == []


def test_lines_that_repeat_on_few_pages_stay() -> None:
    pages = [page(number, ["Note" if number < 3 else f"x{number}", *"abcdefgh"]) for number in range(1, 9)]
    assert "note" not in repeated_lines(pages)


def test_table_rows_are_told_from_prose() -> None:
    assert is_table_row("Net product sales $ 79,268 $ 94,665 $ 118,573")
    assert not is_table_row("In 2022, our annual tax rate was 16.1% compared to 21.8% in 2021. See the notes below")


@pytest.mark.parametrize(
    ("title", "name", "called"),
    [
        ("Annual Report 2025", "x.pdf", "Annual Report 2025"),
        ("年报", "x.pdf", "年报"),
        ("0000909832-21-000014", "COSTCO_2021_10K.pdf", "COSTCO 2021 10K"),
        ("", "supply contract.pdf", "supply contract"),
    ],
)
def test_title_that_says_nothing_gives_way_to_the_file_name(title: str, name: str, called: str) -> None:
    assert telling_title(title, name) == called

"""Which answers count as carried by the evidence, and by which piece of it."""

from __future__ import annotations

import pytest

from muniment_retrieval.cite import check_answer, find_quote
from muniment_retrieval.model import Line, Support
from tests.helpers.pages import evidence, lines_of

TABLE = "2015 2016 2017\nNet service sales 27,738 41,322 59,293\nInterest expense (459) (484) (848)"
LAW = "This agreement is gov\u00ad\nerned by the laws of Ontario. Notices go to the seat."
CHINESE = "营业收入 1,581,905,632.48 元，同比\n增长 40.39%"
EVIDENCE = evidence(TABLE, LAW, CHINESE)
SALES = "Net service sales 27,738 41,322 59,293"
LAW_LINE = "This agreement is governed by the laws of Ontario."


def _lines(chunk_id: int) -> tuple[Line, ...]:
    return lines_of((TABLE, LAW, CHINESE)[chunk_id - 1])


@pytest.mark.parametrize(
    ("line", "answer", "support", "quote"),
    [
        (SALES, "They were 59,293.", Support.EXACT, SALES),
        ("[1] Net service sales  27738 41322 59293", "59,293", Support.STRONG, SALES),
        ("Interest expense (459)(484)(848)", "-848", Support.EXACT, "Interest expense (459) (484) (848)"),
        (LAW_LINE, "Ontario", Support.EXACT, LAW_LINE),
        ("This agreement is governed by laws of Ontario", "Ontario", Support.STRONG, LAW_LINE[:-1]),
        ("营业收入１,581,905,632.48元", "1,581,905,632.48元", Support.EXACT, "营业收入 1,581,905,632.48 元"),
        ("同比增长40.39%", "40.39%", Support.EXACT, "同比 增长 40.39%"),
    ],
)  # fmt: skip
def test_supported(line: str, answer: str, support: Support, quote: str) -> None:
    checked = check_answer(line, answer, EVIDENCE, _lines)
    assert checked.main_supported
    assert checked.sentences[0].support is support
    assert checked.citations[0].quote == quote
    assert checked.citations[0].page == 3
    assert checked.citations[0].boxes


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (SALES, "59,294"),
        ("Net service sales 27,738 41,322 59,298", "59,298"),
        (SALES, "$59,293 and -27,738"),
        (LAW_LINE, "Quebec"),
        ("", "Quebec"),
        ("", "738"),
        ("", "41,322"),
        ("a line that is nowhere", "Total of harbour fees: 41,322"),
        ("同比增长40.39%", "40.93%"),
        ("", ""),
    ],
)
def test_unsupported(line: str, answer: str) -> None:
    checked = check_answer(line, answer, EVIDENCE, _lines)
    assert not checked.main_supported
    assert checked.citations == ()


def test_boxes_are_those_of_the_quoted_lines_only() -> None:
    checked = check_answer("governed by the laws of Ontario", "Ontario", EVIDENCE, _lines)
    assert checked.citations[0].boxes == ((0.0, 0.0, 100.0, 8.0), (0.0, 10.0, 100.0, 18.0))
    checked = check_answer("Interest expense (459) (484) (848)", "848", EVIDENCE, _lines)
    assert checked.citations[0].boxes == ((0.0, 20.0, 100.0, 28.0),)


def test_a_number_cut_out_of_a_longer_one_is_no_quote() -> None:
    assert find_quote("service sales 27,738 41,322 59,2", EVIDENCE) is None


def test_bare_figure_without_its_line_is_no_proof() -> None:
    single = evidence("Revenue 700", "Share of services 58%")
    assert not check_answer("", "58%", single, _lines).main_supported
    # The copied line says nothing of 58 %: that another line does is chance.
    assert not check_answer("Revenue 700", "58%", single, _lines).main_supported
    assert check_answer("Revenue 700", "The share of services is 58%", single, _lines).main_supported


def test_figures_on_two_lines_are_ambiguous_without_a_copied_line() -> None:
    twice = evidence("Cash 500", "Debt 500")
    assert not check_answer("", "500", twice, _lines).main_supported
    assert check_answer("Debt 500", "500", twice, _lines).citations[0].n == 1
    assert check_answer("Debt 500", "500", twice, _lines).citations[0].quote == "Debt 500"


def test_each_sentence_is_judged_alone() -> None:
    checked = check_answer(
        SALES,
        "Net service sales were 59,293. Profit was 77,777. Interest expense was (848).",
        EVIDENCE,
        _lines,
    )
    assert [sentence.support for sentence in checked.sentences] == [Support.EXACT, Support.NONE, Support.STRONG]
    assert [sentence.citations for sentence in checked.sentences] == [(1,), (), (2,)]


def test_evidence_that_was_not_shown_proves_nothing() -> None:
    hidden = [type(item)(0, item.passage, item.text, item.tokens, used=False) for item in EVIDENCE]
    assert not check_answer("Interest expense (459) (484) (848)", "848", hidden, _lines).main_supported

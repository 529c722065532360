"""Answers that must not be given although a quote carries them."""

from __future__ import annotations

import pytest

from muniment_retrieval.abstain import Abstention, judge, names_what_is_asked

REPORT = "Aldermoor annual report 2025\nRevenue 2025 412.2"


@pytest.mark.parametrize(
    ("question", "answer", "sources", "verdict"),
    [
        ("What was revenue in 2025?", "£412.2 million", [REPORT], None),
        ("What was revenue in 2019?", "£412.2 million", [REPORT], Abstention.FIGURES),
        ("What was the balance after TX00412?", "869,632.08", ["TX00413 869,632.08"], Abstention.FIGURES),
        ("What was the balance after TX00412?", "869,632.08", ["TX00412 Umbrel 869,632.08"], None),
        ("Who is the auditor of Aldermoor?", "the auditor of Aldermoor", [REPORT], Abstention.ECHO),
        ("Who is the auditor of Aldermoor?", "Fennick and Hale LLP", [REPORT], None),
        ("Did revenue rise or fall?", "revenue rise", [REPORT], None),
        ("合同总金额是多少？", "合同总金额", ["合同总金额为3,356,000.00元"], Abstention.ECHO),
        ("合同总金额是多少？", "3,356,000.00元", ["合同总金额为3,356,000.00元"], None),
        ("FM-350 的单价是多少？", "4,850.00", ["FM-200 电磁流量计 4,850.00"], Abstention.FIGURES),
        ("How much?", "", [REPORT], Abstention.ECHO),
    ],
)
def test_verdicts(question: str, answer: str, sources: list[str], verdict: Abstention | None) -> None:
    assert judge(question, answer, sources) is verdict


@pytest.mark.parametrize(
    ("question", "quote", "answers"),
    [
        ("What is Amazon's FY2019 net income?", "Net income $ 3,033 $ 10,073 $ 11,588", True),
        (
            "What share came from solid-state meters?",
            "Revenue was £412.2 million. Currency took £2.1 million",
            False,
        ),
        ("预付款的金额是多少？", "预付款 30% 1,006,800.00", True),
        ("预付款的金额是多少？", "本合同自双方签字之日起生效", False),
        ("What were the total assets?", "Total current assets 29,505 28,120", False),
        ("What was revenue?", "1,234 5,678", False),
    ],
)
def test_line_that_names_what_is_asked_is_an_answer(question: str, quote: str, answers: bool) -> None:
    assert names_what_is_asked(question, quote) is answers

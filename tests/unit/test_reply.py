"""Replies of small models keep to the form only roughly."""

from __future__ import annotations

import pytest

from muniment_retrieval.reply import ModelReply, parse_reply, question_language


@pytest.mark.parametrize(
    ("text", "line", "answer"),
    [
        ("Line: Revenue 1,161 1,020\nAnswer: 1,161", "Revenue 1,161 1,020", "1,161"),
        (' "Revenue 1,161"\nAnswer: $1,161 million.', "Revenue 1,161", "$1,161 million."),
        ("[2] Revenue 1,161\nAnswer: 1,161\nLine: other\nAnswer: 3", "Revenue 1,161", "1,161"),
        ("原文：合同总金额为人民币3,600,000元\n答案：3,600,000元", "合同总金额为人民币3,600,000元", "3,600,000元"),
        ("Revenue 1,161 1,020", "Revenue 1,161 1,020", ""),
        ("Answer: 12", "", "12"),
        ("**Line:** a b\n**Answer:** c", "a b", "c"),
        ("", "", ""),
        ("Line: x\nAnswer: y\n\nThe passages also say z", "x", "y"),
    ],
)
def test_fields_are_split(text: str, line: str, answer: str) -> None:
    assert parse_reply(text) == ModelReply(line, answer)


@pytest.mark.parametrize(
    ("question", "language"),
    [("What was revenue?", "en"), ("合同的总金额是多少？", "zh"), ("2025年Aldermoor的revenue是多少", "en"), ("", "en")],
)
def test_answer_follows_the_language_of_the_question(question: str, language: str) -> None:
    assert question_language(question) == language

"""The sample documents are what their script makes, hold the answers on the stated pages, and add up."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pypdfium2
import pytest

from muniment_resources.samples import SampleFact, facts, sample_paths
from scripts.make_samples import make_samples
from scripts.samples import report_figures
from scripts.samples.ledger import OPENING_CENTS, entries


def page_texts(path: Path) -> list[str]:
    document = pypdfium2.PdfDocument(path)
    try:
        texts = []
        for page in document:
            textpage = page.get_textpage()
            texts.append(textpage.get_text_range())
            textpage.close()
            page.close()
        return texts
    finally:
        document.close()


@pytest.fixture(scope="module")
def pages() -> dict[str, list[str]]:
    return {path.name: page_texts(path) for path in sample_paths()}


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_the_script_makes_the_shipped_bytes(tmp_path: Path) -> None:
    made = make_samples(tmp_path)
    shipped = sample_paths()[0].parent
    assert len(made) == 4
    for path in made:
        assert path.read_bytes() == (shipped / path.name).read_bytes(), path.name


def test_shapes_and_sizes(pages: dict[str, list[str]]) -> None:
    assert [len(texts) for texts in pages.values()] == [12, 6, 43]
    assert sum(path.stat().st_size for path in sample_paths()) < 1_500_000


def test_there_are_enough_facts_of_each_kind() -> None:
    def count(document: str | None, language: str) -> int:
        return sum(fact.document == document and fact.language == language for fact in facts())

    report, contract, ledger = (path.name for path in sample_paths())
    assert count(report, "en") >= 12
    assert count(contract, "zh") >= 8
    assert count(ledger, "en") >= 6
    assert count(None, "en") + count(None, "zh") >= 6


@pytest.mark.parametrize(
    "fact", [fact for fact in facts() if fact.document], ids=lambda fact: f"{fact.document}-{fact.page}-{fact.answer}"
)
def test_answer_stands_on_its_page(fact: SampleFact, pages: dict[str, list[str]]) -> None:
    assert fact.document
    assert fact.page
    assert fact.answer
    assert fact.quote
    text = squeezed(pages[fact.document][fact.page - 1])
    assert squeezed(fact.answer) in text
    assert squeezed(fact.quote) in text


@pytest.mark.parametrize("fact", [fact for fact in facts() if not fact.document], ids=lambda fact: fact.question)
def test_unanswerable_questions_claim_nothing(fact: SampleFact) -> None:
    assert (fact.answer, fact.page, fact.quote, fact.accepted) == (None, None, None, ())


def test_page_labels_differ_from_physical_pages() -> None:
    document = pypdfium2.PdfDocument(sample_paths()[0])
    try:
        assert [document.get_page_label(index) for index in range(4)] == ["i", "ii", "1", "2"]
    finally:
        document.close()


def test_printed_ledger_adds_up(pages: dict[str, list[str]]) -> None:
    """Recomputed from the PDF's own text, not from the generator: balances, monthly totals, the year's totals."""
    amount = r"([\d,]+\.\d\d)"
    entry = re.compile(rf"^(2025-\d\d)-\d\d TX(\d{{5}}) \D.*? (\d{{4}}) (Sales)?.*? {amount} {amount}$")
    total = re.compile(rf"^(?:2025-12-31 )?Total (\w+).*? {amount} {amount} {amount}$")
    balance, months, number = Decimal(OPENING_CENTS) / 100, 0, 0
    month_sums, year_sums = [Decimal(0), Decimal(0)], [Decimal(0), Decimal(0)]
    for line in "\n".join(pages["ledger-2025.pdf"]).splitlines():
        if booked := entry.match(line):
            number += 1
            assert int(booked[2]) == number
            value, printed = (Decimal(booked[group].replace(",", "")) for group in (5, 6))
            side = 0 if booked[3] == "4000" else 1
            month_sums[side] += value
            year_sums[side] += value
            balance += value if side == 0 else -value
            assert balance == printed, line
        elif closed := total.match(line):
            sums = year_sums if closed[1] == "and" else month_sums
            assert [Decimal(closed[group].replace(",", "")) for group in (2, 3, 4)] == [*sums, balance], line
            months += closed[1] != "and"
            month_sums = [Decimal(0), Decimal(0)]
    assert (number, months) == (2000, 12)


def test_ledger_entries_carry_the_balance_forward() -> None:
    balance = OPENING_CENTS
    for entry in entries():
        assert 0 in (entry.debit_cents, entry.credit_cents)
        balance += entry.debit_cents - entry.credit_cents
        assert entry.balance_cents == balance > 0


def test_the_report_balances() -> None:
    def line(statement: report_figures.Statement, name: str) -> tuple[float, float]:
        found = [entry for entry in statement if entry.name == name]
        assert len(found) == 1, name
        return found[0].now, found[0].before

    balance, cash, income = report_figures.BALANCE, report_figures.CASH, report_figures.INCOME
    assert line(balance, "Net assets") == line(balance, "Total equity") == (216.6, 185.6)
    assert line(cash, "Cash at the end of the year") == line(balance, "Cash and cash equivalents")
    assert line(cash, "Cash at the end of the year")[1] == line(cash, "Cash at the beginning of the year")[0]
    assert line(income, "Operating profit") == line(cash, "Operating profit") == (52.2, 46.3)
    group = {row[0]: row[-1] for row in report_figures.segment_rows()}
    assert (group["Revenue 2025"], group["Operating profit 2025"]) == ("412.2", "52.2")
    assert report_figures.region_rows()[-1] == ["Revenue", "412.2", "383.8"]

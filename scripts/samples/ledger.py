"""The sample ledger: one bank account of an invented company over a year, exact to the cent."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from scripts.samples.style import GREY, INK, PALE, RULE, TEAL, Fact

__all__ = ["FILE", "OPENING_CENTS", "Entry", "entries", "ledger_facts", "write_ledger"]

FILE = "ledger-2025.pdf"
ROWS = 2000
OPENING_CENTS = 1_250_000_00
LINE_PT = 14.6
TOP_PT, BOTTOM_PT = 738.0, 66.0

INFLOW = ("Tessaly Water Board", "Norrin Valley Utilities", "Quillmere Council", "Ostrava Bay Aquatics",
          "Pellworth Irrigation", "Sable Creek District", "Umbrel Desalination", "Wexcombe Reservoirs")  # fmt: skip
OUTFLOW = (
    ("Brindle Castings", "5010 Materials"), ("Corvale Electronics", "5010 Materials"),
    ("Dunmarrow Plastics", "5010 Materials"), ("Estrel Copperworks", "5010 Materials"),
    ("Fathom Freight", "5200 Freight"), ("Galloway Pike Logistics", "5200 Freight"),
    ("Hexley Power", "6100 Energy"), ("Isenmoor Estates", "6200 Rent"),
    ("Jasper & Lowe Insurance", "6300 Insurance"), ("Kettleby Cleaning", "6400 Services"),
    ("Larkhythe Calibration", "6400 Services"), ("Payroll", "7000 Wages"),
    ("Revenue Office", "7900 Taxes"),
)  # fmt: skip
# (x of the left or right edge, header, right-aligned)
COLUMNS = (
    (48.0, "Date", False), (106.0, "Entry", False), (160.0, "Counterparty", False), (292.0, "Account", False),
    (424.0, "Debit", True), (484.0, "Credit", True), (548.0, "Balance", True),
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One booking; amounts in cents, one of debit and credit is zero."""

    number: int
    date: datetime.date
    counterparty: str
    account: str
    debit_cents: int
    credit_cents: int
    balance_cents: int

    @property
    def reference(self) -> str:
        """The entry's id as printed."""
        return f"TX{self.number:05d}"


def _amount(cents: int) -> str:
    return f"{cents / 100:,.2f}" if cents else ""


def entries() -> list[Entry]:
    """Return the bookings in order. Only ``random()`` is drawn: its sequence is the same in every Python version."""
    draw = random.Random(4711).random
    start = datetime.date(2025, 1, 1)
    days = sorted(int(draw() * 365) for _ in range(ROWS))
    balance, made = OPENING_CENTS, []
    for number, day in enumerate(days, start=1):
        # Money comes in whenever the account is low, so that the balance stays believable.
        inflow = draw() < (0.62 if balance < 900_000_00 else 0.40)
        size = int((300 + 17_700 * draw() ** 2.2) * 100)
        if inflow:
            name, account = INFLOW[int(draw() * len(INFLOW))], "4000 Sales"
        else:
            name, account = OUTFLOW[int(draw() * len(OUTFLOW))]
        if number == 1187:  # one booking that stands out, as in real ledgers
            inflow, name, account, size = True, "Umbrel Desalination", "4000 Sales", 318_450_75
        debit, credit = (size, 0) if inflow else (0, size)
        balance += debit - credit
        date = start + datetime.timedelta(days=day)
        made.append(Entry(number, date, name, account, debit, credit, balance))
    return made


class _Pages:
    """Draws lines from top to bottom and opens pages as they fill."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.page = 0
        self._y = 0.0
        self._shaded = False

    def _open(self) -> None:
        canvas = self._canvas
        if self.page:
            canvas.showPage()
        self.page += 1
        canvas.setFillColor(TEAL)
        canvas.rect(0, 806, A4[0], 36, stroke=0, fill=1)
        canvas.setFillColorRGB(1, 1, 1)
        canvas.setFont("Helvetica-Bold", 12)
        canvas.drawString(48, 819, "Aldermoor Instruments plc")
        canvas.setFont("Helvetica", 9.5)
        canvas.drawRightString(548, 819, "General ledger 2025 · account 1020 Bank, current · amounts in GBP")
        canvas.setFillColor(GREY)
        canvas.setFont("Helvetica", 8)
        canvas.drawString(48, 784, "Balance = previous balance + debit - credit. Invented data for demonstration.")
        canvas.drawCentredString(A4[0] / 2, 36, f"Page {self.page}")
        canvas.setFillColor(TEAL)
        canvas.setFont("Helvetica-Bold", 8.6)
        for x, header, right in COLUMNS:
            (canvas.drawRightString if right else canvas.drawString)(x, 758, header)
        canvas.setStrokeColor(TEAL)
        canvas.setLineWidth(1)
        canvas.line(44, 752, 552, 752)
        self._y = TOP_PT

    def line(self, cells: Sequence[str], bold: bool = False) -> int:
        """Draw one line; returns its physical page."""
        if self.page == 0 or self._y < BOTTOM_PT:
            self._open()
        canvas = self._canvas
        self._shaded = not self._shaded and not bold
        if bold or self._shaded:
            canvas.setFillColor(PALE)
            canvas.rect(44, self._y - 4, 508, LINE_PT, stroke=0, fill=1)
        if bold:
            canvas.setStrokeColor(RULE)
            canvas.setLineWidth(0.6)
            canvas.line(44, self._y + LINE_PT - 4, 552, self._y + LINE_PT - 4)
        canvas.setFillColor(TEAL if bold else INK)
        canvas.setFont("Helvetica-Bold" if bold else "Helvetica", 8.2)
        for (x, _, right), text in zip(COLUMNS, cells, strict=True):
            if text:
                (canvas.drawRightString if right else canvas.drawString)(x, self._y, text)
        self._y -= LINE_PT
        return self.page


def write_ledger(path: Path) -> list[Fact]:
    """Write the PDF and return its facts."""
    canvas = Canvas(str(path), pagesize=A4, invariant=1)
    canvas.setTitle("General ledger 2025, account 1020")
    canvas.setAuthor("Aldermoor Instruments plc (invented)")
    pages = _Pages(canvas)
    made = entries()
    page_of: dict[str, int] = {}
    pages.line(("2025-01-01", "", "Opening balance", "", "", "", _amount(OPENING_CENTS)), bold=True)
    for month, group in groupby(made, key=lambda entry: entry.date.month):
        booked = list(group)
        for entry in booked:
            page_of[entry.reference] = pages.line(
                (
                    entry.date.isoformat(),
                    entry.reference,
                    entry.counterparty,
                    entry.account,
                    _amount(entry.debit_cents),
                    _amount(entry.credit_cents),
                    _amount(entry.balance_cents),
                )
            )
        debit, credit = (sum(getattr(entry, side) for entry in booked) for side in ("debit_cents", "credit_cents"))
        name = datetime.date(2025, month, 1).strftime("%B")
        cells = ("", "", f"Total {name} 2025", "", _amount(debit), _amount(credit), _amount(booked[-1].balance_cents))
        page_of[name] = pages.line(cells, bold=True)
    debit, credit = (sum(getattr(entry, side) for entry in made) for side in ("debit_cents", "credit_cents"))
    year = ("2025-12-31", "", "Total and closing balance", "", _amount(debit), _amount(credit))
    page_of["year"] = pages.line((*year, _amount(made[-1].balance_cents)), bold=True)
    canvas.save()
    return ledger_facts(made, page_of)


def ledger_facts(made: Sequence[Entry], page_of: dict[str, int]) -> list[Fact]:
    """Return the questions that the ledger answers."""

    def fact(question: str, answer: str, page: int) -> Fact:
        return Fact(question, "en", FILE, answer, (answer.replace(",", ""),), page, answer)

    march = [entry for entry in made if entry.date.month == 3]
    august = [entry for entry in made if entry.date.month == 8]
    outlier, early, late = made[1186], made[411], made[1633]
    return [
        fact("What is the closing balance of account 1020 on 31 December 2025?",
             _amount(made[-1].balance_cents), page_of["year"]),
        fact("What were the total debits in March 2025?",
             _amount(sum(entry.debit_cents for entry in march)), page_of["March"]),
        fact("What were the total credits in August 2025?",
             _amount(sum(entry.credit_cents for entry in august)), page_of["August"]),
        fact(f"Which counterparty stands on entry {outlier.reference}?", outlier.counterparty,
             page_of[outlier.reference]),
        fact(f"What was the balance after entry {early.reference}?", _amount(early.balance_cents),
             page_of[early.reference]),
        fact(f"On which date was entry {late.reference} booked?", late.date.isoformat(), page_of[late.reference]),
    ]  # fmt: skip

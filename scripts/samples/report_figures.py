"""The figures of the sample annual report in £ million; totals are computed, so the statements add up."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.samples.style import money

__all__ = [
    "BALANCE",
    "CASH",
    "COMPREHENSIVE",
    "HIGHLIGHTS",
    "INCOME",
    "KPIS",
    "REVENUE_HISTORY",
    "Line",
    "Statement",
    "region_rows",
    "segment_rows",
]


@dataclass(frozen=True)
class Line:
    """One line of a statement: a plain figure, a total, or the heading of a group."""

    name: str
    now: float = 0.0
    before: float = 0.0
    kind: str = "plain"


Statement = tuple[Line, ...]

REVENUE_HISTORY = (("2021", 318.2), ("2022", 341.0), ("2023", 359.6), ("2024", 383.8), ("2025", 412.2))
HIGHLIGHTS = (
    ("£412.2m", "Revenue, up 7.4%"),
    ("£52.2m", "Operating profit, up 12.7%"),
    ("29.8p", "Basic earnings per share"),
    ("11.6p", "Dividend per share"),
)
KPIS = (
    ("Organic revenue growth", "6.1%", "5.3%", "6-8%"),
    ("Operating margin", "12.7%", "12.1%", "14.0%"),
    ("Order book at year end", "£187.4m", "£169.8m", "–"),
    ("Research and development, share of revenue", "7.6%", "7.5%", "8.0%"),
    ("On-time delivery", "96.3%", "93.9%", "98.0%"),
    ("Employees at year end", "2,146", "2,088", "–"),
    ("Lost-time injuries per 100,000 hours", "0.42", "0.51", "0.30"),
    ("Scope 1 and 2 emissions, tonnes CO2e", "9,840", "11,310", "7,900"),
)


def _sum(name: str, *lines: Line, kind: str = "total") -> Line:
    now, before = sum(line.now for line in lines), sum(line.before for line in lines)
    return Line(name, round(now, 1), round(before, 1), kind)


def _section(name: str) -> Line:
    return Line(name, kind="section")


def _income() -> Statement:
    gross = (Line("Revenue", 412.2, 383.8), Line("Cost of sales", -243.7, -230.9))
    gross_profit = _sum("Gross profit", *gross)
    costs = (
        Line("Research and development", -31.4, -28.6),
        Line("Selling and distribution", -44.8, -42.9),
        Line("Administration", -36.2, -35.1),
        Line("Restructuring", -3.9, 0.0),
    )
    operating = _sum("Operating profit", gross_profit, *costs)
    finance = (Line("Finance income", 1.1, 0.8), Line("Finance costs", -6.8, -7.5))
    before_tax = _sum("Profit before tax", operating, *finance)
    tax = Line("Income tax", -11.2, -9.7)
    profit = _sum("Profit for the year", before_tax, tax)
    return (*gross, gross_profit, *costs, operating, *finance, before_tax, tax, profit)


def _comprehensive(profit: Line) -> Statement:
    other = (
        Line("Remeasurement of retirement benefits, net of tax", 4.1, 1.2),
        Line("Translation of foreign operations", 1.8, -1.5),
    )
    return (Line(profit.name, profit.now, profit.before), *other, _sum("Total comprehensive income", profit, *other))


def _balance() -> Statement:
    fixed = (
        Line("Goodwill", 88.4, 88.4),
        Line("Other intangible assets", 41.7, 39.2),
        Line("Property, plant and equipment", 96.3, 91.8),
        Line("Right-of-use assets", 18.9, 20.6),
        Line("Deferred tax assets", 4.6, 5.0),
    )
    current = (
        Line("Inventories", 61.2, 66.8),
        Line("Trade and other receivables", 79.5, 74.1),
        Line("Cash and cash equivalents", 38.7, 27.9),
    )
    assets = _sum("Total assets", *fixed, *current)
    short = (
        Line("Trade and other payables", -68.9, -65.2),
        Line("Borrowings", -8.0, -12.0),
        Line("Lease liabilities", -4.1, -4.3),
        Line("Provisions", -5.6, -3.1),
        Line("Current tax", -6.2, -5.4),
    )
    long = (
        Line("Borrowings", -82.0, -96.0),
        Line("Lease liabilities", -15.8, -17.2),
        Line("Retirement benefits", -12.4, -15.9),
        Line("Deferred tax liabilities", -9.7, -9.1),
    )
    liabilities = _sum("Total liabilities", *short, *long)
    equity = (
        Line("Share capital", 29.6, 29.6),
        Line("Share premium", 54.2, 54.2),
        Line("Translation reserve", -2.3, -4.1),
        Line("Retained earnings", 135.1, 105.9),
    )
    return (
        _section("Non-current assets"),
        *fixed,
        _section("Current assets"),
        *current,
        assets,
        _section("Current liabilities"),
        *short,
        _section("Non-current liabilities"),
        *long,
        liabilities,
        _sum("Net assets", assets, liabilities),
        _section("Equity"),
        *equity,
        _sum("Total equity", *equity),
    )


def _cash() -> Statement:
    operating = (
        Line("Operating profit", 52.2, 46.3),
        Line("Depreciation and amortisation", 28.0, 27.1),
        Line("Share-based payments", 2.4, 2.1),
        Line("Working capital", 3.9, -4.2),
        Line("Provisions and retirement benefits", 3.1, -0.8),
        Line("Other items without cash", 1.9, 0.6),
        Line("Tax paid", -10.0, -8.9),
    )
    investing = (
        Line("Purchase of property, plant and equipment", -21.3, -19.8),
        Line("Purchase of intangible assets", -9.6, -8.7),
        Line("Proceeds of disposals", 0.7, 0.4),
        Line("Interest received", 1.1, 0.8),
    )
    financing = (
        Line("Repayment of borrowings", -18.0, -12.0),
        Line("Payment of lease liabilities", -4.9, -4.7),
        Line("Interest paid", -6.4, -7.1),
        Line("Dividends paid", -12.6, -11.4),
    )
    parts = (
        _sum("Net cash from operating activities", *operating),
        _sum("Net cash used in investing activities", *investing),
        _sum("Net cash used in financing activities", *financing),
    )
    change = _sum("Net change in cash", *parts)
    rest = (Line("Exchange differences", 0.3, -0.2), Line("Cash at the beginning of the year", 27.9, 28.4))
    return (
        _section("Operating activities"),
        *operating,
        parts[0],
        _section("Investing activities"),
        *investing,
        parts[1],
        _section("Financing activities"),
        *financing,
        parts[2],
        change,
        *rest,
        _sum("Cash at the end of the year", change, *rest),
    )


INCOME = _income()
COMPREHENSIVE = _comprehensive(INCOME[-1])
BALANCE = _balance()
CASH = _cash()


def segment_rows() -> list[list[str]]:
    """Revenue and operating profit per segment, with their sums."""
    rows = (
        ("Revenue 2024", (198.3, 127.4, 58.1, 0.0)),
        ("Revenue 2025", (214.6, 131.9, 65.7, 0.0)),
        ("Growth", ()),
        ("Operating profit 2024", (29.5, 17.6, 8.2, -9.0)),
        ("Operating profit 2025", (33.1, 19.4, 9.8, -10.1)),
    )
    made = []
    for name, values in rows:
        if values:
            made.append([name, *map(money, values), money(round(sum(values), 1))])
        else:
            made.append([name, "8.2%", "3.5%", "13.1%", "–", "7.4%"])
    return made


def region_rows() -> list[list[str]]:
    """Revenue per region with its sum."""
    rows = (
        ("United Kingdom", 118.3, 112.9),
        ("Rest of Europe", 152.6, 143.5),
        ("North America", 88.9, 79.2),
        ("Asia and rest of the world", 52.4, 48.2),
    )
    total = ["Revenue", money(round(sum(row[1] for row in rows), 1)), money(round(sum(row[2] for row in rows), 1))]
    return [[name, money(now), money(before)] for name, now, before in rows] + [total]

"""What the sample documents share: colours, paragraph styles, tables, and output that never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reportlab import rl_config
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import Table, TableStyle

__all__ = [
    "BODY",
    "GREY",
    "HEADING",
    "INK",
    "KAI",
    "KAI_BOLD",
    "LEAD",
    "PALE",
    "RULE",
    "SMALL",
    "SUBHEADING",
    "TEAL",
    "Fact",
    "figures_table",
    "money",
    "register_fonts",
    "settle_output",
]

TEAL, INK, GREY, RULE, PALE = (HexColor(value) for value in ("#0F4C5C", "#1B262C", "#5F6B73", "#B8C4CA", "#EAF1F3"))
KAI, KAI_BOLD = "SampleKai", "SampleKaiBold"

BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=11, leading=15.4, textColor=INK, spaceAfter=7)
BODY.alignment = TA_JUSTIFY
LEAD = ParagraphStyle("lead", parent=BODY, fontName="Times-Italic", fontSize=12.5, leading=17, textColor=TEAL)
LEAD.alignment = 0
SMALL = ParagraphStyle("small", parent=BODY, fontSize=9.4, leading=12.4, textColor=GREY, alignment=0)
HEADING = ParagraphStyle("heading", fontName="Helvetica-Bold", fontSize=19, leading=24, textColor=TEAL, spaceAfter=10)
SUBHEADING = ParagraphStyle(
    "subheading",
    fontName="Helvetica-Bold",
    fontSize=11,
    leading=14,
    textColor=TEAL,
    spaceBefore=8,
    spaceAfter=4,
    keepWithNext=1,
)


@dataclass(frozen=True)
class Fact:
    """A question about the sample documents with its known answer.

    Attributes:
        document: File name, or ``None`` when no document holds the answer.
        answer: The answer as it stands on the page, or ``None``.
        accepted: Other spellings that count as the same answer.
        page: Physical page, 1-based, or ``None``.
        quote: Words on that page that hold and prove the answer, or ``None``.
    """

    question: str
    language: str
    document: str | None = None
    answer: str | None = None
    accepted: tuple[str, ...] = ()
    page: int | None = None
    quote: str | None = None


def settle_output() -> None:
    """Make two runs give the same bytes: no clock, no random ids, and no ASCII armour."""
    rl_config.invariant = 1
    rl_config.useA85 = 0
    rl_config.pageCompression = 1


def register_fonts() -> None:
    """Register the embedded Chinese fonts (subsets, see fonts/README.md): no system font is needed to read the PDF."""
    folder = Path(__file__).parent / "fonts"
    for name, file in ((KAI, "SampleKai-Regular.ttf"), (KAI_BOLD, "SampleKai-Bold.ttf")):
        if name not in pdfmetrics.getRegisteredFontNames():
            pdfmetrics.registerFont(TTFont(name, str(folder / file)))


def money(value: float) -> str:
    """One decimal; negative in brackets, as in accounts; a dash for nothing."""
    if value == 0:
        return "–"
    return f"({-value:,.1f})" if value < 0 else f"{value:,.1f}"


def figures_table(
    rows: Sequence[Sequence[str]], widths: Sequence[float], totals: Sequence[int] = (), sections: Sequence[int] = ()
) -> Table:
    """A table of figures: first row is the header, first column text, other columns right-aligned.

    Args:
        rows: Cell texts.
        widths: Column widths in points.
        totals: Row numbers set in bold under a rule.
        sections: Row numbers that are headings of a group.
    """
    table = Table([list(row) for row in rows], colWidths=list(widths), repeatRows=1, hAlign="LEFT")
    style: list[tuple[object, ...]] = [
        ("FONT", (0, 0), (-1, -1), "Helvetica", 8.8),
        ("TEXTCOLOR", (0, 0), (-1, -1), INK),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 8.8),
        ("TEXTCOLOR", (0, 0), (-1, 0), TEAL),
        ("LINEBELOW", (0, 0), (-1, 0), 1.1, TEAL),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 3.6),
        ("TOPPADDING", (0, 0), (-1, -1), 3.6),
        ("LEFTPADDING", (0, 0), (0, -1), 2),
        ("LINEBELOW", (0, -1), (-1, -1), 0.6, RULE),
    ]
    for row in totals:
        style += [("FONT", (0, row), (-1, row), "Helvetica-Bold", 8.8), ("LINEABOVE", (0, row), (-1, row), 0.5, INK)]
        style.append(("BACKGROUND", (0, row), (-1, row), PALE))
    style += [("FONT", (0, row), (-1, row), "Helvetica-BoldOblique", 8.8) for row in sections]
    table.setStyle(TableStyle(style))
    return table

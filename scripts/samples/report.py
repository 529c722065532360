"""The sample annual report: an invented maker of water meters. Its statements add up (see report_figures)."""

from __future__ import annotations

from pathlib import Path

from reportlab.graphics.charts.barcharts import VerticalBarChart
from reportlab.graphics.shapes import Drawing, String
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

from scripts.samples import report_figures as figures
from scripts.samples import report_text as text
from scripts.samples.style import (
    BODY,
    GREY,
    HEADING,
    INK,
    LEAD,
    PALE,
    RULE,
    SMALL,
    SUBHEADING,
    TEAL,
    Fact,
    figures_table,
    money,
)

__all__ = ["FILE", "write_report"]

FILE = "aldermoor-annual-report-2025.pdf"
LEFT, WIDTH, BOTTOM, HEIGHT = 60.0, A4[0] - 120, 62.0, A4[1] - 62 - 76
GAP = 20.0
FRONT_PAGES = 2  # cover and contents carry roman labels, so that labels and physical pages differ


def _label(canvas: Canvas, page: int) -> None:
    """Label pages i and ii for the front matter, then 1, 2, 3."""
    if page in (1, FRONT_PAGES + 1):
        canvas.addPageLabel(page - 1, style="ROMAN_LOWER" if page == 1 else "ARABIC", start=1)


def _cover(canvas: Canvas, document: BaseDocTemplate) -> None:
    _label(canvas, document.page)
    width, height = A4
    canvas.saveState()
    canvas.setFillColor(TEAL)
    canvas.rect(0, 0, width, height, stroke=0, fill=1)
    canvas.setStrokeColorRGB(1, 1, 1, alpha=0.16)
    canvas.setLineWidth(1.4)
    for radius in range(60, 560, 26):  # rings on water
        canvas.circle(width - 90, 250, radius, stroke=1, fill=0)
    canvas.setFillColorRGB(1, 1, 1)
    canvas.setFont("Helvetica-Bold", 15)
    canvas.drawString(60, height - 90, "ALDERMOOR INSTRUMENTS PLC")
    canvas.setFont("Times-Roman", 50)
    canvas.drawString(58, height - 300, "Every drop,")
    canvas.drawString(58, height - 356, "accounted for.")
    canvas.setFont("Helvetica", 16)
    canvas.drawString(60, height - 410, "Annual Report 2025")
    canvas.setFont("Helvetica", 9)
    canvas.drawString(
        60, 60, "Aldermoor Instruments plc is an invented company. All figures are made up for demonstration."
    )
    canvas.restoreState()


def _decorate(canvas: Canvas, document: BaseDocTemplate) -> None:
    _label(canvas, document.page)
    canvas.saveState()
    canvas.setStrokeColor(TEAL)
    canvas.setLineWidth(1.1)
    canvas.line(LEFT, A4[1] - 52, A4[0] - LEFT, A4[1] - 52)
    canvas.setFillColor(GREY)
    canvas.setFont("Helvetica", 8)
    canvas.drawString(LEFT, A4[1] - 46, "Aldermoor Instruments plc")
    canvas.drawRightString(A4[0] - LEFT, A4[1] - 46, "Annual Report 2025")
    label = "ii" if document.page <= FRONT_PAGES else str(document.page - FRONT_PAGES)
    canvas.drawCentredString(A4[0] / 2, 34, label)
    canvas.restoreState()


def _paragraphs(pairs: text.Section) -> list[Flowable]:
    styles = {"h": HEADING, "s": SUBHEADING, "l": LEAD, "p": BODY, "n": SMALL}
    return [Paragraph(words, styles[kind]) for kind, words in pairs]


def _chart() -> Drawing:
    drawing = Drawing(WIDTH, 190)
    chart = VerticalBarChart()
    chart.x, chart.y, chart.width, chart.height = 34, 24, WIDTH - 50, 132
    chart.data = [tuple(value for _, value in figures.REVENUE_HISTORY)]
    chart.categoryAxis.categoryNames = [year for year, _ in figures.REVENUE_HISTORY]
    chart.bars[0].fillColor = TEAL
    chart.bars[0].strokeColor = None
    chart.barLabelFormat = "%.1f"
    chart.barLabels.nudge = 8
    chart.barLabels.fontName, chart.barLabels.fontSize, chart.barLabels.fillColor = "Helvetica-Bold", 8.5, INK
    chart.groupSpacing = 26
    chart.valueAxis.valueMin, chart.valueAxis.valueMax, chart.valueAxis.valueStep = 0, 500, 100
    chart.valueAxis.strokeColor = chart.categoryAxis.strokeColor = RULE
    chart.valueAxis.gridStrokeColor, chart.valueAxis.visibleGrid = PALE, 1
    for axis in (chart.valueAxis, chart.categoryAxis):
        axis.labels.fontName, axis.labels.fontSize, axis.labels.fillColor = "Helvetica", 8, GREY
    drawing.add(chart)
    title = String(0, 174, "Revenue, £ million", fontName="Helvetica-Bold", fontSize=10, fillColor=TEAL)
    drawing.add(title)
    return drawing


def _highlights() -> Flowable:
    cells = [[value for value, _ in figures.HIGHLIGHTS], [label for _, label in figures.HIGHLIGHTS]]
    table = Table(cells, colWidths=[WIDTH / 4] * 4, rowHeights=[34, 24])
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 20),
                ("FONT", (0, 1), (-1, 1), "Helvetica", 8.4),
                ("TEXTCOLOR", (0, 0), (-1, 0), TEAL),
                ("TEXTCOLOR", (0, 1), (-1, 1), GREY),
                ("BACKGROUND", (0, 0), (-1, -1), PALE),
                ("ALIGN", (0, 0), (-1, -1), "CENTER"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    return table


def _contents() -> Flowable:
    table = Table([list(row) for row in text.CONTENTS], colWidths=[WIDTH - 40, 40])
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), "Helvetica", 10),
                ("TEXTCOLOR", (0, 0), (-1, -1), INK),
                ("ALIGN", (1, 0), (1, -1), "RIGHT"),
                ("LINEBELOW", (0, 0), (-1, -1), 0.4, RULE),
                ("TOPPADDING", (0, 0), (-1, -1), 4),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 5),
            ]
        )
    )
    return table


def _statement(statement: figures.Statement) -> Flowable:
    rows = [["£ million", "2025", "2024"]]
    rows += [
        [line.name, "", ""] if line.kind == "section" else [line.name, money(line.now), money(line.before)]
        for line in statement
    ]
    totals = [number for number, line in enumerate(statement, 1) if line.kind == "total"]
    sections = [number for number, line in enumerate(statement, 1) if line.kind == "section"]
    return figures_table(rows, [WIDTH - 160, 80, 80], totals, sections)


def _risks() -> Flowable:
    cells = [[Paragraph(f"<b>{head}</b>", SMALL) for head in ("Risk", "What could happen", "What we do", "Trend")]]
    cells += [[Paragraph(cell, SMALL) for cell in row] for row in text.RISKS]
    table = Table(cells, colWidths=[82, 158, 182, 53], repeatRows=1)
    table.setStyle(
        TableStyle(
            [
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("BACKGROUND", (0, 0), (-1, 0), PALE),
                ("LINEBELOW", (0, 0), (-1, -1), 0.5, RULE),
                ("TOPPADDING", (0, 0), (-1, -1), 5),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
            ]
        )
    )
    return table


def _story() -> list[Flowable]:
    kpis = [["Measure", "2025", "2024", "Target 2027"], *map(list, figures.KPIS)]
    segments = [["£ million", "Metering", "Sensing", "Services", "Central", "Group"], *figures.segment_rows()]
    regions = [["£ million", "2025", "2024"], *figures.region_rows()]
    story: list[Flowable] = [Spacer(1, 1), NextPageTemplate("one"), PageBreak()]
    story += [Paragraph("2025 at a glance", HEADING), _highlights(), Spacer(1, 16), _chart(), Spacer(1, 12)]
    story += [Paragraph("Contents", HEADING), _contents(), NextPageTemplate("letter"), PageBreak()]
    story += [Paragraph("Letter from the Chair", HEADING), Paragraph(text.LETTER_LEAD, LEAD), FrameBreak()]
    story += [*_paragraphs(text.LETTER), NextPageTemplate("two"), PageBreak()]
    story += [*_paragraphs(text.STRATEGY), NextPageTemplate("one"), PageBreak()]
    story += [*_paragraphs(text.PERFORMANCE), figures_table(kpis, [WIDTH - 240, 80, 80, 80])]
    story += [*_paragraphs(text.FINANCIAL_REVIEW), PageBreak()]
    story += [*_paragraphs(text.SEGMENTS)]
    story += [figures_table(segments, [WIDTH - 335, 67, 67, 67, 67, 67], totals=[2, 5]), Spacer(1, 8)]
    story += [*_paragraphs(text.SEGMENTS_REVIEW), PageBreak()]
    story += [*_paragraphs(text.RISK_INTRO), _risks(), Spacer(1, 8), *_paragraphs(text.RISK_END), PageBreak()]
    story += [*_paragraphs(text.GOVERNANCE), PageBreak()]
    story += [Paragraph("Consolidated income statement", HEADING), *_paragraphs(text.YEAR_ENDED)]
    story += [_statement(figures.INCOME), Spacer(1, 12), *_paragraphs(text.OTHER_INCOME)]
    story += [_statement(figures.COMPREHENSIVE), PageBreak()]
    story += [Paragraph("Consolidated balance sheet", HEADING), *_paragraphs(text.AT_YEAR_END)]
    story += [_statement(figures.BALANCE), Spacer(1, 8), *_paragraphs(text.APPROVAL), PageBreak()]
    story += [Paragraph("Consolidated cash flow statement", HEADING), *_paragraphs(text.YEAR_ENDED)]
    story += [_statement(figures.CASH), Spacer(1, 12), *_paragraphs(text.CASH_NOTE), PageBreak()]
    story += [*_paragraphs(text.NOTES), figures_table(regions, [WIDTH - 160, 80, 80], totals=[5]), Spacer(1, 6)]
    story += _paragraphs(text.NOTES_END)
    return story


def write_report(path: Path) -> list[Fact]:
    """Write the PDF and return its facts."""
    title, author = "Annual Report 2025", "Aldermoor Instruments plc (invented)"
    document = BaseDocTemplate(str(path), pagesize=A4, title=title, author=author, invariant=1, lang="en-GB")
    column = (WIDTH - GAP) / 2
    box = {"leftPadding": 0, "rightPadding": 0}
    lead_height = 112.0

    def columns(name: str, height: float) -> list[Frame]:
        return [
            Frame(LEFT + number * (column + GAP), BOTTOM, column, height, id=f"{name}{number}", **box)
            for number in range(2)
        ]

    top = Frame(LEFT, BOTTOM + HEIGHT - lead_height, WIDTH, lead_height, id="lead", **box)
    whole = Frame(LEFT, BOTTOM, WIDTH, HEIGHT, id="whole", **box)
    document.addPageTemplates(
        [
            PageTemplate("cover", [Frame(LEFT, BOTTOM, WIDTH, HEIGHT, id="cover", **box)], onPage=_cover),
            PageTemplate("one", [whole], onPage=_decorate),
            PageTemplate("letter", [top, *columns("letter", HEIGHT - lead_height)], onPage=_decorate),
            PageTemplate("two", columns("two", HEIGHT), onPage=_decorate),
        ]
    )
    document.build(_story())
    return [
        Fact(question, "en", FILE, answer, accepted, page, quote)
        for question, answer, accepted, page, quote in text.FACTS
    ]

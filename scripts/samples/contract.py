"""The sample contract: a Chinese supply contract between two invented companies."""

from __future__ import annotations

from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    KeepTogether,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

from scripts.samples.contract_text import CLAUSES, DELIVERY, GOODS, PARTIES, PAYMENTS
from scripts.samples.style import GREY, INK, KAI, KAI_BOLD, PALE, RULE, TEAL, Fact, register_fonts

__all__ = ["FILE", "contract_facts", "write_contract"]

FILE = "supply-contract-zh.pdf"
NUMBER = "QWC-2025-0417"
WIDTH = A4[0] - 2 * 68

BODY = ParagraphStyle("zh", fontName=KAI, fontSize=11.5, leading=23.5, textColor=INK, wordWrap="CJK", spaceAfter=8)
INDENT = ParagraphStyle("zh-clause", parent=BODY, leftIndent=28, firstLineIndent=-28)
CLAUSE = ParagraphStyle(
    "zh-head", parent=BODY, fontName=KAI_BOLD, fontSize=12.5, textColor=TEAL, spaceBefore=9, keepWithNext=1
)
TITLE = ParagraphStyle("zh-title", parent=BODY, fontName=KAI_BOLD, fontSize=27, leading=40, alignment=1)
CENTRE = ParagraphStyle("zh-centre", parent=BODY, alignment=1, textColor=GREY, fontSize=12)


def _table(rows: list[list[str]], widths: list[float], total: bool = False) -> Table:
    table = Table(rows, colWidths=widths, repeatRows=1)
    style: list[tuple[object, ...]] = [
        ("FONT", (0, 0), (-1, -1), KAI, 10),
        ("FONT", (0, 0), (-1, 0), KAI_BOLD, 10),
        ("BACKGROUND", (0, 0), (-1, 0), PALE),
        ("TEXTCOLOR", (0, 0), (-1, -1), INK),
        ("GRID", (0, 0), (-1, -1), 0.6, RULE),
        ("ALIGN", (1, 0), (-1, -1), "CENTER"),
        ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
        ("TOPPADDING", (0, 0), (-1, -1), 5),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 6),
    ]
    if total:
        style += [("FONT", (0, -1), (-1, -1), KAI_BOLD, 10), ("BACKGROUND", (0, -1), (-1, -1), PALE)]
    table.setStyle(TableStyle(style))
    return table


def _decorate(canvas: Canvas, document: BaseDocTemplate) -> None:
    canvas.saveState()
    canvas.setStrokeColor(TEAL)
    canvas.setLineWidth(1.2)
    canvas.line(68, A4[1] - 52, A4[0] - 68, A4[1] - 52)
    canvas.setFillColor(GREY)
    canvas.setFont(KAI, 9)
    canvas.drawString(68, A4[1] - 46, "流量计采购合同")
    canvas.drawRightString(A4[0] - 68, A4[1] - 46, f"合同编号：{NUMBER}")
    canvas.drawCentredString(A4[0] / 2, 34, f"第 {document.page} 页")
    canvas.restoreState()


def _cover() -> list[Flowable]:
    rows = [[name, value] for name, value in PARTIES]
    table = Table(rows, colWidths=[110, WIDTH - 110])
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (0, -1), KAI_BOLD, 11.5),
                ("FONT", (1, 0), (1, -1), KAI, 11.5),
                ("TEXTCOLOR", (0, 0), (0, -1), TEAL),
                ("TEXTCOLOR", (1, 0), (1, -1), INK),
                ("LINEBELOW", (0, 0), (-1, -1), 0.5, RULE),
                ("TOPPADDING", (0, 0), (-1, -1), 8),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 9),
            ]
        )
    )
    return [
        Spacer(1, 90),
        Paragraph("流量计采购合同", TITLE),
        Spacer(1, 10),
        Paragraph(f"合同编号：{NUMBER}", CENTRE),
        Spacer(1, 60),
        table,
        Spacer(1, 60),
        Paragraph("本合同中的公司、地址、人员与金额均为虚构，仅供演示。", CENTRE),
        PageBreak(),
    ]


def _goods() -> Flowable:
    rows = [["名称及型号", "数量", "单价（元）", "金额（元）"]]
    rows += [[name, unit, f"{price:,.2f}", f"{count * price:,.2f}"] for name, unit, count, price in GOODS]
    rows.append(["合计", "", "", f"{sum(count * price for _, _, count, price in GOODS):,.2f}"])
    return _table(rows, [WIDTH - 270, 70, 95, 105], total=True)


def _delivery() -> Flowable:
    return _table([["批次", "交付内容", "最迟交付日期"], *map(list, DELIVERY)], [70, WIDTH - 210, 140])


def _payments() -> Flowable:
    total = sum(count * price for _, _, count, price in GOODS)
    rows = [["款项", "比例", "金额（元）", "支付条件"]]
    rows += [[name, f"{share}%", f"{total * share / 100:,.2f}", when] for name, share, when in PAYMENTS]
    return _table(rows, [70, 50, 100, WIDTH - 220])


def _signatures() -> Flowable:
    cells = [
        ["甲方（盖章）：青梧川水务有限公司", "乙方（盖章）：霁岚仪表制造有限公司"],
        ["授权代表（签字）：", "授权代表（签字）："],
        ["日期：2025年4月17日", "日期：2025年4月17日"],
    ]
    table = Table(cells, colWidths=[WIDTH / 2] * 2, rowHeights=[30, 46, 30])
    table.setStyle(TableStyle([("FONT", (0, 0), (-1, -1), KAI, 11), ("TEXTCOLOR", (0, 0), (-1, -1), INK)]))
    return KeepTogether([Spacer(1, 22), table])


def write_contract(path: Path) -> list[Fact]:
    """Write the PDF and return its facts."""
    register_fonts()
    document = BaseDocTemplate(
        str(path), pagesize=A4, title="流量计采购合同", author="青梧川水务有限公司（虚构）", invariant=1, lang="zh-CN"
    )
    frame = Frame(68, 58, WIDTH, A4[1] - 58 - 66, leftPadding=0, rightPadding=0)
    document.addPageTemplates([PageTemplate("page", [frame], onPage=_decorate)])
    story = _cover()
    tables = {"goods": _goods, "delivery": _delivery, "payments": _payments}
    for heading, paragraphs in CLAUSES:
        story.append(Paragraph(heading, CLAUSE))
        for text in paragraphs:
            if text in tables:
                story += [Spacer(1, 4), tables[text](), Spacer(1, 8)]
            else:
                story.append(Paragraph(text, INDENT))
    story.append(_signatures())
    document.build(story)
    return contract_facts()


def contract_facts() -> list[Fact]:
    """Return the questions that the contract answers; a test checks every page number against the PDF."""

    def fact(question: str, answer: str, page: int, quote: str, *accepted: str) -> Fact:
        return Fact(question, "zh", FILE, answer, accepted, page, quote)

    return [
        fact("合同总金额是多少？", "3,356,000.00", 2, "合同总金额为人民币3,356,000.00元", "3356000", "335.6万元"),
        fact("FM-350 超声波流量计的单价是多少？", "9,320.00", 2, "9,320.00", "9320"),
        fact("第二批货物最迟何时交付？", "2025年9月30日", 3, "2025年9月30日", "2025-09-30"),
        fact("预付款的金额是多少？", "1,006,800.00", 3, "1,006,800.00", "1006800"),
        fact("质量保证期为多少个月？", "36个月", 4, "质量保证期为36个月", "三十六个月"),
        fact("乙方应在接到故障通知后多少小时内到达现场？", "48小时", 4, "48小时内到达现场", "四十八小时"),
        fact("逾期交货违约金的上限是合同总金额的百分之几？", "8%", 4, "违约金累计不超过合同总金额的8%", "百分之八"),
        fact("保密义务在合同终止后持续多少年？", "5年", 5, "该义务在合同终止后持续5年", "五年"),
        fact("争议提交哪个仲裁机构？", "澄沙市仲裁委员会", 6, "澄沙市仲裁委员会"),
    ]

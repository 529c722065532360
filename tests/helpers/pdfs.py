"""Small real PDFs for tests, made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4
Draw = Callable[[Canvas], None]

PROSE = (
    "The lighthouse keeper counted the ships",
    "that passed the northern cape at dawn and",
    "wrote each of their names into a ledger",
    "bound in green cloth, as the harbour rules",
    "had asked of every keeper since the storm.",
)
OTHER_PROSE = (
    "Meanwhile the orchard on the southern hill",
    "gave fewer pears than in the year before,",
    "which the steward put down to late frost and",
    "to the bees that had left their hives in May",
    "without any sign of where they had gone.",
)
TABLE = (
    ("Revenue", "1,234", "1,100"),
    ("Cost of sales", "(848)", "(790)"),
    ("Gross profit", "386", "310"),
    ("Other income", "12", "9"),
)


def write(path: Path, pages: Sequence[Draw], password: str | None = None, title: str = "") -> Path:
    encrypt = None if password is None else StandardEncryption(password, ownerPassword="owner", strength=128)
    canvas = Canvas(str(path), pagesize=A4, encrypt=encrypt, invariant=1)
    canvas.setTitle(title)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return path


def text(*lines: str, x: float = 72, top: float = 100, size: float = 11, leading: float = 14) -> Draw:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", size)
        for index, line in enumerate(lines):
            canvas.drawString(x, HEIGHT - top - index * leading, line)

    return draw


def chinese(*lines: str) -> Draw:
    def draw(canvas: Canvas) -> None:
        pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
        canvas.setFont("STSong-Light", 11)
        for index, line in enumerate(lines):
            canvas.drawString(72, HEIGHT - 100 - index * 16, line)

    return draw


def two_columns(canvas: Canvas) -> None:
    text(*PROSE, x=60)(canvas)
    text(*OTHER_PROSE, x=320)(canvas)


def table_by_columns(canvas: Canvas) -> None:
    """Draws a table column by column, the numbers a little off the baseline of their labels."""
    canvas.setFont("Helvetica", 11)
    for column, (x, shift) in enumerate(((72, 0.0), (300, 1.5), (400, -1.5))):
        for row, cells in enumerate(TABLE):
            canvas.drawString(x, HEIGHT - 120 - row * 18 + shift, cells[column])


def picture(canvas: Canvas) -> None:
    """A page with an inline image and nothing else."""
    from PIL import Image
    from reportlab.lib.utils import ImageReader

    canvas.drawImage(ImageReader(Image.new("RGB", (40, 30), (200, 40, 40))), 100, 300, 200, 150)


def blank(canvas: Canvas) -> None:
    """A page with nothing on it."""


def rotated(degrees: int, draw: Draw) -> Draw:
    def both(canvas: Canvas) -> None:
        canvas.setPageRotation(degrees)
        if degrees in (90, 270):
            # The library swaps the sides for these; swapped before, the page keeps its own space.
            canvas.setPageSize((HEIGHT, WIDTH))
        draw(canvas)

    return both


def cropped(left: float, bottom: float, right: float, top: float, draw: Draw) -> Draw:
    def both(canvas: Canvas) -> None:
        canvas.setCropBox((left, bottom, right, top))
        draw(canvas)

    return both


def labelled(path: Path) -> Path:
    """Two pages labelled i, ii, then one labelled 1."""
    canvas = Canvas(str(path), pagesize=A4, invariant=1)
    for number, line in enumerate(("Foreword", "Contents", "Chapter one")):
        if number == 0:
            canvas.addPageLabel(0, style="ROMAN_LOWER", start=1)
        if number == 2:
            canvas.addPageLabel(2, style="ARABIC", start=1)
        text(line)(canvas)
        canvas.showPage()
    canvas.save()
    return path

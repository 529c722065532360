"""Pages, lines, boxes and pictures of real PDFs, read through the handler and checked by the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pypdfium2
import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_retrieval.model import Box, PageText
from muniment_retrieval.pdf.client import decode_opened, decode_page, decode_picture
from muniment_retrieval.pdf.handler import DocumentHandler
from muniment_retrieval.pdf.reader import PdfReader
from tests.helpers import pdfs


class Session:
    """A handler as its parent sees it, without the process between."""

    def __init__(self) -> None:
        self.handler = DocumentHandler(PdfReader())

    def open(self, path: Path, password: str | None = None) -> int:
        reply, _ = self.handler.handle("open", {"path": str(path), "password": password}, _no_event, _never)
        return decode_opened(reply, path.name).pages

    def page(self, number: int) -> PageText:
        events: list[Mapping[str, object]] = []
        self.handler.handle("pages", {"first": number, "last": number}, lambda e, _: events.append(e), _never)
        assert len(events) == 1
        return decode_page(events[0]["page"], number)


def _no_event(event: Mapping[str, object], raw: bytes | None) -> None:
    raise AssertionError("no event expected")


def _never() -> bool:
    return False


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.handler.close()


def _line(page: PageText, text: str) -> Box:
    return next(line.box for line in page.lines if text in line.text)


def test_lines_index_the_page_text_and_stand_where_they_were_drawn(session: Session, tmp_path: Path) -> None:
    session.open(pdfs.write(tmp_path / "a.pdf", [pdfs.text("First line here", "Second line")]))
    page = session.page(1)
    assert page.text == "First line here\nSecond line"
    assert [page.text[line.start : line.end] for line in page.lines] == ["First line here", "Second line"]
    x0, y0, x1, y1 = page.lines[0].box
    assert x0 == pytest.approx(72, abs=2)
    assert y0 < 100 < y1 + 2
    assert 60 < x1 - x0 < 90
    assert (page.width, page.height) == pytest.approx((pdfs.WIDTH, pdfs.HEIGHT), abs=0.1)


@pytest.mark.parametrize(
    ("degrees", "x", "y"),
    [(90, pdfs.HEIGHT - 100, 72), (180, pdfs.WIDTH - 72, pdfs.HEIGHT - 100), (270, 100, pdfs.WIDTH - 72)],
)
def test_boxes_follow_the_rotation_of_the_page(
    session: Session, tmp_path: Path, degrees: int, x: float, y: float
) -> None:
    session.open(pdfs.write(tmp_path / "r.pdf", [pdfs.rotated(degrees, pdfs.text("Turned text"))]))
    page = session.page(1)
    size = (pdfs.WIDTH, pdfs.HEIGHT) if degrees == 180 else (pdfs.HEIGHT, pdfs.WIDTH)
    assert (page.width, page.height) == pytest.approx(size, abs=0.1)
    box = page.lines[0].box
    # The start of the baseline, turned with the page, is a corner of the box.
    assert min(abs(box[0] - x), abs(box[2] - x)) < 4
    assert min(abs(box[1] - y), abs(box[3] - y)) < 4


def test_boxes_start_at_the_crop_box(session: Session, tmp_path: Path) -> None:
    draw = pdfs.cropped(50, 200, 550, 800, pdfs.text("Cropped text"))
    session.open(pdfs.write(tmp_path / "c.pdf", [draw]))
    page = session.page(1)
    assert (page.width, page.height) == pytest.approx((500.0, 600.0), abs=0.1)
    assert page.lines[0].box[0] == pytest.approx(72 - 50, abs=2)
    assert page.lines[0].box[3] == pytest.approx(100 - (pdfs.HEIGHT - 800), abs=4)


def test_box_in_the_picture_covers_the_ink(session: Session, tmp_path: Path) -> None:
    path = pdfs.write(tmp_path / "i.pdf", [pdfs.rotated(90, pdfs.text("INK INK INK"))])
    session.open(path)
    box = session.page(1).lines[0].box
    args = {"path": str(path), "page": 1, "scale": 1.0, "password": None}
    reply, raw = session.handler.handle("render", args, _no_event, _never)
    picture = decode_picture(reply, raw, 1, "a.pdf")
    dark = [
        (index % picture.width, index // picture.width)
        for index in range(picture.width * picture.height)
        if picture.rgb[3 * index] < 100
    ]
    assert dark
    inside = [1 for x, y in dark if box[0] - 2 <= x <= box[2] + 2 and box[1] - 2 <= y <= box[3] + 2]
    assert len(inside) == len(dark)


def test_rows_of_a_table_drawn_by_columns_are_put_together(session: Session, tmp_path: Path) -> None:
    session.open(pdfs.write(tmp_path / "t.pdf", [pdfs.table_by_columns]))
    assert session.page(1).text.split("\n") == [" ".join(row) for row in pdfs.TABLE]


def test_columns_of_prose_stay_apart(session: Session, tmp_path: Path) -> None:
    session.open(pdfs.write(tmp_path / "2.pdf", [pdfs.two_columns]))
    assert session.page(1).text == "\n".join(pdfs.PROSE + pdfs.OTHER_PROSE)


def test_chinese_without_embedded_font_is_read(session: Session, tmp_path: Path) -> None:
    session.open(pdfs.write(tmp_path / "z.pdf", [pdfs.chinese("营业收入为一百万元。", "净利润增长")]))
    assert session.page(1).text == "营业收入为一百万元。\n净利润增长"


def test_page_labels(session: Session, tmp_path: Path) -> None:
    assert session.open(pdfs.labelled(tmp_path / "l.pdf")) == 3
    assert [session.page(number).label for number in (1, 2, 3)] == ["i", "ii", "1"]


def test_picture_page_says_so_and_a_blank_page_is_no_error(session: Session, tmp_path: Path) -> None:
    session.open(pdfs.write(tmp_path / "p.pdf", [pdfs.picture, pdfs.blank]))
    assert session.page(1).error == "E-DOC-NO-TEXT"
    assert session.page(2).error is None


def test_page_beyond_the_end_is_an_error_of_that_page(session: Session, tmp_path: Path) -> None:
    path = pdfs.write(tmp_path / "e.pdf", [pdfs.text("one")])
    session.open(path)
    assert session.page(2).error == "E-DOC-PAGE"
    with pytest.raises(KnownError) as caught:
        session.handler.handle("render", {"path": str(path), "page": 9, "scale": 1.0}, _no_event, _never)
    assert caught.value.code == "E-DOC-PAGE"


def test_password(session: Session, tmp_path: Path) -> None:
    path = pdfs.write(tmp_path / "s.pdf", [pdfs.text("secret words")], password="sesame")
    for given, wrong in ((None, 0), ("open", 1)):
        with pytest.raises(KnownError) as caught:
            session.open(path, given)
        assert (caught.value.code, caught.value.params["wrong"]) == ("E-DOC-PASSWORD", wrong)
    session.open(path, "sesame")
    assert session.page(1).text == "secret words"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "E-DOC-EMPTY"),
        (b"just some text", "E-DOC-NOT-PDF"),
        (b"%PDF-1.7\nnothing behind the header", "E-DOC-DAMAGED"),
    ],
)
def test_files_that_are_no_usable_pdf(session: Session, tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(content)
    with pytest.raises(KnownError) as caught:
        session.open(path)
    assert caught.value.code == code


def test_truncated_file_is_damaged_or_readable_but_never_another_error(session: Session, tmp_path: Path) -> None:
    whole = pdfs.write(tmp_path / "w.pdf", [pdfs.text("one"), pdfs.text("two")]).read_bytes()
    path = tmp_path / "cut.pdf"
    codes = set()
    for size in range(9, len(whole), 37):
        path.write_bytes(whole[:size])
        try:
            session.open(path)
        except KnownError as error:
            codes.add(error.code)
    assert "E-DOC-DAMAGED" in codes
    assert codes <= {"E-DOC-DAMAGED", "E-DOC-EMPTY"}


def test_render_stays_under_the_pixel_cap(session: Session, tmp_path: Path) -> None:
    path = pdfs.write(tmp_path / "big.pdf", [pdfs.text("x")])
    args = {"path": str(path), "page": 1, "scale": 1000.0}
    reply, raw = session.handler.handle("render", args, _no_event, _never)
    picture = decode_picture(reply, raw, 1, "a.pdf")
    assert 30_000_000 < picture.width * picture.height <= 40_000_000
    assert picture.scale == pytest.approx(picture.width / pdfs.WIDTH)


def test_unknown_operation_is_a_bug(session: Session) -> None:
    with pytest.raises(BugError):
        session.handler.handle("format", {}, _no_event, _never)


def test_closing_a_reader_leaves_pdfium_to_others(tmp_path: Path) -> None:
    path = pdfs.write(tmp_path / "a.pdf", [pdfs.text(*pdfs.PROSE)])
    first, second = PdfReader(), PdfReader()
    second.open(path)
    first.close()
    assert second.read(1).text.startswith(pdfs.PROSE[0])
    second.close()
    with pypdfium2.PdfDocument(path) as document:
        assert len(document) == 1

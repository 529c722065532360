"""Reads and draws pages with PDFium. Runs only inside a caged child: public files are known to kill this library.

Calls go to PDFium once a line, never once a character: that is what makes 100 pages a second possible from Python.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pypdfium2.raw as pdfium

from muniment_resources.errors import KnownError
from muniment_retrieval.model import Box, Line, PageText, RenderedPage
from muniment_retrieval.pdf import limits
from muniment_retrieval.pdf.layout import SOFT_HYPHEN, Fragment, join_rows, same_baseline, union
from muniment_retrieval.ports import OpenedDocument

__all__ = ["PdfReader"]

_LINE_END_HYPHEN = "\ufffe"
_MAGIC = b"%PDF-"
_MAGIC_WINDOW = 1024
_WORD = re.compile(r"\S+")
_ERROR_PASSWORD = 4
_FORM_VERSION = 2
_MAX_OBJECTS_SEEN = 1000
_MANY_PATHS = 20


def _map_file(path: Path) -> mmap.mmap:
    """Map a regular file privately. Opened without blocking, so that a pipe put in its place cannot hang us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise KnownError("E-DOC-DAMAGED", name=path.name) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KnownError("E-DOC-NOT-PDF", name=path.name)
        if status.st_size == 0:
            raise KnownError("E-DOC-EMPTY", name=path.name)
        if status.st_size > limits.MAX_FILE_BYTES:
            raise KnownError("E-DOC-LIMIT", name=path.name)
        # Copy-on-write: PDFium takes a plain pointer, which ctypes gives only for writable memory.
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    finally:
        os.close(descriptor)


def _shows_something(page: Any) -> bool:
    """Whether a page without text has a picture, letters without meaning, or strokes enough to be letters."""
    paths = 0
    for index in range(min(pdfium.FPDFPage_CountObjects(page), _MAX_OBJECTS_SEEN)):
        kind = pdfium.FPDFPageObj_GetType(pdfium.FPDFPage_GetObject(page, index))
        if kind in (
            pdfium.FPDF_PAGEOBJ_TEXT,
            pdfium.FPDF_PAGEOBJ_IMAGE,
            pdfium.FPDF_PAGEOBJ_FORM,
            pdfium.FPDF_PAGEOBJ_SHADING,
        ):
            return True
        paths += kind == pdfium.FPDF_PAGEOBJ_PATH
    return paths >= _MANY_PATHS


class PdfReader:
    """One open document at a time. Not thread-safe, as PDFium is not.

    Everything is closed in the reverse order of opening: text page, page, form, document, memory.
    """

    def __init__(self) -> None:
        # The package initialises PDFium when it is imported and ends it with the process; a second owner of that
        # state would pull it away from under the first.
        self._map: mmap.mmap | None = None
        self._buffer: Any = None
        self._document: Any = None
        self._name = ""
        self._path: Path | None = None
        self._pages = 0

    def open(self, path: Path, password: str | None = None) -> OpenedDocument:
        """Open a file; see ``ports.DocumentReader.open`` for the errors."""
        self.close_document()
        self._name = path.name[: limits.MAX_NAME_CHARS]
        mapped = _map_file(path)
        if mapped.find(_MAGIC, 0, _MAGIC_WINDOW + len(_MAGIC)) < 0:
            mapped.close()
            raise KnownError("E-DOC-NOT-PDF", name=self._name)
        self._map = mapped
        self._buffer = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        secret = None if password is None else password.encode("utf-8")
        document = pdfium.FPDF_LoadMemDocument64(self._buffer, len(mapped), secret)
        if not document:
            code = pdfium.FPDF_GetLastError()
            self.close_document()
            if code == _ERROR_PASSWORD:
                raise KnownError("E-DOC-PASSWORD", name=self._name, wrong=int(password is not None))
            raise KnownError("E-DOC-DAMAGED", name=self._name)
        self._document = document
        self._path = path
        self._pages = pdfium.FPDF_GetPageCount(document)
        if self._pages <= 0:
            self.close_document()
            raise KnownError("E-DOC-EMPTY", name=self._name)
        if self._pages > limits.MAX_PAGES:
            self.close_document()
            raise KnownError("E-DOC-LIMIT", name=self._name)
        return OpenedDocument(self._pages, self._title())

    def is_open(self, path: Path) -> bool:
        """Whether this file is the one that is open."""
        return self._document is not None and self._path == path

    def read(self, number: int) -> PageText:
        """Read page ``number`` (1-based). A page that cannot be read has its ``error`` set."""
        label = str(number)
        width = height = 0.0
        try:
            with self._page(number) as page:
                label = self._label(number)
                width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
                rows = join_rows(self._fragments(page, number))
                error = "E-DOC-NO-TEXT" if not rows and _shows_something(page) else None
        except KnownError as known:
            return PageText(number, label, "", (), width, height, known.code)
        lines: list[Line] = []
        position = 0
        for row in rows:
            lines.append(Line(row.text, position, position + len(row.text), row.box))
            position += len(row.text) + 1
        return PageText(number, label, "\n".join(row.text for row in rows), tuple(lines), width, height, error)

    def render(self, number: int, scale: float) -> RenderedPage:
        """Draw page ``number`` on white; ``scale`` is lowered where the picture would pass the pixel cap.

        Raises:
            KnownError: ``E-DOC-PAGE``: no such page, or it cannot be drawn.
        """
        scale = min(max(scale, limits.MIN_SCALE), limits.MAX_SCALE)
        with self._form() as form, self._page(number) as page:
            width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
            if not (0 < width < limits.MAX_PAGE_POINTS and 0 < height < limits.MAX_PAGE_POINTS):
                raise KnownError("E-DOC-PAGE", name=self._name, page=number)
            scale = min(
                scale, (limits.MAX_PIXELS / (width * height)) ** 0.5, limits.MAX_SIDE_PIXELS / max(width, height)
            )
            columns, rows = max(1, int(width * scale)), max(1, int(height * scale))
            bitmap = pdfium.FPDFBitmap_CreateEx(columns, rows, pdfium.FPDFBitmap_BGR, None, 0)
            if not bitmap:
                raise KnownError("E-DOC-PAGE", name=self._name, page=number)
            try:
                pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, columns, rows, 0xFFFFFFFF)
                flags = pdfium.FPDF_ANNOT | pdfium.FPDF_REVERSE_BYTE_ORDER
                pdfium.FPDF_RenderPageBitmap(bitmap, page, 0, 0, columns, rows, 0, flags)
                if form is not None:
                    pdfium.FPDF_FFLDraw(form, bitmap, page, 0, 0, columns, rows, 0, flags)
                stride = pdfium.FPDFBitmap_GetStride(bitmap)
                pixels = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), stride * rows)
            finally:
                pdfium.FPDFBitmap_Destroy(bitmap)
        if stride != columns * 3:
            pixels = b"".join(pixels[row * stride : row * stride + columns * 3] for row in range(rows))
        return RenderedPage(number, columns, rows, columns / width, pixels)

    def close_document(self) -> None:
        """Close the open document, if any."""
        if self._document is not None:
            pdfium.FPDF_CloseDocument(self._document)
            self._document = None
        self._buffer = None
        self._path = None
        self._pages = 0
        if self._map is not None:
            # The pointer object may still be referenced by a traceback; the map then goes with the process.
            with suppress(BufferError):
                self._map.close()
            self._map = None

    def close(self) -> None:
        """Close everything."""
        self.close_document()

    @contextmanager
    def _page(self, number: int) -> Iterator[Any]:
        page = pdfium.FPDF_LoadPage(self._document, number - 1) if 1 <= number <= self._pages else None
        if not page:
            raise KnownError("E-DOC-PAGE", name=self._name, page=number)
        try:
            yield page
        finally:
            pdfium.FPDF_ClosePage(page)

    @contextmanager
    def _form(self) -> Iterator[Any]:
        """Form environment for drawing field contents; no script engine is part of the build."""
        if self._document is None or pdfium.FPDF_GetFormType(self._document) == pdfium.FORMTYPE_NONE:
            yield None
            return
        settings = pdfium.FPDF_FORMFILLINFO(version=_FORM_VERSION)
        form = pdfium.FPDFDOC_InitFormFillEnvironment(self._document, settings)
        try:
            yield form or None
        finally:
            if form:
                pdfium.FPDFDOC_ExitFormFillEnvironment(form)

    def _label(self, number: int) -> str:
        needed = pdfium.FPDF_GetPageLabel(self._document, number - 1, None, 0)
        if not 2 < needed <= 2 * (limits.MAX_LABEL_CHARS + 1):
            return str(number)
        buffer = ctypes.create_string_buffer(needed)
        pdfium.FPDF_GetPageLabel(self._document, number - 1, buffer, needed)
        return buffer.raw[: needed - 2].decode("utf-16-le", "replace").strip() or str(number)

    def _title(self) -> str:
        needed = pdfium.FPDF_GetMetaText(self._document, b"Title", None, 0)
        if not 2 < needed <= 1 << 20:
            return ""
        buffer = ctypes.create_string_buffer(needed)
        pdfium.FPDF_GetMetaText(self._document, b"Title", buffer, needed)
        return buffer.raw[: needed - 2].decode("utf-16-le", "replace").strip()[: limits.MAX_TITLE_CHARS]

    def _fragments(self, page: Any, number: int) -> list[Fragment]:
        text_page = pdfium.FPDFText_LoadPage(page)
        if not text_page:
            raise KnownError("E-DOC-PAGE", name=self._name, page=number)
        try:
            count = pdfium.FPDFText_CountChars(text_page)
            if count < 0:
                raise KnownError("E-DOC-PAGE", name=self._name, page=number)
            if count == 0:
                return []
            if count > limits.MAX_PAGE_CHARS:
                raise KnownError("E-DOC-LIMIT", name=self._name)
            units = (ctypes.c_ushort * (2 * count + 2))()
            written = pdfium.FPDFText_GetText(text_page, 0, count, units)
            text = ctypes.string_at(units, 2 * max(0, written - 1)).decode("utf-16-le", "replace")
            # PDFium counts characters; it leaves some out of the text, and only then the indexes differ.
            shifted = len(text) != count
            boxes = _Boxes(page, text_page, shifted)
            fragments: list[Fragment] = []
            position = 0
            for line in text.split("\n"):
                start = position
                position += len(line) + 1
                pieces = line.rstrip("\r").split(_LINE_END_HYPHEN)
                for index, piece in enumerate(pieces):
                    hyphen = index + 1 < len(pieces)
                    if piece.strip():
                        fragments.extend(_baselines(boxes, piece, start, hyphen))
                    start += len(piece) + 1
            if len(fragments) > limits.MAX_PAGE_LINES:
                raise KnownError("E-DOC-LIMIT", name=self._name)
            return fragments
        finally:
            pdfium.FPDFText_ClosePage(text_page)


def _baselines(boxes: _Boxes, piece: str, start: int, hyphen: bool) -> list[Fragment]:
    """Return one fragment, or several where PDFium ran words of different baselines together."""
    box = boxes.of(start, start + len(piece) + hyphen)
    if not boxes.jumped:
        return [Fragment(piece + SOFT_HYPHEN if hyphen else piece, box, hyphen)]
    fragments: list[Fragment] = []
    for match in _WORD.finditer(piece):
        last = hyphen and match.end() == len(piece)
        box = boxes.of(start + match.start(), start + match.end() + last)
        if fragments and same_baseline(fragments[-1].box, box):
            before = fragments[-1]
            fragments[-1] = Fragment(f"{before.text} {match.group()}", union(before.box, box), last)
        else:
            fragments.append(Fragment(match.group(), box, last))
    if fragments and fragments[-1].hyphen:
        fragments[-1] = Fragment(fragments[-1].text + SOFT_HYPHEN, fragments[-1].box, True)
    return fragments


class _Boxes:
    """Boxes of character ranges, turned into points with the origin at the top left of the page as shown."""

    def __init__(self, page: Any, text_page: Any, shifted: bool) -> None:
        self._text_page = text_page
        self._shifted = shifted
        bounds = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, bounds)
        self._left, self._bottom, self._right, self._top = bounds.left, bounds.bottom, bounds.right, bounds.top
        self._rotation = pdfium.FPDFPage_GetRotation(page)
        self._width, self._height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
        across = (bounds.top - bounds.bottom) if self._rotation % 2 else (bounds.right - bounds.left)
        # Differs from 1 only for files that declare a user unit.
        self._unit = self._width / across if across > 0 else 1.0
        self._out = tuple(ctypes.c_double() for _ in range(4))
        self.jumped = False
        """Whether the last range had words above or below its first ones."""

    def of(self, start: int, end: int) -> Box:
        """Return the union of the boxes of the characters ``start..end`` (text offsets), clipped to the page."""
        if self._shifted:
            first = pdfium.FPDFText_GetCharIndexFromTextIndex(self._text_page, start)
            last = pdfium.FPDFText_GetCharIndexFromTextIndex(self._text_page, end - 1)
            start, end = (first, last + 1) if 0 <= first <= last else (start, end)
        count = pdfium.FPDFText_CountRects(self._text_page, start, end - start)
        left, top, right, bottom = self._out
        self.jumped = False
        x0 = y0 = float("inf")
        x1 = y1 = float("-inf")
        read, text_page = pdfium.FPDFText_GetRect, self._text_page
        upright = self._rotation % 2 == 0
        for index in range(count):
            read(text_page, index, left, top, right, bottom)
            rect_left, rect_top, rect_right, rect_bottom = left.value, top.value, right.value, bottom.value
            if index and upright and (rect_bottom > y1 + 1 or rect_top < y0 - 1):
                # Not for pages turned by a quarter: there, text may run up the page on purpose.
                self.jumped = True
            # Not min() and max(): a page has up to thousands of rectangles, and the calls are an eighth of reading it.
            if rect_left < x0:  # noqa: PLR1730
                x0 = rect_left
            if rect_right > x1:  # noqa: PLR1730
                x1 = rect_right
            if rect_bottom < y0:  # noqa: PLR1730
                y0 = rect_bottom
            if rect_top > y1:  # noqa: PLR1730
                y1 = rect_top
        if x0 > x1:
            return (0.0, 0.0, 0.0, 0.0)
        return self._shown(x0, y0, x1, y1)

    def _shown(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        if self._rotation == 0:
            box = (x0 - self._left, self._top - y1, x1 - self._left, self._top - y0)
        elif self._rotation == 1:
            box = (y0 - self._bottom, x0 - self._left, y1 - self._bottom, x1 - self._left)
        elif self._rotation == 2:
            box = (self._right - x1, y0 - self._bottom, self._right - x0, y1 - self._bottom)
        else:
            box = (self._top - y1, self._right - x1, self._top - y0, self._right - x0)
        unit = self._unit
        return (
            min(max(box[0] * unit, 0.0), self._width),
            min(max(box[1] * unit, 0.0), self._height),
            min(max(box[2] * unit, 0.0), self._width),
            min(max(box[3] * unit, 0.0), self._height),
        )

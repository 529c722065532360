"""Checks what a document worker sent before anyone believes it. Pure.

The worker reads hostile files and may have been taken over by one, so its replies are as untrusted as the file:
every type, count, size and number is checked again, and text is cleaned before offsets are computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from muniment_resources.errors import KnownError
from muniment_retrieval.model import Box, Line, PageText, RenderedPage
from muniment_retrieval.pdf import limits
from muniment_retrieval.pdf.hygiene import clean_line, clean_name
from muniment_retrieval.ports import OpenedDocument

__all__ = ["PAGE_ERRORS", "decode_opened", "decode_page", "decode_picture", "failed_page"]

PAGE_ERRORS = frozenset({"E-DOC-PAGE", "E-DOC-LIMIT", "E-DOC-CRASH", "E-DOC-NO-TEXT"})
"""Codes that a page may carry."""


def failed_page(number: int, code: str) -> PageText:
    """Return a page that could not be read."""
    return PageText(number, str(number), "", (), 0.0, 0.0, code)


def decode_opened(untrusted: Mapping[str, object], name: str) -> OpenedDocument:
    """Return the reply to ``open``.

    Raises:
        KnownError: ``E-DOC-DAMAGED`` or ``E-DOC-LIMIT`` when the reply is not one that a sound worker gives.
    """
    pages, title = untrusted.get("pages"), untrusted.get("title")
    if not isinstance(pages, int) or isinstance(pages, bool) or pages < 1 or not isinstance(title, str):
        raise KnownError("E-DOC-DAMAGED", name=name)
    if pages > limits.MAX_PAGES:
        raise KnownError("E-DOC-LIMIT", name=name)
    return OpenedDocument(pages, clean_name(title, limits.MAX_TITLE_CHARS))


def _number(untrusted: object, upper: float) -> float | None:
    if isinstance(untrusted, bool) or not isinstance(untrusted, (int, float)):
        return None
    value = float(untrusted)
    return value if math.isfinite(value) and 0 <= value <= upper else None


def _boxes(untrusted: object, count: int, width: float, height: float) -> list[Box] | None:
    if not isinstance(untrusted, list) or len(untrusted) != 4 * count:
        return None
    values: list[float] = []
    for item in untrusted:
        value = _number(item, limits.MAX_PAGE_POINTS * 100)
        if value is None:
            return None
        values.append(value / 100)
    boxes: list[Box] = []
    for start in range(0, len(values), 4):
        x0, y0, x1, y1 = values[start : start + 4]
        x0, x1, y0, y1 = min(x0, width), min(x1, width), min(y0, height), min(y1, height)
        if x1 < x0 or y1 < y0:
            return None
        boxes.append((x0, y0, x1, y1))
    return boxes


def decode_page(untrusted: object, number: int) -> PageText:
    """Return page ``number`` from an event; one that breaks the rules becomes a page with an error, never a lie."""
    broken = failed_page(number, "E-DOC-PAGE")
    if not isinstance(untrusted, Mapping) or untrusted.get("n") != number:
        return broken
    text, label, error = untrusted.get("text"), untrusted.get("label"), untrusted.get("error")
    width = _number(untrusted.get("w"), limits.MAX_PAGE_POINTS)
    height = _number(untrusted.get("h"), limits.MAX_PAGE_POINTS)
    if not isinstance(text, str) or not isinstance(label, str) or width is None or height is None:
        return broken
    label = clean_name(label, limits.MAX_LABEL_CHARS) or str(number)
    if error is not None:
        code = error if isinstance(error, str) and error in PAGE_ERRORS else "E-DOC-PAGE"
        return PageText(number, label, "", (), width, height, code)
    # Rows can gain a joining character for each fragment, hence the factor.
    if len(text) > 2 * limits.MAX_PAGE_CHARS:
        return failed_page(number, "E-DOC-LIMIT")
    pieces = text.split("\n") if text else []
    if len(pieces) > limits.MAX_PAGE_LINES:
        return failed_page(number, "E-DOC-LIMIT")
    boxes = _boxes(untrusted.get("boxes"), len(pieces), width, height)
    if boxes is None:
        return broken
    lines: list[Line] = []
    position = 0
    for piece, box in zip(pieces, boxes, strict=True):
        cleaned = clean_line(piece)
        if not cleaned.strip():
            continue
        lines.append(Line(cleaned, position, position + len(cleaned), box))
        position += len(cleaned) + 1
    return PageText(number, label, "\n".join(line.text for line in lines), tuple(lines), width, height)


def decode_picture(
    untrusted: Mapping[str, object], untrusted_pixels: bytes | None, page: int, name: str
) -> RenderedPage:
    """Return the reply to ``render``.

    Raises:
        KnownError: ``E-DOC-PAGE`` when sizes and pixels do not agree.
    """
    width, height = untrusted.get("width"), untrusted.get("height")
    scale = _number(untrusted.get("scale"), 10 * limits.MAX_SCALE)
    sound = (
        isinstance(width, int)
        and isinstance(height, int)
        and 0 < width <= limits.MAX_SIDE_PIXELS
        and 0 < height <= limits.MAX_SIDE_PIXELS
        and width * height <= limits.MAX_PIXELS
        and scale is not None
        and scale > 0
        and untrusted_pixels is not None
        and len(untrusted_pixels) == width * height * 3
    )
    if not sound:
        raise KnownError("E-DOC-PAGE", name=name, page=page)
    assert isinstance(width, int)
    assert isinstance(height, int)
    assert scale is not None
    assert untrusted_pixels is not None
    return RenderedPage(page, width, height, scale, untrusted_pixels)

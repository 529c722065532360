"""Frozen values of retrieval: pages, lines, chunks, passages, evidence, citations.

Pages are physical and 1-based. Boxes are PDF points with the origin at the top left of the page as it is shown
(rotation and crop applied): ``(x0, y0, x1, y1)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "Box",
    "Chunk",
    "Citation",
    "DocumentInfo",
    "DocumentStatus",
    "Evidence",
    "Line",
    "PageText",
    "Passage",
    "RenderedPage",
    "Sentence",
    "Support",
]

Box: TypeAlias = tuple[float, float, float, float]


class DocumentStatus(StrEnum):
    """How far a document can be used."""

    READY = "ready"
    PARTIAL = "partial"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Line:
    """One visual line: its raw text, the character offsets in the page text, and its box."""

    text: str
    start: int
    end: int
    box: Box


@dataclass(frozen=True)
class PageText:
    r"""Text of one page.

    Attributes:
        number: Physical page, 1-based.
        label: The printed label (``iv``, ``A-3``) when the file defines one, else the number as text.
        text: Raw text, lines joined by ``\n``; ``lines`` index into it.
        width, height: Size as shown, in points.
        error: Code when the page could not be read, else ``None``.
    """

    number: int
    label: str
    text: str
    lines: tuple[Line, ...]
    width: float
    height: float
    error: str | None = None


@dataclass(frozen=True)
class Chunk:
    """A passage of one page that is searched and cited as a unit.

    Attributes:
        header: Context line (title, section, column heads): searched with the text, shown to the model once.
        text: Raw text of the chunk: ``page.text[start:end]``.
    """

    page: int
    ordinal: int
    header: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class DocumentInfo:
    """One document of the library.

    Attributes:
        document_id: Stable short id (derived from the content hash).
        name: File name for people.
        reason: Error code with its parameters when something could not be read, else ``None``.
    """

    document_id: str
    name: str
    path: str
    sha256: str
    size_bytes: int
    status: DocumentStatus
    pages: int
    readable_pages: int
    ocr_pages: int
    reason: str | None = None
    reason_params: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Passage:
    """A search hit. ``score`` is larger for better hits; ``boxes`` are the boxes of its lines."""

    chunk_id: int
    document_id: str
    document: str
    page: int
    label: str
    header: str
    text: str
    start: int
    score: float
    coverage: float
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """A passage as it is (or is not) handed to the model. ``n`` is its citation number, 1-based, 0 when unused."""

    n: int
    passage: Passage
    text: str
    tokens: int
    used: bool


class Support(StrEnum):
    """How well the cited text carries a sentence."""

    EXACT = "exact"
    STRONG = "strong"
    PARTIAL = "partial"
    NONE = "none"


@dataclass(frozen=True)
class Citation:
    """A located quote: where on which page the proof stands.

    Attributes:
        n: Number in the answer, 1-based, in the order of first use.
        evidence: ``Evidence.n`` of the passage that the quote stands in; 0 when unknown.
    """

    n: int
    document_id: str
    document: str
    page: int
    quote: str
    boxes: tuple[Box, ...]
    support: Support
    evidence: int = 0


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer with the citations that carry it."""

    text: str
    support: Support
    citations: tuple[int, ...]


@dataclass(frozen=True)
class RenderedPage:
    """Pixels of a page: ``rgb`` has ``width * height * 3`` bytes, rows top down, no padding."""

    page: int
    width: int
    height: int
    scale: float
    rgb: bytes

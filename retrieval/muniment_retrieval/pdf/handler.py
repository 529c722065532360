"""Serves the requests of a document worker: a pure mapping from request to reply around the PDFium reader.

It has the shape of the runtime's ``Handler`` Protocol, which this package may not import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

from muniment_resources.errors import BugError
from muniment_retrieval.model import PageText, RenderedPage
from muniment_retrieval.ports import OpenedDocument

__all__ = ["DocumentHandler", "Engine", "encode_page"]

Json: TypeAlias = dict[str, object]
Reply: TypeAlias = tuple[Json, bytes | None]
Emit: TypeAlias = Callable[[Json, bytes | None], None]


class Engine(Protocol):
    """What the handler needs of a reader; ``pdf.reader.PdfReader`` is one."""

    def open(self, path: Path, password: str | None = None) -> OpenedDocument:
        """Open a file."""
        ...

    def is_open(self, path: Path) -> bool:
        """Whether this file is open."""
        ...

    def read(self, number: int) -> PageText:
        """Read one page."""
        ...

    def render(self, number: int, scale: float) -> RenderedPage:
        """Draw one page."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


def encode_page(page: PageText) -> Json:
    """Return a page as compact JSON: lines are the pieces of ``text``, boxes four hundredths of a point each."""
    return {
        "n": page.number,
        "label": page.label,
        "w": round(page.width, 2),
        "h": round(page.height, 2),
        "text": page.text,
        "boxes": [round(value * 100) for line in page.lines for value in line.box],
        "error": page.error,
    }


def _text(args: Mapping[str, object], name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str):
        raise BugError(f"argument {name} of a document request is not text")
    return value


def _integer(args: Mapping[str, object], name: str) -> int:
    value = args.get(name)
    if not isinstance(value, int):
        raise BugError(f"argument {name} of a document request is not an integer")
    return value


class DocumentHandler:
    """Operations of a document worker.

    * ``open {path, password}`` gives ``{pages, title}``
    * ``pages {first, last}`` gives one event ``{page}`` for each page, then ``{}``
    * ``render {path?, page, scale, password}`` gives ``{page, width, height, scale}`` and raw RGB pixels
    * ``close`` gives ``{}``
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        """Serve one request.

        Raises:
            KnownError: The file or page cannot be read.
            BugError: The parent asked for something that is no operation.
        """
        if op == "open":
            opened = self._open(args)
            return {"pages": opened.pages, "title": opened.title}, None
        if op == "pages":
            for number in range(_integer(args, "first"), _integer(args, "last") + 1):
                if cancelled():
                    break
                emit({"page": encode_page(self._engine.read(number))}, None)
            return {}, None
        if op == "render":
            return self._render(args)
        if op == "close":
            self._engine.close()
            return {}, None
        raise BugError(f"unknown document operation {op!r}")

    def close(self) -> None:
        """Free everything."""
        self._engine.close()

    def _open(self, args: Mapping[str, object]) -> OpenedDocument:
        password = args.get("password")
        return self._engine.open(Path(_text(args, "path")), password if isinstance(password, str) else None)

    def _render(self, args: Mapping[str, object]) -> Reply:
        if args.get("path") is not None and not self._engine.is_open(Path(_text(args, "path"))):
            self._open(args)
        scale = args.get("scale")
        if not isinstance(scale, (int, float)):
            raise BugError("argument scale of a document request is not a number")
        picture = self._engine.render(_integer(args, "page"), float(scale))
        reply: Json = {
            "page": picture.page,
            "width": picture.width,
            "height": picture.height,
            "scale": picture.scale,
        }
        return reply, picture.rgb

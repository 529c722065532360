"""What retrieval needs from others, as Protocols. Implemented over caged workers by the app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from muniment_retrieval.model import PageText, RenderedPage

__all__ = ["DocumentReader", "OpenedDocument"]


@dataclass(frozen=True)
class OpenedDocument:
    """A file that could be opened: number of pages and its title from the metadata (may be empty)."""

    pages: int
    title: str


class DocumentReader(Protocol):
    """Reads pages of untrusted files. A crash of the parser is an error of that page, never of the caller."""

    def open(self, path: Path, password: str | None = None) -> OpenedDocument:
        """Open a file.

        Raises:
            KnownError: ``E-DOC-PASSWORD``, ``E-DOC-DAMAGED``, ``E-DOC-EMPTY``, ``E-DOC-NOT-PDF``, ``E-DOC-LIMIT``.
        """
        ...

    def pages(self, first: int, last: int, cancelled: Callable[[], bool]) -> Iterator[PageText]:
        """Yield the pages ``first..last`` (1-based, inclusive) of the opened file, in order, each exactly once.

        A page that cannot be read has its ``error`` set.
        """
        ...

    def render(self, path: Path, page: int, scale: float, password: str | None = None) -> RenderedPage:
        """Render one page; ``scale`` is pixels per point.

        Raises:
            KnownError: As ``open``; ``E-DOC-PAGE`` when there is no such page.
        """
        ...

    def capabilities(self) -> dict[str, bool]:
        """Return which layers of the cage are active in the worker, by name."""
        ...

    def close(self) -> None:
        """End the worker. Idempotent."""
        ...

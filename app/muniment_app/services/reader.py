"""Reads documents through a caged child process and outlives whatever a file does to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from muniment_resources.errors import BugError, KnownError
from muniment_retrieval.model import PageText, RenderedPage
from muniment_retrieval.pdf import limits
from muniment_retrieval.pdf.client import decode_opened, decode_page, decode_picture, failed_page
from muniment_retrieval.pdf.hygiene import clean_name
from muniment_retrieval.ports import OpenedDocument
from muniment_runtime.contracts import Clock
from muniment_runtime.worker.child import Child, Timing
from muniment_runtime.worker.protocol import Json
from muniment_runtime.worker.spawn import Spawner

__all__ = ["CagedReader"]

_ROLE = "document"
_BATCH_PAGES = 16
_CHILD_GONE = frozenset({"E-WORKER-DIED", "E-WORKER-TIMEOUT", "E-WORKER-MEMORY", "E-WORKER-REPLY-SIZE", "E-WORKER-BUG"})
_CANCELLED = "E-CANCELLED"


class CagedReader:
    """A ``DocumentReader`` over one child at a time. Used from one thread at a time.

    A child that dies takes one page with it: that page is reported as failed, a new child opens the file again and
    goes on with the next page. The child is replaced after some documents, so that no file inherits what an earlier
    one left in its memory for long.

    Args:
        spawner: Starts the child (role ``document``).
        page_s: Longest time for one page.
        open_s: Longest time for opening a file.
        recycle_after: Documents that one child may read.
        crashes_per_document: After so many lost pages the rest of a document is given up and reported as failed.
        timing: Budgets of the child.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        spawner: Spawner,
        *,
        page_s: float = 20.0,
        open_s: float = 30.0,
        recycle_after: int = 50,
        crashes_per_document: int = 20,
        timing: Timing | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._spawner = spawner
        self._page_s = page_s
        self._open_s = open_s
        self._recycle_after = recycle_after
        self._crashes_per_document = crashes_per_document
        self._timing = timing
        self._clock = clock
        self._child: Child | None = None
        self._read_documents = 0
        self._file: tuple[Path, str | None] | None = None
        self._child_has_file = False

    def open(self, path: Path, password: str | None = None) -> OpenedDocument:
        """Open a file; see ``ports.DocumentReader``.

        Raises:
            KnownError: Also ``E-DOC-CRASH`` when the file stops the child, ``E-WORKER-START`` when no child starts.
        """
        self._file = None
        if self._read_documents >= self._recycle_after:
            self.close()
        opened = self._open(path, password)
        self._read_documents += 1
        self._file = (path, password)
        return opened

    def pages(self, first: int, last: int, cancelled: Callable[[], bool]) -> Iterator[PageText]:
        """Yield pages in order, each exactly once; ends early only when cancelled."""
        if self._file is None:
            raise BugError("pages asked for without an open document")
        number, crashes = first, 0
        while number <= last and not cancelled():
            if crashes >= self._crashes_per_document:
                yield failed_page(number, "E-DOC-CRASH")
                number += 1
                continue
            received, lost = self._batch(number, min(number + _BATCH_PAGES - 1, last), cancelled)
            yield from received
            number += len(received)
            if lost and number <= last:
                crashes += 1
                yield failed_page(number, "E-DOC-CRASH")
                number += 1

    def render(self, path: Path, page: int, scale: float, password: str | None = None) -> RenderedPage:
        """Draw a page; see ``ports.DocumentReader``.

        Raises:
            KnownError: Also ``E-DOC-CRASH`` when drawing stops the child.
        """
        args: Json = {"path": str(path), "page": page, "scale": scale, "password": password}
        self._child_has_file = False
        reply, pixels = self._request("render", args, path.name, self._page_s)
        return decode_picture(reply, pixels, page, clean_name(path.name, limits.MAX_NAME_CHARS))

    def capabilities(self) -> dict[str, bool]:
        """Return the layers of the cage that the child itself found active."""
        reported = self._ready().hello().get("capabilities")
        layers = reported if isinstance(reported, dict) else {}
        return {str(name): bool(active) for name, active in layers.items()}

    def close(self) -> None:
        """End the child. Idempotent; the reader can be used again and then starts another."""
        child, self._child = self._child, None
        self._child_has_file = False
        self._read_documents = 0
        if child is not None:
            child.stop()

    def _open(self, path: Path, password: str | None) -> OpenedDocument:
        self._child_has_file = False
        reply, _ = self._request("open", {"path": str(path), "password": password}, path.name, self._open_s)
        opened = decode_opened(reply, path.name)
        self._child_has_file = True
        return opened

    def _ready(self) -> Child:
        if self._child is None or not self._child.alive:
            self._child = Child(self._spawner, _ROLE, self._timing, self._clock)
            self._child_has_file = False
            # A child that cannot even start is our trouble, not the file's.
            self._child.hello()
        return self._child

    def _discard(self) -> None:
        child, self._child = self._child, None
        self._child_has_file = False
        if child is not None:
            child.kill()

    def _request(self, op: str, args: Json, name: str, timeout_s: float) -> tuple[Json, bytes | None]:
        child = self._ready()
        try:
            return child.request(op, args, timeout_s=timeout_s)
        except KnownError as error:
            if error.code in _CHILD_GONE:
                self._discard()
                raise KnownError("E-DOC-CRASH", name=clean_name(name, limits.MAX_NAME_CHARS)) from error
            raise

    def _batch(self, first: int, last: int, cancelled: Callable[[], bool]) -> tuple[list[PageText], bool]:
        """Read some pages; return those that came and whether the next one was lost."""
        assert self._file is not None
        received: list[PageText] = []
        try:
            if not self._child_has_file:
                self._open(*self._file)
        except KnownError:
            # The file opened before; now it does not, so this page cannot be had.
            return received, True
        child = self._ready()
        last_sign = self._clock()

        def take(event: Json, _raw: bytes | None) -> None:
            nonlocal last_sign
            last_sign = self._clock()
            if len(received) <= last - first:
                received.append(decode_page(event.get("page"), first + len(received)))

        def late() -> bool:
            return self._clock() - last_sign > self._page_s

        try:
            child.request(
                "pages", {"first": first, "last": last}, on_event=take, cancelled=lambda: cancelled() or late()
            )
        except KnownError as error:
            if error.code == _CANCELLED and not late():
                return received, False
            self._discard()
            return received, True
        # A handler that ends early was cancelled between two pages, by us or because a page took too long.
        return received, len(received) <= last - first and not cancelled()

"""Brings documents in, lists, searches, shows and removes them: the services behind ``index`` and its relatives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muniment_app.services.api import Cancelled, IndexProgress, PasswordPrompt, Record
from muniment_app.services.discovery import Found, discover, hash_file
from muniment_resources.errors import KnownError
from muniment_retrieval.model import DocumentInfo, DocumentStatus, Line, Passage, RenderedPage
from muniment_retrieval.pdf import limits
from muniment_retrieval.pdf.hygiene import clean_name
from muniment_retrieval.ports import DocumentReader, OpenedDocument
from muniment_retrieval.search import Searcher
from muniment_retrieval.store.library import Library
from muniment_runtime.contracts import Clock

__all__ = ["DocumentService"]

_BATCH_PAGES = 32
_MAX_PASSWORD_TRIES = 5
_MIN_FREE_BYTES = 64 * 1024 * 1024


def _content(found: Found) -> str:
    """Return the hash by which the content of a file is known."""
    if found.skip is not None:
        raise KnownError(found.skip, name=clean_name(found.path.name, limits.MAX_NAME_CHARS))
    return hash_file(found.path)


@dataclass
class _Progress:
    """Where an indexing run stands; bytes are the measure of how long the rest will take."""

    report: Callable[[IndexProgress], None]
    clock: Clock
    started_s: float
    files: int
    total_bytes: int
    number: int = 0
    done_bytes: int = 0

    def send(self, found: Found, page: int, pages: int, finished: DocumentInfo | None = None) -> None:
        part = page / pages if pages else 0.0
        done = self.done_bytes + part * found.size_bytes
        elapsed = self.clock() - self.started_s
        left = elapsed * (self.total_bytes - done) / done if done > 0 else None
        name = clean_name(found.path.name, limits.MAX_NAME_CHARS)
        self.report(IndexProgress(name, self.number, self.files, page, pages, left, finished))


class DocumentService:
    """Implements ``IndexService``, ``LibraryService`` and ``PageService`` over one library.

    Passwords are kept in memory only, for as long as the program runs: a page of an encrypted document can be shown
    in the session that knows its password.

    Args:
        library: The workspace's library.
        searcher: Over the same library.
        readers: Makes a caged reader; one is used for each indexing run and one for pictures.
        audit: Called before an effect becomes visible; if it raises, the effect does not happen.
        free_bytes: Returns the free space where the library lies.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        library: Library,
        searcher: Searcher,
        readers: Callable[[], DocumentReader],
        audit: Record,
        free_bytes: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._library = library
        self._searcher = searcher
        self._readers = readers
        self._audit = audit
        self._free_bytes = free_bytes
        self._clock = clock
        self._index_lock = threading.Lock()
        self._render_lock = threading.Lock()
        self._painter: DocumentReader | None = None
        self._passwords: dict[str, str] = {}
        self._verified: dict[str, tuple[str, int, int]] = {}

    # -- IndexService

    def index(
        self,
        paths: Sequence[Path],
        on_progress: Callable[[IndexProgress], None],
        password: PasswordPrompt,
        cancelled: Cancelled,
    ) -> list[DocumentInfo]:
        """Index files and folders; see ``api.IndexService``. When cancelled, returns what was done so far."""
        files = discover(paths)
        with self._index_lock:
            total = sum(found.size_bytes for found in files)
            progress = _Progress(on_progress, self._clock, self._clock(), len(files), total)
            records: list[DocumentInfo] = []
            reader = self._readers()
            try:
                for found in files:
                    if cancelled():
                        break
                    progress.number += 1
                    progress.send(found, 0, 0)
                    record = self._take_in(found, reader, progress, password, cancelled)
                    progress.done_bytes += found.size_bytes
                    records.append(record)
                    progress.send(found, 0, 0, record)
            finally:
                reader.close()
        return records

    def _take_in(
        self, found: Found, reader: DocumentReader, progress: _Progress, password: PasswordPrompt, cancelled: Cancelled
    ) -> DocumentInfo:
        name = clean_name(found.path.name, limits.MAX_NAME_CHARS)
        try:
            sha256 = _content(found)
        except KnownError as error:
            return self._left_out(found, name, error)
        try:
            if not self._library.is_complete(sha256):
                self._check_space(found.size_bytes)
                opened = self._open(found, name, sha256, reader, password)
                self._read(found, name, sha256, opened, reader, progress, cancelled)
        except KnownError as error:
            if not error.code.startswith("E-DOC-"):
                raise
            return self._reject(found, name, sha256, error)
        return self._record(found, name, self._library.id_for(sha256))

    def _check_space(self, size_bytes: int) -> None:
        """Text and index of a document are smaller than its file; refuse before half of it is written."""
        need, free = _MIN_FREE_BYTES + size_bytes, self._free_bytes()
        if free < need:
            raise KnownError("E-DISK-SPACE", need_bytes=need, free_bytes=free)

    def _open(
        self, found: Found, name: str, sha256: str, reader: DocumentReader, password: PasswordPrompt
    ) -> OpenedDocument:
        secret = self._passwords.get(sha256)
        for _ in range(_MAX_PASSWORD_TRIES):
            try:
                opened = reader.open(found.path, secret)
            except KnownError as error:
                if error.code != "E-DOC-PASSWORD":
                    raise
                answer = password(name, secret is not None)
                if answer is None:
                    raise
                secret = answer
            else:
                if secret is not None:
                    self._passwords[sha256] = secret
                return opened
        raise KnownError("E-DOC-PASSWORD", name=name, wrong=1)

    def _read(
        self,
        found: Found,
        name: str,
        sha256: str,
        opened: OpenedDocument,
        reader: DocumentReader,
        progress: _Progress,
        cancelled: Cancelled,
    ) -> None:
        document_id, first = self._library.begin(sha256, name, found.size_bytes, opened.pages, opened.title)
        while first <= opened.pages:
            last = min(first + _BATCH_PAGES - 1, opened.pages)
            pages = list(reader.pages(first, last, cancelled))
            self._library.add_pages(document_id, pages)
            first += len(pages)
            progress.send(found, first - 1, opened.pages)
            if cancelled():
                return
        prepared = self._library.prepare(document_id)
        fields: dict[str, object] = {
            "document": document_id,
            "bytes": found.size_bytes,
            "pages": opened.pages,
            "readable_pages": prepared.readable_pages,
            "code": prepared.reason or "",
        }
        self._audit("document.added", fields, {"name": name})
        self._audit("index.built", {"document": document_id, "passages": len(prepared.chunks)}, {})
        self._library.publish(prepared)

    def _record(self, found: Found, name: str, document_id: str) -> DocumentInfo:
        """Remember that this file holds the document, and drop what the same file held before."""
        orphan = self._library.add_source(document_id, str(found.path), name)
        if orphan is not None:
            self.remove(orphan)
        return replace(self._library.find(document_id), name=name, path=str(found.path))

    def _reject(self, found: Found, name: str, sha256: str, error: KnownError) -> DocumentInfo:
        document_id = self._library.id_for(sha256)
        fields: dict[str, object] = {"document": document_id, "bytes": found.size_bytes, "code": error.code}
        self._audit("document.rejected", fields, {"name": name})
        self._library.reject(sha256, name, found.size_bytes, error)
        return self._record(found, name, document_id)

    def _left_out(self, found: Found, name: str, error: KnownError) -> DocumentInfo:
        """Report something that has no content to know it by."""
        self._audit(
            "document.rejected", {"document": "", "bytes": found.size_bytes, "code": error.code}, {"name": name}
        )
        return DocumentInfo(
            document_id="",
            name=name,
            path=str(found.path),
            sha256="",
            size_bytes=found.size_bytes,
            status=DocumentStatus.REJECTED,
            pages=0,
            readable_pages=0,
            ocr_pages=0,
            reason=error.code,
            reason_params=dict(error.params),
        )

    # -- LibraryService

    def documents(self) -> list[DocumentInfo]:
        """Return all documents, in order of arrival."""
        return self._library.documents()

    def find(self, reference: str) -> DocumentInfo:
        """Return the one document with this id, id prefix or file name; see ``api.LibraryService``."""
        return self._library.find(reference)

    def remove(self, document_id: str) -> None:
        """Remove a document and everything derived from it (not the file itself)."""
        info = self._library.find(document_id)
        self._audit("document.removed", {"document": info.document_id, "pages": info.pages}, {"name": info.name})
        self._passwords.pop(info.sha256, None)
        self._library.remove(info.document_id)

    def search(self, query: str, k: int = 8, documents: Sequence[str] = ()) -> list[Passage]:
        """Return the best passages, best first."""
        return self._searcher.search(query, k, documents)

    def page_text(self, document_id: str, page: int) -> str:
        """Return the stored text of a page."""
        return self._library.page(document_id, page).text

    def page_size(self, document_id: str, page: int) -> tuple[float, float]:
        """Return width and height of a page as it is shown, in points; zeros when the page could not be read."""
        return self._library.page_size(document_id, page)

    def is_relevant(self, question: str, passages: Sequence[Passage]) -> bool:
        """Whether the passages touch the question at all; if not, no model needs to be asked."""
        return self._searcher.is_relevant(question, passages)

    def chunk_lines(self, chunk_id: int) -> Sequence[Line]:
        """Return the lines of a passage with their boxes."""
        return self._library.chunk_lines(chunk_id)

    # -- PageService

    def capabilities(self) -> dict[str, bool]:
        """Return which layers of the cage are active, as the document worker itself reports them."""
        with self._render_lock:
            return self._paint_worker().capabilities()

    def render(self, document_id: str, page: int, scale: float) -> RenderedPage:
        """Draw a page of the file that was indexed, and of no other.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``, ``E-DOC-GONE`` or ``E-DOC-CHANGED`` when no file with the indexed content
                is left, ``E-DOC-PASSWORD``, ``E-DOC-PAGE``, ``E-DOC-CRASH``.
        """
        info = self._library.find(document_id)
        path = self._intact_file(info)
        with self._render_lock:
            return self._paint_worker().render(path, page, scale, self._passwords.get(info.sha256))

    def _paint_worker(self) -> DocumentReader:
        if self._painter is None:
            self._painter = self._readers()
        return self._painter

    def _intact_file(self, info: DocumentInfo) -> Path:
        changed = False
        for source in self._library.sources(info.document_id):
            path = Path(source)
            try:
                status = path.stat()
            except OSError:
                continue
            state = (info.sha256, status.st_mtime_ns, status.st_size)
            if self._verified.get(source) != state:
                if hash_file(path) != info.sha256:
                    changed = True
                    continue
                self._verified[source] = state
            return path
        raise KnownError("E-DOC-CHANGED" if changed else "E-DOC-GONE", name=info.name)

    def close(self) -> None:
        """End the worker that draws pages. Idempotent."""
        with self._render_lock:
            painter, self._painter = self._painter, None
        if painter is not None:
            painter.close()

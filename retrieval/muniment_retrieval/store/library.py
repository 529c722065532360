"""The documents of one workspace: pages, lines, passages and the full-text index, in one encrypted database.

Writing goes step by step and can stop anywhere: pages are committed in batches, and a document that was begun goes
on after its last committed page. Passages are made when all pages are there (running heads are only known then), in
one transaction with the document's final state: a document is searchable as a whole or not at all.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlcipher3.dbapi2 as sqlcipher

from muniment_resources.errors import BugError, KnownError
from muniment_retrieval.chunking import chunk_document, repeated_lines, telling_title
from muniment_retrieval.model import DocumentInfo, DocumentStatus, Line, PageText
from muniment_retrieval.normalise import cjk_terms, fold, tokens
from muniment_retrieval.store.database import connect
from muniment_retrieval.store.packing import pack_lines, unpack_lines
from muniment_retrieval.store.schema import migrate

__all__ = ["ChunkRow", "Library", "Prepared", "index_columns"]

_CHUNK_BITS = 20


@dataclass(frozen=True)
class ChunkRow:
    """A stored chunk with the document it belongs to."""

    chunk_id: int
    document_id: str
    document: str
    page: int
    label: str
    header: str
    text: str
    start: int


@dataclass(frozen=True)
class Prepared:
    """Passages of a document before they become visible, and what is known of its pages."""

    document_id: str
    readable_pages: int
    reason: str | None
    reason_params: Mapping[str, int]
    chunks: tuple[tuple[int, int, int, str, int, int], ...]
    columns: tuple[tuple[int, str, str, str], ...]


def index_columns(header: str, text: str) -> tuple[str, str, str]:
    """Return what the full-text table is given for a passage: header words, body words, CJK bigrams of both."""
    folded_header, folded_text = fold(header), fold(text)
    bigrams = cjk_terms(folded_header) + cjk_terms(folded_text)
    return " ".join(tokens(folded_header)), " ".join(tokens(folded_text)), " ".join(bigrams)


def _info(row: Sequence[Any]) -> DocumentInfo:
    row = row[1:]
    return DocumentInfo(
        document_id=row[0],
        name=row[1],
        path=row[2],
        sha256=row[3],
        size_bytes=row[4],
        # A document whose reading was interrupted is, for people, one that is partly there.
        status=DocumentStatus.PARTIAL if row[5] == "reading" else DocumentStatus(row[5]),
        pages=row[6],
        readable_pages=row[7],
        ocr_pages=row[8],
        reason="E-DOC-UNFINISHED" if row[5] == "reading" else row[9],
        reason_params=json.loads(row[10]),
    )


class Library:
    """All access goes through one connection under one lock; long work is done outside of it.

    Args:
        path: Database file, created when missing.
        key: 32 bytes.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self._lock = threading.RLock()
        self._database = connect(path, key)
        self._database.execute("PRAGMA secure_delete=ON").fetchone()
        migrate(self._database)

    def close(self) -> None:
        """Close the database. Idempotent."""
        with self._lock:
            self._database.conn.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction; a full disk rolls it back and becomes ``E-DISK-FULL``."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._database.execute("COMMIT")
                except BaseException:
                    if self._database.conn.in_transaction:
                        self._database.execute("ROLLBACK")
                    raise
            except sqlcipher.OperationalError as error:
                if "full" in str(error):
                    raise KnownError("E-DISK-FULL") from error
                raise
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise KnownError("E-DISK-FULL") from error
                raise

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return list(self._database.execute(sql, tuple(parameters)).fetchall())

    def _row_id(self, document_id: str) -> int:
        rows = self._rows("SELECT id FROM document WHERE document_id = ?", (document_id,))
        if not rows:
            raise KnownError("E-DOC-UNKNOWN", reference=document_id)
        return int(rows[0][0])

    # -- bringing documents in

    def known(self, sha256: str) -> DocumentInfo | None:
        """Return the document with this content, if there is one in any state."""
        rows = self._rows("SELECT * FROM information WHERE sha256 = ?", (sha256,))
        return _info(rows[0]) if rows else None

    def is_complete(self, sha256: str) -> bool:
        """Whether this content is fully read and searchable."""
        return bool(self._rows("SELECT 1 FROM document WHERE sha256 = ? AND status IN ('ready', 'partial')", (sha256,)))

    def begin(self, sha256: str, name: str, size_bytes: int, pages: int, title: str) -> tuple[str, int]:
        """Start or resume a document.

        Returns:
            Its id and the first page that is still to be read.
        """
        with self._transaction():
            rows = self._rows("SELECT id, status, pages FROM document WHERE sha256 = ?", (sha256,))
            if rows and (rows[0][1] == "rejected" or rows[0][2] != pages):
                # Other outcome than last time (a password is known now): start over.
                self._drop(int(rows[0][0]), keep_sources=True)
            document_id = self.id_for(sha256)
            self._database.execute(
                "INSERT INTO document (document_id, sha256, name, title, size_bytes, status, pages)"
                " VALUES (?, ?, ?, ?, ?, 'reading', ?) ON CONFLICT (sha256) DO UPDATE SET"
                " status = 'reading', pages = excluded.pages, title = excluded.title,"
                " reason = NULL, reason_params = '{}'"
                " WHERE status IN ('rejected', 'reading')",
                (document_id, sha256, name, title, size_bytes, pages),
            )
            row_id = self._row_id(document_id)
            done = self._rows("SELECT coalesce(max(number), 0) FROM page WHERE document = ?", (row_id,))[0][0]
        return document_id, int(done) + 1

    def id_for(self, sha256: str) -> str:
        """Return the id that content has or will get: a short piece of its hash, longer where that is taken."""
        rows = self._rows("SELECT document_id FROM document WHERE sha256 = ?", (sha256,))
        if rows:
            return str(rows[0][0])
        for length in range(12, len(sha256) + 1, 4):
            if not self._rows("SELECT 1 FROM document WHERE document_id = ?", (sha256[:length],)):
                return sha256[:length]
        raise BugError("a content hash is stored twice")

    def add_pages(self, document_id: str, pages: Sequence[PageText]) -> None:
        """Store a batch of pages in one transaction.

        Raises:
            KnownError: ``E-DISK-FULL``: nothing of the batch is stored.
        """
        row_id = self._row_id(document_id)
        rows = [
            (row_id, page.number, page.label, page.text, pack_lines(page.lines), page.width, page.height, page.error)
            for page in pages
        ]
        with self._transaction():
            self._database.conn.executemany("INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def prepare(self, document_id: str) -> Prepared:
        """Cut a document whose pages are all stored into passages, without making anything visible.

        Raises:
            KnownError: ``E-DOC-LIMIT`` when it has more passages than a document can have.
        """
        row_id = self._row_id(document_id)
        name, title = self._rows("SELECT name, title FROM document WHERE id = ?", (row_id,))[0]
        repeated = repeated_lines(self._pages(row_id))
        rows: list[tuple[int, int, int, str, int, int]] = []
        columns: list[tuple[int, str, str, str]] = []
        for chunk in chunk_document(self._pages(row_id), telling_title(title, name), repeated):
            if chunk.ordinal >= 1 << _CHUNK_BITS:
                raise KnownError("E-DOC-LIMIT", name=name)
            chunk_id = row_id << _CHUNK_BITS | chunk.ordinal
            rows.append((chunk_id, row_id, chunk.page, chunk.header, chunk.start, chunk.end))
            columns.append((chunk_id, *index_columns(chunk.header, chunk.text)))
        stored = self._rows("SELECT error, text = '' FROM page WHERE document = ?", (row_id,))
        # A blank page between others is in order; a document of blank pages has not been read.
        blank = all(row[1] for row in stored)
        errors = [str(row[0] or "E-DOC-NO-TEXT") for row in stored if row[0] is not None or blank]
        reason, params = _outcome(errors, len(stored))
        return Prepared(document_id, len(stored) - len(errors), reason, params, tuple(rows), tuple(columns))

    def publish(self, prepared: Prepared) -> DocumentInfo:
        """Make a prepared document searchable.

        Raises:
            KnownError: ``E-DISK-FULL``: the document stays unfinished and can be resumed.
        """
        row_id = self._row_id(prepared.document_id)
        with self._transaction():
            self._clear_chunks(row_id)
            self._database.conn.executemany("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?)", prepared.chunks)
            self._database.conn.executemany(
                "INSERT INTO passage (rowid, header, body, cjk) VALUES (?, ?, ?, ?)", prepared.columns
            )
            self._database.execute(
                "UPDATE document SET status = ?, readable_pages = ?, reason = ?, reason_params = ? WHERE id = ?",
                (
                    "partial" if prepared.reason else "ready",
                    prepared.readable_pages,
                    prepared.reason,
                    json.dumps(dict(prepared.reason_params)),
                    row_id,
                ),
            )
        return self.find(prepared.document_id)

    def reject(self, sha256: str, name: str, size_bytes: int, error: KnownError) -> DocumentInfo:
        """Record a file that cannot be used; its content is tried again at the next run."""
        with self._transaction():
            rows = self._rows("SELECT id FROM document WHERE sha256 = ?", (sha256,))
            if rows:
                self._drop(int(rows[0][0]), keep_sources=True)
            document_id = self.id_for(sha256)
            self._database.execute(
                "INSERT INTO document"
                " (document_id, sha256, name, title, size_bytes, status, pages, reason, reason_params)"
                " VALUES (?, ?, ?, '', ?, 'rejected', 0, ?, ?) ON CONFLICT (sha256) DO UPDATE SET status = 'rejected',"
                " pages = 0, readable_pages = 0, reason = excluded.reason, reason_params = excluded.reason_params",
                (document_id, sha256, name, size_bytes, error.code, json.dumps(dict(error.params))),
            )
        return self.find(document_id)

    def add_source(self, document_id: str, path: str, name: str) -> str | None:
        """Record that a file holds this document.

        Returns:
            The id of a document that no file holds any more, because this path held it before.
        """
        row_id = self._row_id(document_id)
        with self._transaction():
            before = self._rows("SELECT document FROM source WHERE path = ?", (path,))
            self._database.execute(
                "INSERT INTO source (path, name, document) VALUES (?, ?, ?)"
                " ON CONFLICT (path) DO UPDATE SET document = excluded.document, name = excluded.name",
                (path, name, row_id),
            )
            if not before or before[0][0] == row_id:
                return None
            left = self._rows(
                "SELECT document_id FROM document WHERE id = ? AND NOT EXISTS"
                " (SELECT 1 FROM source WHERE document = document.id)",
                (before[0][0],),
            )
        return str(left[0][0]) if left else None

    # -- reading

    def documents(self) -> list[DocumentInfo]:
        """Return all documents in order of arrival."""
        return [_info(row) for row in self._rows("SELECT * FROM information ORDER BY id")]

    def find(self, reference: str) -> DocumentInfo:
        """Return the one document with this id, id prefix (4 characters or more) or file name.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``, ``E-DOC-AMBIGUOUS``.
        """
        exact = self._rows("SELECT * FROM information WHERE document_id = ?", (reference,))
        if exact:
            return _info(exact[0])
        rows = self._rows(
            "SELECT * FROM information d WHERE name = ?1"
            " OR EXISTS (SELECT 1 FROM source WHERE document = d.id AND name = ?1)"
            " OR (length(?1) >= 4 AND substr(document_id, 1, length(?1)) = lower(?1)) ORDER BY id",
            (reference,),
        )
        if not rows:
            raise KnownError("E-DOC-UNKNOWN", reference=reference)
        if len(rows) > 1:
            raise KnownError("E-DOC-AMBIGUOUS", reference=reference, n=len(rows))
        return _info(rows[0])

    def sources(self, document_id: str) -> list[str]:
        """Return the paths of the files that hold this document, oldest first."""
        row_id = self._row_id(document_id)
        return [
            str(row[0]) for row in self._rows("SELECT path FROM source WHERE document = ? ORDER BY rowid", (row_id,))
        ]

    def page(self, document_id: str, number: int) -> PageText:
        """Return one page.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``; ``E-DOC-PAGE`` when there is no such page.
        """
        rows = self._rows(
            "SELECT number, label, text, lines, width, height, error FROM page WHERE document = ? AND number = ?",
            (self._row_id(document_id), number),
        )
        if not rows:
            raise KnownError("E-DOC-PAGE", name=self.find(document_id).name, page=number)
        return _page(rows[0])

    def page_size(self, document_id: str, number: int) -> tuple[float, float]:
        """Return width and height of a page in points; zeros when the page could not be read.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``; ``E-DOC-PAGE`` when there is no such page.
        """
        rows = self._rows(
            "SELECT width, height FROM page WHERE document = ? AND number = ?", (self._row_id(document_id), number)
        )
        if not rows:
            raise KnownError("E-DOC-PAGE", name=self.find(document_id).name, page=number)
        return float(rows[0][0]), float(rows[0][1])

    def _pages(self, row_id: int) -> Iterator[PageText]:
        """Yield all pages, a few at a time: a document may be larger than we want to hold."""
        first = 0
        while True:
            rows = self._rows(
                "SELECT number, label, text, lines, width, height, error FROM page"
                " WHERE document = ? AND number > ? ORDER BY number LIMIT 64",
                (row_id, first),
            )
            if not rows:
                return
            for row in rows:
                yield _page(row)
            first = int(rows[-1][0])

    def chunk_lines(self, chunk_id: int) -> tuple[Line, ...]:
        """Return the lines that a chunk touches, whole."""
        rows = self._rows(
            "SELECT p.text, p.lines, c.first, c.last FROM chunk c"
            " JOIN page p ON p.document = c.document AND p.number = c.page WHERE c.id = ?",
            (chunk_id,),
        )
        if not rows:
            return ()
        text, blob, first, last = rows[0]
        return tuple(line for line in unpack_lines(blob, text) if line.start < last and line.end > first)

    # -- searching

    def passage_count(self) -> int:
        """Return the number of passages in the index."""
        return int(self._rows("SELECT count(*) FROM chunk")[0][0])

    def term_counts(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many passages each stem occurs."""
        found: dict[str, int] = {}
        for stem in stems:
            rows = self._rows("SELECT doc FROM passage_terms WHERE term = ?", (stem,))
            found[stem] = int(rows[0][0]) if rows else 0
        return found

    def match(
        self, expression: str, weights: tuple[float, float, float], limit: int, document_id: str | None = None
    ) -> list[tuple[int, float]]:
        """Return ids and BM25 scores (larger is better) of the best passages for a full-text expression.

        Args:
            expression: FTS5 query, built by ``search`` from quoted terms only.
            weights: Of header, body and CJK bigrams.
            limit: Number of passages.
            document_id: Search only this document.
        """
        first, last = 0, (1 << 63) - 1
        if document_id is not None:
            row_id = self._row_id(document_id)
            first, last = row_id << _CHUNK_BITS, (row_id + 1 << _CHUNK_BITS) - 1
        rows = self._rows(
            "SELECT rowid, -bm25(passage, ?, ?, ?) AS score FROM passage"
            " WHERE passage MATCH ? AND rowid BETWEEN ? AND ? ORDER BY score DESC, rowid LIMIT ?",
            (*weights, expression, first, last, limit),
        )
        return [(int(row[0]), float(row[1])) for row in rows]

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Return stored chunks by id."""
        rows = self._rows(
            "SELECT c.id, d.document_id, d.name, c.page, p.label, c.header,"
            " substr(p.text, c.first + 1, c.last - c.first), c.first"
            " FROM json_each(?) j JOIN chunk c ON c.id = j.value JOIN document d ON d.id = c.document"
            " JOIN page p ON p.document = c.document AND p.number = c.page",
            (json.dumps(list(chunk_ids)),),
        )
        return {int(row[0]): ChunkRow(*row) for row in rows}

    # -- taking documents out

    def remove(self, document_id: str) -> None:
        """Remove a document with pages, passages and index entries; freed space is overwritten.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``.
        """
        with self._transaction():
            self._drop(self._row_id(document_id), keep_sources=False)
        with self._lock:
            # Older versions of the pages may still lie in the write-ahead log.
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _drop(self, row_id: int, keep_sources: bool) -> None:
        self._clear_chunks(row_id)
        self._database.execute("DELETE FROM page WHERE document = ?", (row_id,))
        if not keep_sources:
            self._database.execute("DELETE FROM document WHERE id = ?", (row_id,))

    def _clear_chunks(self, row_id: int) -> None:
        """Delete passages from table and index; the index has to be told what had been inserted."""
        rows = self._rows(
            "SELECT c.id, c.header, substr(p.text, c.first + 1, c.last - c.first) FROM chunk c"
            " JOIN page p ON p.document = c.document AND p.number = c.page WHERE c.document = ?",
            (row_id,),
        )
        self._database.conn.executemany(
            "INSERT INTO passage (passage, rowid, header, body, cjk) VALUES ('delete', ?, ?, ?, ?)",
            [(row[0], *index_columns(row[1], row[2])) for row in rows],
        )
        self._database.execute("DELETE FROM chunk WHERE document = ?", (row_id,))


def _page(row: Sequence[Any]) -> PageText:
    number, label, text, blob, width, height, error = row
    return PageText(number, label, text, unpack_lines(blob, text), width, height, error)


def _outcome(errors: Sequence[str], total: int) -> tuple[str | None, Mapping[str, int]]:
    """Say why a document is not fully usable: pages that failed weigh more than pages that are pictures."""
    failed = sum(error != "E-DOC-NO-TEXT" for error in errors)
    if failed:
        return "E-DOC-PAGES-FAILED", {"n": failed, "pages": total}
    if errors:
        return "E-DOC-NO-TEXT", {"n": len(errors), "pages": total}
    return None, {}

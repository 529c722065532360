"""The store: batches, resume, replacement, real removal, a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_retrieval.model import DocumentStatus, PageText
from muniment_retrieval.store.database import connect
from muniment_retrieval.store.library import Library
from muniment_retrieval.store.schema import VERSION
from tests.helpers.pages import page

KEY = b"k" * 32
WEIGHTS = (1.0, 1.0, 1.0)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    made = Library(tmp_path / "library.db", KEY)
    yield made
    made.close()


def _add(library: Library, sha256: str, name: str, pages: list[PageText]) -> str:
    document_id, first = library.begin(sha256, name, 1000, len(pages), "")
    library.add_pages(document_id, pages[first - 1 :])
    library.publish(library.prepare(document_id))
    return document_id


def _hits(library: Library, word: str, document_id: str | None = None) -> list[int]:
    return [chunk_id for chunk_id, _ in library.match(f'"{word}"', WEIGHTS, 10, document_id)]


def test_pages_lines_and_chunks_come_back_as_stored(library: Library) -> None:
    pages = [page(1, ["Harbour fees 1,234", "Second line"]), page(2, ["营业收入增长"])]
    document_id = _add(library, "a" * 64, "a.pdf", pages)
    assert library.page(document_id, 1) == pages[0]
    assert library.page_size(document_id, 2) == (pages[1].width, pages[1].height)
    with pytest.raises(KnownError, match="E-DOC-PAGE"):
        library.page_size(document_id, 3)
    (chunk_id,) = _hits(library, "harbour")
    row = library.chunks([chunk_id])[chunk_id]
    assert (row.page, row.text) == (1, pages[0].text)
    assert [line.text for line in library.chunk_lines(chunk_id)] == ["Harbour fees 1,234", "Second line"]
    assert _hits(library, "1234") == [chunk_id]
    assert len(_hits(library, "收入")) == 1


def test_interrupted_document_goes_on_after_the_last_batch_and_is_not_searchable_before(library: Library) -> None:
    document_id, first = library.begin("a" * 64, "a.pdf", 10, 3, "")
    assert first == 1
    library.add_pages(document_id, [page(1, ["harbour"]), page(2, ["harbour"])])
    assert _hits(library, "harbour") == []
    assert library.find(document_id).reason == "E-DOC-UNFINISHED"
    assert library.begin("a" * 64, "a.pdf", 10, 3, "") == (document_id, 3)
    library.add_pages(document_id, [page(3, ["harbour"])])
    info = library.publish(library.prepare(document_id))
    assert (info.status, info.readable_pages, info.reason) == (DocumentStatus.READY, 3, None)
    assert len(_hits(library, "harbour")) == 3


def test_failed_and_picture_pages_are_counted(library: Library) -> None:
    pages = [page(1, ["text"]), page(2, [], "E-DOC-CRASH"), page(3, [], "E-DOC-NO-TEXT"), page(4, [])]
    info = library.find(_add(library, "a" * 64, "a.pdf", pages))
    assert (info.status, info.pages, info.readable_pages) == (DocumentStatus.PARTIAL, 4, 2)
    assert (info.reason, info.reason_params) == ("E-DOC-PAGES-FAILED", {"n": 1, "pages": 4})


def test_document_without_any_text_is_never_ready(library: Library) -> None:
    info = library.find(_add(library, "a" * 64, "a.pdf", [page(1, []), page(2, [])]))
    assert (info.status, info.readable_pages, info.reason) == (DocumentStatus.PARTIAL, 0, "E-DOC-NO-TEXT")


def test_search_in_one_document_only(library: Library) -> None:
    one = _add(library, "a" * 64, "a.pdf", [page(1, ["harbour fees"])])
    two = _add(library, "b" * 64, "b.pdf", [page(1, ["harbour dues"])])
    assert len(_hits(library, "harbour")) == 2
    rows = library.chunks(_hits(library, "harbour", two))
    assert [row.document_id for row in rows.values()] == [two]
    assert one != two


def test_removal_removes_rows_index_terms_and_bytes(library: Library, tmp_path: Path) -> None:
    document_id = _add(library, "a" * 64, "a.pdf", [page(1, ["zebrafish harbour 1,234 营业收入"])])
    other = _add(library, "b" * 64, "b.pdf", [page(1, ["harbour"])])
    library.add_source(document_id, "/x/a.pdf", "a.pdf")
    library.remove(document_id)
    with pytest.raises(KnownError) as caught:
        library.find(document_id)
    assert caught.value.code == "E-DOC-UNKNOWN"
    assert _hits(library, "zebrafish") == []
    assert library.term_counts(["zebrafish", "harbour", "1234", "营业"]) == {
        "zebrafish": 0, "harbour": 1, "1234": 0, "营业": 0,
    }  # fmt: skip
    assert len(_hits(library, "harbour", other)) == 1
    library.close()
    # Opened raw: no table, the index's own included, holds a piece of the removed text.
    database = connect(tmp_path / "library.db", KEY)
    blobs = [bytes(row[0]) for row in database.execute("SELECT block FROM passage_data")]
    assert not any(b"zebrafish" in blob or b"fish" in blob for blob in blobs)
    assert database.execute("SELECT count(*) FROM page").fetchone()[0] == 1
    database.execute("INSERT INTO passage (passage) VALUES ('integrity-check')")
    database.conn.close()


def test_references(library: Library) -> None:
    one = _add(library, "abcd1" + "0" * 59, "report.pdf", [page(1, ["x"])])
    two = _add(library, "abcd2" + "0" * 59, "report.pdf", [page(1, ["y"])])
    assert library.find(one).document_id == one
    assert library.find(two[:5]).document_id == two
    for reference in ("report.pdf", "abcd"):
        with pytest.raises(KnownError) as caught:
            library.find(reference)
        assert caught.value.code == "E-DOC-AMBIGUOUS"
    with pytest.raises(KnownError) as caught:
        library.find("abc")
    assert caught.value.code == "E-DOC-UNKNOWN"


def test_same_content_under_two_names_is_one_document(library: Library) -> None:
    document_id = _add(library, "a" * 64, "a.pdf", [page(1, ["x"])])
    assert library.add_source(document_id, "/x/a.pdf", "a.pdf") is None
    assert library.add_source(document_id, "/x/copy.pdf", "copy.pdf") is None
    assert library.find("copy.pdf").document_id == document_id
    assert library.sources(document_id) == ["/x/a.pdf", "/x/copy.pdf"]
    other = _add(library, "b" * 64, "a.pdf", [page(1, ["y"])])
    # One path still holds the first content, then none does.
    assert library.add_source(other, "/x/a.pdf", "a.pdf") is None
    assert library.add_source(other, "/x/copy.pdf", "copy.pdf") == document_id


def test_rejected_content_is_tried_again(library: Library) -> None:
    error = KnownError("E-DOC-PASSWORD", name="s.pdf", wrong=0)
    info = library.reject("a" * 64, "s.pdf", 10, error)
    assert (info.status, info.reason, info.reason_params["wrong"]) == (DocumentStatus.REJECTED, "E-DOC-PASSWORD", 0)
    assert not library.is_complete("a" * 64)
    _add(library, "a" * 64, "s.pdf", [page(1, ["harbour"])])
    assert library.find("s.pdf").status is DocumentStatus.READY
    assert library.find("s.pdf").reason is None
    assert len(library.documents()) == 1


def test_full_disk_loses_nothing_and_can_go_on(tmp_path: Path) -> None:
    library = Library(tmp_path / "library.db", KEY)
    _add(library, "a" * 64, "a.pdf", [page(1, ["harbour"])])
    document_id, _ = library.begin("b" * 64, "b.pdf", 10, 1, "")
    used = library._database.execute("PRAGMA page_count").fetchone()[0]
    library._database.execute(f"PRAGMA max_page_count = {used + 2}").fetchone()
    big = page(1, [f"zebra{index} " * 20 for index in range(2000)])
    with pytest.raises(KnownError) as caught:
        library.add_pages(document_id, [big])
    assert caught.value.code == "E-DISK-FULL"
    assert len(_hits(library, "harbour")) == 1
    library._database.execute("PRAGMA max_page_count = 1000000").fetchone()
    library.add_pages(document_id, [big])
    library.publish(library.prepare(document_id))
    assert _hits(library, "zebra")
    library.close()


def test_reopening_keeps_everything_and_a_newer_file_is_refused(tmp_path: Path) -> None:
    library = Library(tmp_path / "library.db", KEY)
    document_id = _add(library, "a" * 64, "a.pdf", [page(1, ["harbour"])])
    library.close()
    library = Library(tmp_path / "library.db", KEY)
    assert library.find(document_id).pages == 1
    library._database.execute(f"PRAGMA user_version = {VERSION + 1}")
    library.close()
    with pytest.raises(KnownError) as caught:
        Library(tmp_path / "library.db", KEY)
    assert caught.value.code == "E-STORE-NEWER"

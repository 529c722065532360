"""Indexing, searching, showing and removing through the real caged reader."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muniment_app.services.api import IndexProgress, Receipt
from muniment_app.services.library import DocumentService
from muniment_app.services.reader import CagedReader
from muniment_resources.errors import KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_retrieval.model import DocumentInfo, DocumentStatus
from muniment_retrieval.search import Searcher
from muniment_retrieval.store.library import Library
from muniment_retrieval.store.stemming import Stemmer
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers import pdfs


class Desk:
    """A service with everything around it."""

    def __init__(self, folder: Path) -> None:
        self.events: list[tuple[str, dict[str, object], dict[str, str]]] = []
        self.progress: list[IndexProgress] = []
        self.free_bytes = 1 << 40
        self.audit_works = True
        self.library = Library(folder / "library.db", b"k" * 32)
        self.stemmer = Stemmer()
        spawner = ProcessSpawner({"document": [sys.executable, "-m", "muniment_app.workers.document"]})
        self.service = DocumentService(
            self.library,
            Searcher(self.library, self.stemmer),
            lambda: CagedReader(spawner),
            self._audit,
            lambda: self.free_bytes,
            time.monotonic,
        )

    def _audit(self, kind: str, fields: dict[str, object], secrets: dict[str, str]) -> Receipt:
        if not self.audit_works:
            raise KnownError("E-AUDIT-WRITE")
        visible = {info.document_id for info in self.library.documents() if info.reason != "E-DOC-UNFINISHED"}
        if kind in ("document.added", "index.built", "document.rejected"):
            assert fields["document"] == "" or fields["document"] not in visible
        self.events.append((kind, fields, secrets))
        return Receipt(len(self.events) - 1, "")

    def index(
        self,
        *paths: Path,
        password: Callable[[str, bool], str | None] = lambda name, wrong: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> list[DocumentInfo]:
        return self.service.index(paths, self.progress.append, password, cancelled)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    home = tmp_path / "home"
    home.mkdir()
    made = Desk(home)
    yield made
    made.service.close()
    made.stemmer.close()
    made.library.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "papers"
    made.mkdir()
    return made


def test_folder_with_good_and_bad_files(desk: Desk, folder: Path) -> None:
    (folder / "deep").mkdir()
    pdfs.write(folder / "deep" / "GOOD.PDF", [pdfs.text("Harbour fees 1,234"), pdfs.text("more")])
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "empty.pdf").write_bytes(b"")
    (folder / "text.pdf").write_text("not a pdf")
    (folder / "note.txt").write_text("ignored")
    pdfs.write(folder / "secret.pdf", [pdfs.text("x")], password="p")
    (folder / "link.pdf").symlink_to(folder / "deep" / "GOOD.PDF")
    os.mkfifo(folder / "pipe.pdf")
    records = {record.name: record for record in desk.index(folder)}
    assert {name: record.reason for name, record in records.items()} == {
        "GOOD.PDF": None,
        "broken.pdf": "E-DOC-DAMAGED",
        "empty.pdf": "E-DOC-EMPTY",
        "text.pdf": "E-DOC-NOT-PDF",
        "secret.pdf": "E-DOC-PASSWORD",
        "link.pdf": "E-DOC-NOT-A-FILE",
        "pipe.pdf": "E-DOC-NOT-A-FILE",
    }
    assert (records["GOOD.PDF"].pages, records["GOOD.PDF"].readable_pages) == (2, 2)
    assert [p.text for p in desk.service.search("harbour fee")] == ["Harbour fees 1,234"]
    assert [item.finished.name for item in desk.progress if item.finished] == list(records)
    kinds = [kind for kind, _, _ in desk.events]
    assert kinds.count("document.added") == kinds.count("index.built") == 1
    assert kinds.count("document.rejected") == 6
    for _, fields, _ in desk.events:
        assert not any("GOOD" in str(value) or "secret" in str(value) for value in fields.values())
    for language in LANGUAGES:
        translator = Translator(language)
        for record in records.values():
            if record.reason:
                assert translator.error(KnownError(record.reason, **record.reason_params))


def test_second_run_does_nothing_twice(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "a.pdf", [pdfs.text("Harbour fees")])
    first = desk.index(folder)
    shutil.copy(path, folder / "b.pdf")
    before = len(desk.events)
    second = desk.index(folder)
    assert len(desk.events) == before
    assert [record.name for record in second] == ["a.pdf", "b.pdf"]
    assert {record.document_id for record in second} == {first[0].document_id}
    assert len(desk.service.documents()) == 1
    assert len(desk.service.search("harbour")) == 1


def test_changed_file_replaces_its_old_content(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "a.pdf", [pdfs.text("Old harbour fees")])
    old = desk.index(path)[0]
    pdfs.write(path, [pdfs.text("New lighthouse dues")])
    with pytest.raises(KnownError) as caught:
        desk.service.render(old.document_id, 1, 1.0)
    assert caught.value.code == "E-DOC-CHANGED"
    desk.index(path)
    assert [info.document_id for info in desk.service.documents()] != [old.document_id]
    assert desk.service.search("harbour") == []
    assert len(desk.service.search("lighthouse")) == 1
    assert ("document.removed", old.document_id) in [(kind, fields["document"]) for kind, fields, _ in desk.events]


def test_password_is_asked_until_right_and_kept_for_pictures(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "s.pdf", [pdfs.text("secret harbour")], password="sesame")
    asked: list[bool] = []

    def answer(name: str, wrong: bool) -> str:
        assert name == "s.pdf"
        asked.append(wrong)
        return "sesame" if wrong else "guess"

    record = desk.index(path, password=answer)[0]
    assert (asked, record.status) == ([False, True], DocumentStatus.READY)
    assert desk.service.render(record.document_id, 1, 1.0).width > 500


def test_render_needs_the_file(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "a.pdf", [pdfs.text("x")])
    record = desk.index(path)[0]
    assert desk.service.render("a.pdf", 1, 0.5).page == 1
    for page in (0, 2):
        with pytest.raises(KnownError) as caught:
            desk.service.render(record.document_id, page, 0.5)
        assert caught.value.code == "E-DOC-PAGE"
    path.unlink()
    with pytest.raises(KnownError) as caught:
        desk.service.render(record.document_id, 1, 0.5)
    assert caught.value.code == "E-DOC-GONE"


def test_removal(desk: Desk, folder: Path) -> None:
    record = desk.index(pdfs.write(folder / "a.pdf", [pdfs.text("harbour")]))[0]
    desk.service.remove(record.document_id)
    assert desk.service.documents() == []
    assert desk.service.search("harbour") == []
    assert desk.events[-1] == ("document.removed", {"document": record.document_id, "pages": 1}, {"name": "a.pdf"})
    assert (folder / "a.pdf").exists()


def test_what_is_not_there(desk: Desk, folder: Path) -> None:
    for path, code in ((folder / "no", "E-INDEX-MISSING"), (folder, "E-INDEX-NO-PDF")):
        with pytest.raises(KnownError) as caught:
            desk.index(path)
        assert caught.value.code == code


def test_named_file_is_tried_whatever_its_name(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "report.bin", [pdfs.text("harbour")])
    assert desk.index(path)[0].status is DocumentStatus.READY


def test_nothing_becomes_visible_without_the_audit_log(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "a.pdf", [pdfs.text("harbour")])
    desk.audit_works = False
    with pytest.raises(KnownError) as caught:
        desk.index(path)
    assert caught.value.code == "E-AUDIT-WRITE"
    assert desk.service.search("harbour") == []
    desk.audit_works = True
    assert desk.index(path)[0].status is DocumentStatus.READY
    assert len(desk.service.search("harbour")) == 1


def test_full_disk_stops_before_writing(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "a.pdf", [pdfs.text("harbour")])
    desk.free_bytes = 1000
    with pytest.raises(KnownError) as caught:
        desk.index(path)
    assert caught.value.code == "E-DISK-SPACE"
    assert desk.service.documents() == []


def test_cancelled_run_is_resumed(desk: Desk, folder: Path) -> None:
    path = pdfs.write(folder / "long.pdf", [pdfs.text(f"harbour {number}") for number in range(70)])

    def cancelled() -> bool:
        return any(item.page >= 32 for item in desk.progress)

    record = desk.index(path, cancelled=cancelled)[0]
    assert record.reason == "E-DOC-UNFINISHED"
    assert desk.service.search("harbour") == []
    desk.progress.clear()
    record = desk.index(path)[0]
    assert (record.status, record.readable_pages) == (DocumentStatus.READY, 70)
    # It went on after the committed batch.
    assert min(item.page for item in desk.progress if item.page) > 32

"""The caged reader with real children: cage, crash, hang, lie, recycling."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muniment_app.services.reader import CagedReader
from muniment_resources.errors import KnownError
from muniment_runtime.worker.child import Timing
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers import pdfs

REAL = [sys.executable, "-m", "muniment_app.workers.document"]
Make = Callable[..., CagedReader]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[CagedReader] = []

    def build(*plan: str, **settings: float) -> CagedReader:
        command = [sys.executable, "-m", "tests.helpers.fragile_worker", *plan] if plan else REAL
        spawner = ProcessSpawner({"document": command})
        reader = CagedReader(spawner, timing=Timing(cancel_grace_s=0.2), **settings)  # type: ignore[arg-type]
        made.append(reader)
        return reader

    yield build
    for reader in made:
        reader.close()


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return pdfs.write(tmp_path / "d.pdf", [pdfs.text(f"This is page {number}") for number in range(1, 7)], title="Six")


def _never() -> bool:
    return False


def _read(reader: CagedReader, path: Path) -> list[tuple[int, str, str | None]]:
    pages = reader.open(path).pages
    return [(page.number, page.text, page.error) for page in reader.pages(1, pages, _never)]


def test_real_child_reads_and_draws(make: Make, document: Path) -> None:
    reader = make()
    opened = reader.open(document)
    assert (opened.pages, opened.title) == (6, "Six")
    assert [page.text for page in reader.pages(2, 4, _never)] == [f"This is page {n}" for n in (2, 3, 4)]
    picture = reader.render(document, 1, 1.0)
    assert len(picture.rgb) == picture.width * picture.height * 3
    assert min(picture.rgb) < 100 < max(picture.rgb)


def test_real_child_reports_errors_of_the_file(make: Make, tmp_path: Path) -> None:
    reader = make()
    secret = pdfs.write(tmp_path / "s.pdf", [pdfs.text("secret")], password="sesame")
    with pytest.raises(KnownError) as caught:
        reader.open(secret, "wrong")
    assert (caught.value.code, caught.value.params["wrong"]) == ("E-DOC-PASSWORD", 1)
    assert reader.open(secret, "sesame").pages == 1
    assert [page.text for page in reader.pages(1, 1, _never)] == ["secret"]


def test_a_crash_costs_one_page_each(make: Make, document: Path) -> None:
    expected = [
        (n, "" if n in (2, 5) else f"This is page {n}", "E-DOC-CRASH" if n in (2, 5) else None) for n in range(1, 7)
    ]
    assert _read(make("crash=2,5"), document) == expected


def test_a_page_that_takes_too_long_costs_one_page(make: Make, document: Path) -> None:
    result = _read(make("hang=6", page_s=1.0), document)
    assert result[-1] == (6, "", "E-DOC-CRASH")
    assert [error for _, _, error in result[:-1]] == [None] * 5


def test_a_lie_is_an_error_of_its_page_only(make: Make, document: Path) -> None:
    result = _read(make("lie=4"), document)
    assert result[3] == (4, "", "E-DOC-PAGE")
    assert [error for number, _, error in result if number != 4] == [None] * 5


def test_a_file_that_kills_the_reader_when_opened_or_drawn(make: Make, document: Path) -> None:
    with pytest.raises(KnownError) as caught:
        make("crash=0").open(document)
    assert caught.value.code == "E-DOC-CRASH"
    reader = make("crash=1")
    with pytest.raises(KnownError) as caught:
        reader.render(document, 1, 1.0)
    assert caught.value.code == "E-DOC-CRASH"
    assert reader.render(document, 2, 0.5).page == 2


def test_endless_crashes_are_given_up(make: Make, document: Path) -> None:
    result = _read(make("crash=1,2,3,4,5,6", crashes_per_document=2), document)
    assert [(number, error) for number, _, error in result] == [(n, "E-DOC-CRASH") for n in range(1, 7)]


def test_cancel_ends_early_without_a_false_error(make: Make, document: Path) -> None:
    reader = make()
    reader.open(document)
    answers = iter([False, True])
    assert all(page.error is None for page in reader.pages(1, 6, lambda: next(answers, True)))


def test_child_is_recycled(make: Make, document: Path) -> None:
    reader = make(recycle_after=1)
    assert len(_read(reader, document)) == 6
    assert len(_read(reader, document)) == 6


def test_child_that_cannot_start_is_not_blamed_on_the_file(document: Path) -> None:
    reader = CagedReader(ProcessSpawner({"document": [sys.executable, "-c", "raise SystemExit(9)"]}))
    with pytest.raises(KnownError) as caught:
        reader.open(document)
    assert caught.value.code == "E-WORKER-DIED"
    reader.close()

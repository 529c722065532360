"""The store holds whole, checked models or none, and notices when a file has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, FileSource
from muniment_runtime.model.store import InstalledModel, ModelStore, safe_model_id
from tests.helpers.model_catalogue import MODEL_ID, catalogue_for, tiny_bytes

DATA = tiny_bytes()
ELSEWHERE = FileSource("/nonexistent")


def _nothing(*_: object) -> None:
    return None


def _never() -> bool:
    return False


def _code(step: Callable[[], object]) -> str:
    with pytest.raises(KnownError) as caught:
        step()
    return caught.value.code


@pytest.fixture
def catalogue() -> Catalogue:
    return catalogue_for(DATA, ELSEWHERE)


@pytest.fixture
def store(tmp_path: Path, catalogue: Catalogue) -> ModelStore:
    return ModelStore(tmp_path / "models", catalogue, now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "My Model (v1).gguf"
    path.write_bytes(DATA)
    return path


def test_import_of_a_known_hash_gets_the_catalogue_id(store: ModelStore, file: Path) -> None:
    seen: list[tuple[int, int]] = []
    model = store.import_file(file, lambda done, total: seen.append((done, total)), _never, _nothing)
    assert model == store.get(MODEL_ID)
    assert model.sha256 == hashlib.sha256(DATA).hexdigest()
    assert (model.source, model.added, model.quantization) == ("import", "2026-01-02T03:04:05Z", "Q8_0")
    assert seen[-1] == (len(DATA), len(DATA))
    assert store.path(MODEL_ID).read_bytes() == DATA
    spec = store.spec(MODEL_ID)
    assert (spec.template, spec.languages, spec.sha256) == ("chatml", ("en",), model.sha256)
    assert sorted(path.name for path in store.folder.iterdir()) == [f"{MODEL_ID}.gguf", f"{MODEL_ID}.json"]


def test_unknown_file_gets_a_safe_name_and_a_second_one_another(store: ModelStore, tmp_path: Path) -> None:
    ids = []
    for number, vocabulary in enumerate((64, 65)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "My Model (v1).gguf"
        path.write_bytes(tiny_bytes(vocabulary))
        ids.append(store.import_file(path, _nothing, _never, _nothing).model_id)
    assert ids[0] == "my-model-v1"
    assert ids[1].startswith("my-model-v1-")
    assert [model.model_id for model in store.installed()] == sorted(ids)


def test_import_again_changes_nothing(store: ModelStore, file: Path) -> None:
    first = store.import_file(file, _nothing, _never, _nothing)
    told: list[InstalledModel] = []
    assert store.import_file(file, _nothing, _never, told.append) == first
    assert told == []


def test_a_file_with_a_catalogue_name_and_another_hash_is_refused(store: ModelStore, tmp_path: Path) -> None:
    path = tmp_path / f"{MODEL_ID}.gguf"
    path.write_bytes(tiny_bytes(64))
    assert _code(lambda: store.import_file(path, _nothing, _never, _nothing)) == "E-MODEL-HASH"
    assert list(store.folder.iterdir()) == []
    assert path.exists()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"%PDF-1.7", DATA[:-1]])
def test_malformed_file_is_refused_before_anything_is_copied(content: bytes, store: ModelStore, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    assert _code(lambda: store.import_file(path, _nothing, _never, _nothing)) == "E-MODEL-MALFORMED"
    assert not store.folder.exists()


def test_missing_file(store: ModelStore, tmp_path: Path) -> None:
    assert _code(lambda: store.import_file(tmp_path / "no.gguf", _nothing, _never, _nothing)) == "E-MODEL-FILE"


def test_cancel_leaves_nothing(store: ModelStore, file: Path) -> None:
    assert _code(lambda: store.import_file(file, _nothing, lambda: True, _nothing)) == "E-CANCELLED"
    assert list(store.folder.iterdir()) == []


def test_nothing_is_visible_when_the_record_of_the_step_fails(store: ModelStore, file: Path) -> None:
    def refuse(_: InstalledModel) -> None:
        assert store.installed() == []
        raise KnownError("E-AUDIT-WRITE")

    assert _code(lambda: store.import_file(file, _nothing, _never, refuse)) == "E-AUDIT-WRITE"
    assert list(store.folder.iterdir()) == []
    store.import_file(file, _nothing, _never, _nothing)
    assert _code(lambda: store.remove(MODEL_ID, lambda _: _raise())) == "E-AUDIT-WRITE"
    assert store.spec(MODEL_ID).model_id == MODEL_ID


def _raise() -> None:
    raise KnownError("E-AUDIT-WRITE")


def test_full_disk_is_told_before_copying(tmp_path: Path, catalogue: Catalogue, file: Path) -> None:
    store = ModelStore(tmp_path / "models", catalogue, free=lambda _: 1000, link=False)
    with pytest.raises(KnownError) as caught:
        store.import_file(file, _nothing, _never, _nothing)
    assert caught.value.code == "E-DISK-SPACE"
    assert caught.value.params["free_bytes"] == 1000
    assert int(caught.value.params["need_bytes"]) >= len(DATA)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("link", [True, False])
def test_import_links_or_copies(link: bool, tmp_path: Path, catalogue: Catalogue, file: Path) -> None:
    store = ModelStore(tmp_path / "models", catalogue, link=link)
    store.import_file(file, _nothing, _never, _nothing)
    assert store.path(MODEL_ID).samefile(file) is link
    store.remove(MODEL_ID, _nothing)
    assert file.read_bytes() == DATA


def test_changed_file_is_not_used_and_verify_tells_touch_from_damage(store: ModelStore, file: Path) -> None:
    store.import_file(file, _nothing, _never, _nothing)
    path = store.path(MODEL_ID)
    os.utime(path, ns=(1, 1))
    assert _code(lambda: store.spec(MODEL_ID)) == "E-MODEL-CHANGED"
    assert store.verify(MODEL_ID, _nothing)
    assert store.spec(MODEL_ID).model_id == MODEL_ID
    damaged = bytearray(DATA)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    os.utime(path, ns=(2, 2))
    assert not store.verify(MODEL_ID, _nothing)
    assert _code(lambda: store.spec(MODEL_ID)) == "E-MODEL-CHANGED"


def test_half_written_states_are_no_models(store: ModelStore, file: Path) -> None:
    store.import_file(file, _nothing, _never, _nothing)
    record = store.path(MODEL_ID).with_suffix(".json")
    whole = record.read_text()
    for broken in (
        "",
        "{",
        "[]",
        '{"format": 1}',
        whole.replace(MODEL_ID, "other"),
        whole.replace('"format": 1', '"format": 9'),
    ):
        record.write_text(broken)
        assert store.installed() == []
        assert store.find(MODEL_ID) is None
    record.write_text(whole)
    assert [model.model_id for model in store.installed()] == [MODEL_ID]
    assert json.loads(whole)["header_checked"] is True
    store.path(MODEL_ID).unlink()
    assert store.installed() == []


def test_removed_model_is_gone(store: ModelStore, file: Path) -> None:
    store.import_file(file, _nothing, _never, _nothing)
    store.remove(MODEL_ID, _nothing)
    assert list(store.folder.iterdir()) == []
    assert _code(lambda: store.get(MODEL_ID)) == "E-MODEL-UNKNOWN"
    assert _code(lambda: store.remove(MODEL_ID, _nothing)) == "E-MODEL-UNKNOWN"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "A", "x\0", "é", "-x"])
def test_ids_cannot_leave_the_folder(name: str, store: ModelStore) -> None:
    assert _code(lambda: store.path(name)) == "E-MODEL-UNKNOWN"


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("My Model (v1)", "my-model-v1"),
        ("..", "model"),
        ("../../etc/passwd", "etc-passwd"),
        ("模型", "model"),
        ("CON", "model-con"),
        ("nul.x", "model-nul.x"),
        ("a" * 300, "a" * 80),
    ],
)
def test_safe_model_id(stem: str, expected: str, store: ModelStore) -> None:
    assert safe_model_id(stem) == expected
    assert store.path(safe_model_id(stem)).parent == store.folder

"""The model service lists, changes and records; nothing happens without its event."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_app.services.api import ModelService, Receipt
from muniment_app.services.models import StoreModelService
from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, FileSource
from muniment_runtime.model.fetch import ModelFetcher
from muniment_runtime.model.store import ModelStore
from tests.helpers.model_catalogue import MODEL_ID, catalogue_for, tiny_bytes

DATA = tiny_bytes()


def _nothing(*_: object) -> None:
    return None


def _never() -> bool:
    return False


class _Log:
    """Keeps events; can be told to fail like a full disk."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object], dict[str, str]]] = []
        self.broken = False

    def __call__(self, event: str, fields: dict[str, object], secrets: dict[str, str]) -> Receipt:
        if self.broken:
            raise KnownError("E-AUDIT-WRITE")
        self.events.append((event, fields, secrets))
        return Receipt(len(self.events) - 1, "")


@pytest.fixture
def log() -> _Log:
    return _Log()


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    path = tmp_path / "share.gguf"
    path.write_bytes(DATA)
    return catalogue_for(DATA, FileSource(str(path)))


@pytest.fixture
def service(tmp_path: Path, catalogue: Catalogue, log: _Log) -> ModelService:
    store = ModelStore(tmp_path / "models", catalogue)
    return StoreModelService(store, catalogue, ModelFetcher(store, catalogue), log)


def test_add_verify_and_remove_are_recorded(service: ModelService, log: _Log, tmp_path: Path) -> None:
    assert [(info.model_id, info.installed, info.path) for info in service.list()] == [(MODEL_ID, False, None)]
    added = service.add(MODEL_ID, _nothing, _never)
    assert added == service.list()[0]
    assert added.installed
    assert service.add(MODEL_ID, _nothing, _never) == added
    assert service.verify(None, _nothing) == service.verify(MODEL_ID, _nothing) == {MODEL_ID: True}
    service.remove(MODEL_ID)
    assert not service.list()[0].installed
    kinds = [event for event, _, _ in log.events]
    assert kinds == ["model.installed", "model.verified", "model.verified", "model.removed"]
    assert set(log.events[0][1]) == {"model", "sha256", "bytes", "quantization", "source"}
    assert log.events[0][1]["source"] == "file"
    assert str(tmp_path) not in repr(log.events)


def test_import_is_recorded_and_listed(service: ModelService, log: _Log, tmp_path: Path) -> None:
    path = tmp_path / "Other.gguf"
    path.write_bytes(tiny_bytes(64))
    info = service.import_file(path, _nothing, _never)
    assert (info.model_id, info.family, info.licence, info.starter) == ("other", "qwen2", "", False)
    assert service.list()[1] == info
    assert [event for event, _, _ in log.events] == ["model.imported"]


def test_refused_file_is_recorded_with_its_name_as_a_secret(service: ModelService, log: _Log, tmp_path: Path) -> None:
    path = tmp_path / "client-x.gguf"
    path.write_bytes(b"no model")
    with pytest.raises(KnownError):
        service.import_file(path, _nothing, _never)
    assert log.events == [
        ("model.refused", {"code": "E-MODEL-MALFORMED", "what": "magic"}, {"file": "client-x.gguf"}),
    ]


def test_nothing_changes_without_a_record(service: ModelService, log: _Log) -> None:
    log.broken = True
    with pytest.raises(KnownError) as caught:
        service.add(MODEL_ID, _nothing, _never)
    assert caught.value.code == "E-AUDIT-WRITE"
    assert not service.list()[0].installed
    log.broken = False
    service.add(MODEL_ID, _nothing, _never)
    log.broken = True
    with pytest.raises(KnownError):
        service.remove(MODEL_ID)
    assert service.list()[0].installed


def test_damage_is_reported_and_recorded(service: ModelService, log: _Log) -> None:
    info = service.add(MODEL_ID, _nothing, _never)
    assert info.path is not None
    damaged = bytearray(DATA)
    damaged[-1] ^= 1
    Path(info.path).write_bytes(damaged)
    seen: list[tuple[int, int]] = []
    assert service.verify(None, lambda done, total: seen.append((done, total))) == {MODEL_ID: False}
    assert seen[-1] == (len(DATA), len(DATA))
    assert log.events[-1][1]["intact"] is False

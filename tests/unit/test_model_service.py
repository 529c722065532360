"""The model service lists, changes and records; nothing happens without its event."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from muniment_app.audit.events import FieldValue, clear_fields
from muniment_app.services.api import ModelService, Receipt
from muniment_app.services.models import StoreModelService
from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, FileSource
from muniment_runtime.model.fetch import ModelFetcher
from muniment_runtime.model.requantize import Requantizer
from muniment_runtime.model.store import ModelStore
from tests.helpers.model_catalogue import MODEL_ID, catalogue_for
from tests.helpers.quantizing import ScriptedQuantizer, tiny

DATA = tiny()


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
def quantizer(tmp_path: Path) -> ScriptedQuantizer:
    path = tmp_path / "result.gguf"
    path.write_bytes(tiny("Q4_0", 2))
    return ScriptedQuantizer(path)


@pytest.fixture
def service(tmp_path: Path, catalogue: Catalogue, quantizer: ScriptedQuantizer, log: _Log) -> ModelService:
    store = ModelStore(tmp_path / "models", catalogue)
    requantizer = Requantizer(store, quantizer, lambda: 1 << 30)
    return StoreModelService(store, catalogue, ModelFetcher(store, catalogue), requantizer, log)


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
    path.write_bytes(tiny(vocabulary=64))
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


def test_requantized_model_is_recorded_and_listed_with_its_base(service: ModelService, log: _Log) -> None:
    base = service.add(MODEL_ID, _nothing, _never)
    made = service.requantize(MODEL_ID, " q4_0", _nothing, _never)
    assert (made.model_id, made.quantization, made.base) == ("tiny-q4_0-requantized", "Q4_0-from-Q8_0", MODEL_ID)
    # What it was made from decides on licence and languages.
    assert (made.family, made.licence, made.languages) == (base.family, base.licence, base.languages)
    assert (made.installed, made.starter, base.base) == (True, False, None)
    assert service.list() == [base, made]
    assert service.requantize(MODEL_ID, "Q4_0", _nothing, _never) == made
    (_, installed, _), (event, fields, secrets) = log.events
    assert (event, secrets) == ("model.requantized", {})
    assert fields == {
        "model": made.model_id,
        "sha256": fields["sha256"],
        "bytes": made.size_bytes,
        "quantization": "Q4_0-from-Q8_0",
        "source": "requantized",
        "base": MODEL_ID,
        "base_sha256": installed["sha256"],
        "file_type": "Q4_0",
    }
    assert fields["sha256"] != installed["sha256"]
    # All of it may stand in the clear.
    assert clear_fields(cast("dict[str, FieldValue]", fields)) == fields


def test_failed_requantizing_is_recorded(service: ModelService, quantizer: ScriptedQuantizer, log: _Log) -> None:
    service.add(MODEL_ID, _nothing, _never)
    quantizer.written = b"no model"
    with pytest.raises(KnownError) as caught:
        service.requantize(MODEL_ID, "Q4_0", _nothing, _never)
    assert caught.value.code == "E-QUANTIZE-FAILED"
    assert log.events[1:] == [
        (
            "model.requantize_failed",
            {"model": MODEL_ID, "code": "E-QUANTIZE-FAILED", "cause": "result", "file_type": "Q4_0"},
            {},
        )
    ]


def test_refused_or_cancelled_requantizing_leaves_no_event(service: ModelService, log: _Log) -> None:
    service.add(MODEL_ID, _nothing, _never)
    for name, type_, cancelled in (
        (MODEL_ID, "Q9", _never),
        ("nope", "Q4_0", _never),
        (MODEL_ID, "Q4_0", lambda: True),
    ):
        with pytest.raises(KnownError):
            service.requantize(name, type_, _nothing, cancelled)
    assert [event for event, _, _ in log.events] == ["model.installed"]


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

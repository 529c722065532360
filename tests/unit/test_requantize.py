"""Requantizing refuses before the work, installs only what was planned, and leaves nothing behind when it fails."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, FileSource
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.quantization import file_type_number
from muniment_runtime.model.requantize import Requantizer
from muniment_runtime.model.store import Base, InstalledModel, ModelStore
from tests.helpers.model_catalogue import catalogue_for
from tests.helpers.quantizing import BASE_ID, ScriptedQuantizer, tiny, types_of

DATA = tiny("Q8_0", 7)
SMALLER = tiny("Q4_0", 2)
MADE_ID = "tiny-q4_0-requantized"
GIB = 1 << 30


@dataclass
class Setup:
    """A store with the base in it, and what the tests change about the world."""

    folder: Path
    catalogue: Catalogue
    quantizer: ScriptedQuantizer
    disk_bytes: int = GIB
    memory_bytes: int = GIB
    seen: list[tuple[int, int]] = field(default_factory=list)
    events: list[InstalledModel] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = ModelStore(self.folder, self.catalogue, free=lambda _: self.disk_bytes)
        self.requantizer = Requantizer(self.store, self.quantizer, lambda: self.memory_bytes)

    def make(
        self, type_: str = "Q4_0", name: str = BASE_ID, cancelled: Callable[[], bool] = lambda: False
    ) -> InstalledModel:
        return self.requantizer.make(
            name, type_, lambda done, total: self.seen.append((done, total)), cancelled, self.events.append
        )

    def refused(
        self, type_: str = "Q4_0", name: str = BASE_ID, cancelled: Callable[[], bool] = lambda: False
    ) -> KnownError:
        """Return the refusal, after checking that the folder is as it was and nothing was recorded."""
        before = self.files()
        with pytest.raises(KnownError) as caught:
            self.make(type_, name, cancelled)
        assert self.files() == before
        assert self.events == []
        assert self.quantizer.closed >= len(self.quantizer.opened)
        return caught.value

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


def _setup(tmp_path: Path, base: bytes, result: bytes) -> Setup:
    prepared, original = tmp_path / "result.gguf", tmp_path / f"{BASE_ID}.gguf"
    prepared.write_bytes(result)
    original.write_bytes(base)
    made = Setup(tmp_path / "models", catalogue_for(base, FileSource("/nonexistent")), ScriptedQuantizer(prepared))
    made.store.import_file(original, lambda *_: None, lambda: False, lambda _: None)
    return made


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return _setup(tmp_path, DATA, SMALLER)


def test_made_model_is_installed_labelled_and_inherits(setup: Setup) -> None:
    model = setup.make("q4_0")
    base = setup.store.get(BASE_ID)
    assert (model.model_id, model.quantization, model.source) == (MADE_ID, "Q4_0-from-Q8_0", "requantized")
    assert model.base == Base(BASE_ID, base.sha256)
    assert model.sha256 == hashlib.sha256(SMALLER).hexdigest()
    assert setup.events == [model]
    assert setup.store.find(MADE_ID) == model
    spec = setup.store.spec(MADE_ID)
    assert (spec.quantization, spec.base_model) == ("Q4_0-from-Q8_0", BASE_ID)
    # From the catalogue entry of the base: its own hash is in no catalogue.
    assert (spec.template, spec.languages) == ("chatml", ("en",))
    assert setup.store.spec(BASE_ID).base_model is None
    assert sorted(setup.files()) == sorted(f"{name}{end}" for name in (MADE_ID, BASE_ID) for end in (".gguf", ".json"))
    assert setup.files()[f"{BASE_ID}.gguf"] == DATA


def test_the_child_gets_one_empty_private_file_and_the_size_of_the_source(setup: Setup) -> None:
    mode: list[int] = []
    setup.quantizer.on_run = lambda: mode.append(setup.quantizer.opened[0][0].stat().st_mode & 0o777)
    setup.make()
    [(target, limit_bytes)] = setup.quantizer.opened
    assert (target.parent, limit_bytes) == (setup.folder, len(DATA))
    assert mode == [0o600] or sys.platform == "win32"
    assert setup.quantizer.numbers == [file_type_number("Q4_0")]


def test_progress_counts_bytes_of_finished_tensors(setup: Setup) -> None:
    setup.make()
    sizes = [tensor.size_bytes for tensor in read_header(setup.store.path(BASE_ID)).tensors]
    total = sum(sizes)
    expected = [sum(sizes[:number]) for number in range(len(sizes))]
    assert [done for done, _ in setup.seen] == [0, *expected, total]
    assert {item for _, item in setup.seen} == {total}


def test_same_type_again_is_there_at_once(setup: Setup) -> None:
    first = setup.make()
    assert setup.make("q4_0") == first
    assert len(setup.quantizer.opened) == 1
    assert setup.events == [first]


def test_damaged_result_is_made_again(setup: Setup) -> None:
    first = setup.make()
    os.utime(setup.store.path(MADE_ID), ns=(1, 1))
    again = setup.make()
    assert (again.model_id, again.sha256) == (first.model_id, first.sha256)
    assert setup.store.check(MADE_ID) == again
    assert len(setup.quantizer.opened) == 2


def test_base_may_be_removed(setup: Setup) -> None:
    made = setup.make()
    setup.store.remove(BASE_ID, lambda _: None)
    assert setup.store.installed() == [made]
    assert setup.store.spec(MADE_ID).template == "chatml"


def test_model_of_another_base_keeps_its_name(setup: Setup, tmp_path: Path) -> None:
    first = setup.make()
    other = tmp_path / "tiny-f16.gguf"
    other.write_bytes(tiny("F16", 1))
    base = setup.store.import_file(other, lambda *_: None, lambda: False, lambda _: None)
    second = setup.make(name="tiny-f16")
    assert second.model_id == f"tiny-{base.sha256[:8]}-q4_0-requantized"
    assert second.quantization == "Q4_0-from-F16"
    assert setup.make() == first
    assert setup.make(name="tiny-f16") == second


def test_fallback_shows_in_the_label_not_in_the_name(tmp_path: Path) -> None:
    # As the library does it: the file type that was asked for, and another type in the tensors.
    made = _setup(tmp_path, tiny("Q8_0", 7, embedding=64), tiny("Q4_0", 10, embedding=64))
    model = made.make("Q2_K")
    assert (model.model_id, model.quantization) == ("tiny-q2_k-requantized", "Q4_0-from-Q8_0")


# --- refusals -----------------------------------------------------------------------------------------------------


def test_unknown_type_and_model(setup: Setup) -> None:
    assert setup.refused("Q9").code == "E-QUANTIZE-TYPE"
    assert setup.refused("IQ1_S").params["reason"] == "imatrix"
    assert setup.refused(name="nope").code == "E-MODEL-UNKNOWN"
    assert setup.quantizer.opened == []


def test_requantized_model_is_no_base(setup: Setup) -> None:
    setup.make()
    setup.events.clear()
    error = setup.refused("Q2_K", MADE_ID)
    assert (error.code, error.params) == ("E-QUANTIZE-DERIVED", {"name": MADE_ID, "base": BASE_ID})


def test_changed_base_is_not_used(setup: Setup) -> None:
    os.utime(setup.store.path(BASE_ID), ns=(1, 1))
    assert setup.refused().code == "E-MODEL-CHANGED"


def test_result_that_would_not_be_smaller_is_refused_before_the_work(setup: Setup) -> None:
    setup.quantizer.types = types_of(setup.store.path(BASE_ID))
    setup.quantizer.on_run = lambda: pytest.fail("worked")
    error = setup.refused("Q8_0")
    assert error.code == "E-QUANTIZE-LARGER"
    assert (error.params["source_bytes"], error.params["result_bytes"]) == (len(DATA), len(DATA))


def test_room_for_the_file_and_64_mib_is_needed(setup: Setup) -> None:
    needed = len(SMALLER) + 64 * 2**20
    setup.disk_bytes = needed - 1
    setup.quantizer.on_run = lambda: pytest.fail("worked")
    error = setup.refused()
    assert (error.code, error.params) == ("E-DISK-SPACE", {"need_bytes": needed, "free_bytes": needed - 1})
    setup.quantizer.on_run = lambda: None
    setup.disk_bytes = needed
    assert setup.make().model_id == MADE_ID


def test_memory_is_checked_before_a_process_starts(setup: Setup) -> None:
    setup.memory_bytes = 50 << 20
    error = setup.refused()
    assert (error.code, error.params["free_bytes"]) == ("E-QUANTIZE-MEMORY", 50 << 20)
    assert setup.quantizer.opened == []


def test_disk_that_fills_during_the_work(setup: Setup) -> None:
    def fill() -> None:
        setup.quantizer.opened[-1][0].write_bytes(b"half")
        setup.disk_bytes = 0
        raise KnownError("E-QUANTIZE-FAILED", cause="disk_full")

    setup.quantizer.on_run = fill
    assert setup.refused().code == "E-DISK-SPACE"


def test_quota_that_ends_shows_as_what_it_is(setup: Setup) -> None:
    def fill() -> None:
        raise KnownError("E-QUANTIZE-FAILED", cause="disk_full")

    setup.quantizer.on_run = fill
    error = setup.refused()
    assert (error.code, error.params) == ("E-QUANTIZE-FAILED", {"name": BASE_ID, "cause": "disk_full"})


@pytest.mark.parametrize("asked_after", [0, 1, 3])
def test_cancel_leaves_nothing(setup: Setup, asked_after: int) -> None:
    assert setup.refused(cancelled=lambda: len(setup.seen) > asked_after).code == "E-CANCELLED"


def test_cancel_after_the_file_is_written(setup: Setup) -> None:
    written: list[bool] = []
    setup.quantizer.on_run = lambda: written.append(True)
    assert setup.refused(cancelled=lambda: bool(written)).code == "E-CANCELLED"


@pytest.mark.parametrize(
    "written",
    [
        b"",
        SMALLER[:-1],
        SMALLER + bytes(32),
        DATA,
        tiny("Q4_1", 3),
        tiny("Q4_0", 2, vocabulary=128),
        SMALLER.replace(b"qwen2", b"llama"),
    ],
    ids=["empty", "short", "long", "source", "other-type", "other-shape", "other-metadata"],
)
def test_file_that_is_not_what_was_planned_is_discarded(setup: Setup, written: bytes) -> None:
    setup.quantizer.written = written
    error = setup.refused()
    assert (error.code, error.params) == ("E-QUANTIZE-FAILED", {"name": BASE_ID, "cause": "result"})


@pytest.mark.parametrize(
    "change",
    [
        {"blk.0.ffn_up.weight": None},
        {"blk.0.ffn_up.weight": "q17"},
        {"blk.0.ffn_up.weight": ""},
        {"blk.9.ffn_up.weight": "q4_0"},
    ],
    ids=["missing", "unknown", "empty", "more"],
)
def test_plan_that_makes_no_sense_ends_the_work(setup: Setup, change: dict[str, str | None]) -> None:
    changed = {**setup.quantizer.types, **change}
    setup.quantizer.types = {name: kind for name, kind in changed.items() if kind is not None}
    error = setup.refused()
    assert (error.code, error.params) == ("E-QUANTIZE-FAILED", {"name": BASE_ID, "cause": "library"})


def test_rows_must_divide_into_the_planned_type(tmp_path: Path) -> None:
    made = _setup(tmp_path, tiny("Q8_0", 7, embedding=64), tiny("Q4_0", 2, embedding=64))
    made.quantizer.types["blk.0.ffn_up.weight"] = "q4_K"
    assert made.refused().params["cause"] == "library"


def test_nothing_is_installed_when_the_record_of_the_step_fails(setup: Setup) -> None:
    def refuse(_: InstalledModel) -> None:
        assert setup.store.find(MADE_ID) is None
        raise KnownError("E-AUDIT-WRITE")

    before = setup.files()
    with pytest.raises(KnownError):
        setup.requantizer.make(BASE_ID, "Q4_0", lambda *_: None, lambda: False, refuse)
    assert setup.files() == before


def test_half_files_of_a_crash_are_removed_and_those_at_work_are_kept(setup: Setup) -> None:
    # No process has this number; this process itself runs one at a time; the parent of the tests is alive.
    dead = setup.folder / f"x.{2**22 + 1}.requantize.part"
    own = setup.folder / f"y.{os.getpid()}.requantize.part"
    foreign = setup.folder / f"z.{os.getppid()}.requantize.part"
    nameless = setup.folder / "w.requantize.part"
    for path in (dead, own, foreign, nameless):
        path.write_bytes(b"half")
    setup.make()
    assert [path.exists() for path in (dead, own, foreign, nameless)] == [False, False, True, False]
    # Written before its number was given to a process of today.
    os.utime(foreign, (0, 0))
    setup.store.remove(MADE_ID, lambda _: None)
    setup.make()
    assert not foreign.exists()


# --- records ------------------------------------------------------------------------------------------------------


def test_record_without_a_base_stays_valid(setup: Setup) -> None:
    record = setup.folder / f"{BASE_ID}.json"
    raw = json.loads(record.read_text("utf-8"))
    assert raw["base"] is None
    del raw["base"]
    record.write_text(json.dumps(raw), "utf-8")
    assert setup.store.get(BASE_ID).base is None
    assert setup.make().base is not None


@pytest.mark.parametrize(
    "base",
    [
        [], "tiny", 3, {}, {"model_id": BASE_ID}, {"model_id": "../x", "sha256": "a" * 64},
        {"model_id": BASE_ID, "sha256": "A" * 64}, {"model_id": 1, "sha256": "a" * 64},
    ],
)  # fmt: skip
def test_record_with_a_broken_base_is_no_record(setup: Setup, base: object) -> None:
    setup.make()
    record = setup.folder / f"{MADE_ID}.json"
    raw = json.loads(record.read_text("utf-8"))
    record.write_text(json.dumps(raw | {"base": base}), "utf-8")
    assert setup.store.find(MADE_ID) is None
    assert [model.model_id for model in setup.store.installed()] == [BASE_ID]
    record.write_text(json.dumps(raw), "utf-8")
    assert setup.store.find(MADE_ID) is not None


def test_verify_keeps_the_base(setup: Setup) -> None:
    made = setup.make()
    os.utime(setup.store.path(MADE_ID), ns=(1, 1))
    assert setup.store.verify(MADE_ID, lambda *_: None)
    assert setup.store.get(MADE_ID).base == made.base

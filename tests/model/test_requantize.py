"""Real files, the real library, the real fence: smaller models that load, say the same, and are what they say.

The files lie in the folder that ``MUNIMENT_MODEL_CACHE`` names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.backends.worker import WorkerBackend
from muniment_runtime.contracts import GenerateRequest, RunConfig
from muniment_runtime.model.catalogue import load_catalogue
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.quantization import BUFFER_BYTES, OFFERED, file_type_number, memory_bytes
from muniment_runtime.model.quantizer import WorkerQuantizer
from muniment_runtime.model.requantize import Requantizer
from muniment_runtime.model.store import InstalledModel, ModelStore
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.contract.backend_contract import prompt
from tests.helpers import gguf_writer as gw

SMALL = "smollm2-135m-instruct-q4_1"
STARTER = "qwen2.5-coder-0.5b-instruct-q4_k_m"
GIB = 1 << 30

ModelFile = Callable[[str], Path]


def _never() -> bool:
    return False


class Bench:
    """A store of its own with the real child."""

    def __init__(self, folder: Path, model_file: ModelFile) -> None:
        self.store = ModelStore(folder, load_catalogue())
        self._model_file = model_file
        spawner = ProcessSpawner()
        self.requantizer = Requantizer(self.store, functools.partial(WorkerQuantizer, spawner), lambda: GIB, threads=2)

    def base(self, name: str) -> InstalledModel:
        return self.store.import_file(self._model_file(name), lambda *_: None, _never, lambda _: None)

    def make(self, name: str, type_: str, on_progress: Callable[[int, int], None] = lambda *_: None) -> InstalledModel:
        return self.requantizer.make(name, type_, on_progress, _never, lambda _: None)


@pytest.fixture
def bench(tmp_path: Path, model_file: ModelFile) -> Bench:
    return Bench(tmp_path / "models", model_file)


@pytest.fixture
def said() -> Iterator[Callable[[Path], str]]:
    """Return a function that loads a file with the real engine and returns its greedy reply."""
    child = Child(ProcessSpawner(), "inference")
    backend = WorkerBackend(child)

    def reply(path: Path) -> str:
        backend.load(path, RunConfig("x", context=256, batch=128, ubatch=64))
        request = GenerateRequest(prompt("What is the capital of France? Answer with one word."), 8)
        result = backend.generate(request, lambda _: None, _never, lambda *_: None)
        backend.unload()
        assert result.completion_tokens > 0
        return result.untrusted_text

    yield reply
    child.stop()


@pytest.mark.parametrize(
    ("name", "type_", "label", "template"),
    [(SMALL, "Q3_K_S", "Q4_0-from-Q4_1", "chatml"), (STARTER, "q2_k", "Q4_0-from-Q4_K_M", "chatml")],
)
def test_smaller_model_loads_and_answers(
    bench: Bench, said: Callable[[Path], str], name: str, type_: str, label: str, template: str
) -> None:
    base = bench.base(name)
    seen: list[tuple[int, int]] = []
    peak_bytes = 0

    def progress(done: int, total: int) -> None:
        nonlocal peak_bytes
        seen.append((done, total))
        peak_bytes = max(peak_bytes, *map(_private_bytes, psutil.Process().children()))

    made = bench.make(name, type_, progress)
    header = read_header(bench.store.path(made.model_id))
    assert made.quantization == label
    assert header.metadata["general.file_type"] == file_type_number(type_.upper())
    assert made.size_bytes == header.file_bytes <= base.size_bytes * 0.97
    spec = bench.store.spec(made.model_id)
    assert (spec.template, spec.base_model, spec.quantization) == (template, name, label)
    assert spec.languages == bench.store.spec(name).languages
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] == sum(item.size_bytes for item in read_header(bench.store.path(name)).tensors)
    assert len(seen) == len(header.tensors) + 2
    if sys.platform == "linux":
        assert 0 < peak_bytes <= memory_bytes(header)
    # A model of 0.1 billion weights knows little; the other one must still know this.
    reply = said(bench.store.path(made.model_id))
    assert "Paris" in reply or name == SMALL
    assert bench.store.verify(name, lambda *_: None)
    assert not list(bench.store.folder.glob("*.part"))


def _private_bytes(process: psutil.Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def test_cancel_in_the_middle_leaves_nothing(bench: Bench) -> None:
    bench.base(STARTER)
    before = sorted(bench.store.folder.iterdir())
    seen: list[int] = []
    halves: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        halves.extend(path.stat().st_size for path in bench.store.folder.glob("*.part"))

    with pytest.raises(KnownError) as caught:
        bench.requantizer.make(STARTER, "Q2_K", progress, lambda: len(seen) > 40, lambda _: None)
    assert caught.value.code == "E-CANCELLED"
    assert max(halves) > 0
    assert sorted(bench.store.folder.iterdir()) == before
    assert bench.store.verify(STARTER, lambda *_: None)


def test_larger_type_is_refused_before_the_work(bench: Bench) -> None:
    base = bench.base(SMALL)
    with pytest.raises(KnownError) as caught:
        bench.make(SMALL, "Q8_0", lambda *_: pytest.fail("worked"))
    assert caught.value.code == "E-QUANTIZE-LARGER"
    assert int(caught.value.params["result_bytes"]) > base.size_bytes
    assert len(list(bench.store.folder.iterdir())) == 2


@pytest.fixture
def open_real(tmp_path: Path) -> Iterator[Callable[[Path, int], WorkerQuantizer]]:
    opened: list[WorkerQuantizer] = []

    def start(target: Path, limit_bytes: int) -> WorkerQuantizer:
        opened.append(WorkerQuantizer(ProcessSpawner(), target, limit_bytes))
        return opened[-1]

    yield start
    for quantizer in opened:
        quantizer.close()


OpenReal = Callable[[Path, int], WorkerQuantizer]


def test_every_offered_type_can_be_planned_without_an_importance_matrix(
    open_real: OpenReal, model_file: ModelFile, tmp_path: Path
) -> None:
    target = tmp_path / "x.part"
    target.touch()
    quantizer = open_real(target, 0)
    names = {tensor.name for tensor in read_header(model_file(SMALL)).tensors}
    for type_ in OFFERED:
        types = quantizer.plan(model_file(SMALL), file_type_number(type_), _never)
        assert set(types) == names, type_
    assert target.stat().st_size == 0


def _cause(call: Callable[[], object]) -> object:
    with pytest.raises(KnownError) as caught:
        call()
    assert caught.value.code == "E-QUANTIZE-FAILED"
    return caught.value.params["cause"]


def _run(quantizer: WorkerQuantizer, source: Path) -> None:
    quantizer.run(source, file_type_number("Q2_K"), 2, BUFFER_BYTES, lambda _: None, _never)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the full device of Linux")
def test_full_disk_is_told_from_other_failures(open_real: OpenReal, model_file: ModelFile, tmp_path: Path) -> None:
    assert _cause(lambda: _run(open_real(Path("/dev/full"), GIB), model_file(SMALL))) == "disk_full"
    target = tmp_path / "x.part"
    target.touch()
    assert _cause(lambda: _run(open_real(target, 1 << 20), model_file(SMALL))) == "write"
    assert target.stat().st_size == 1 << 20


def test_file_that_the_library_cannot_read_is_a_failure_not_a_crash(open_real: OpenReal, tmp_path: Path) -> None:
    target, source = tmp_path / "x.part", gw.model("qwen2").write(tmp_path / "tiny.gguf")
    target.touch()
    quantizer = open_real(target, GIB)
    assert _cause(lambda: quantizer.plan(source, file_type_number("Q2_K"), _never)) == "library"
    assert _cause(lambda: _run(quantizer, tmp_path / "missing.gguf")) == "library"

"""Dry runs in real children: their deaths are verdicts, the parent lives on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.backends.prober import Prober, ProbeTiming
from muniment_runtime.contracts import KvType, ModelSpec, OracleSizes, RunConfig
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.spec import model_spec
from muniment_runtime.worker.child import Timing
from muniment_runtime.worker.protocol import Role
from muniment_runtime.worker.spawn import Process, ProcessSpawner, Spawner
from tests.helpers import gguf_writer
from tests.helpers.fragile_probe import WEIGHTS

FRAGILE = str(Path(__file__).parents[1] / "helpers" / "fragile_probe.py")
QUICK = Timing(start_s=20.0, hang_s=5.0, cancel_grace_s=0.3, stop_grace_s=0.5, terminate_s=1.0)
MISSING_ROLE = [sys.executable, "-c", "raise SystemExit(3)"]


class CountingSpawner:
    def __init__(self, inner: Spawner) -> None:
        self._inner = inner
        self.processes: list[Process] = []

    def spawn(self, role: Role) -> Process:
        self.processes.append(self._inner.spawn(role))
        return self.processes[-1]


@dataclass
class Setup:
    prober: Prober
    spawner: CountingSpawner
    folder: Path
    log: Path

    def spec(self, kind: str, name: str | None = None) -> ModelSpec:
        path = self.folder / f"{name or kind}.gguf"
        if not path.exists():
            gguf_writer.model(kind).write(path)
        return model_spec(read_header(path), model_id=name or kind, path=path, sha256=(name or kind).ljust(64, "0"))

    def noted(self) -> list[str]:
        return self.log.read_text("ascii").splitlines()

    def alive(self) -> int:
        return sum(process.poll() is None for process in self.spawner.processes)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    log = tmp_path / "log"
    spawner = CountingSpawner(ProcessSpawner(commands={"probe": [sys.executable, FRAGILE, str(log)]}))
    prober = Prober(spawner, timing=ProbeTiming(sizes_s=1.0, verify_s=1.0), child_timing=QUICK)
    yield Setup(prober, spawner, tmp_path, log)
    prober.close()


def _configs(*contexts: int) -> list[RunConfig]:
    return [RunConfig("x", context) for context in contexts]


def _said(answer: OracleSizes | KnownError | None) -> tuple[str, Mapping[str, object]]:
    assert isinstance(answer, KnownError)
    return answer.code, answer.params


def _crashed(model: str, cause: str = "crash") -> tuple[str, Mapping[str, object]]:
    return "E-PROBE-CRASHED", {"model": model, "cause": cause}


def test_one_warm_child_answers_for_every_configuration_and_model(setup: Setup) -> None:
    first, second = setup.spec("llama"), setup.spec("qwen2")
    config = RunConfig("llama", 2048, KvType.Q8_0, sequences=4)
    assert setup.prober.sizes(first, [config, *_configs(512)]) == [
        OracleSizes(2048, 0, 1, 1, WEIGHTS, 2048, 4),
        OracleSizes(512, 0, 1, 1, WEIGHTS, 512, 1),
    ]
    setup.prober.sizes(second, _configs(256))
    assert len(setup.spawner.processes) == 1
    assert setup.noted() == [
        "open llama twin",
        "sizes llama 2048",
        "sizes llama 512",
        "close llama",
        "open qwen2 twin",
        "sizes qwen2 256",
    ]


@pytest.mark.parametrize(("context", "code"), [(13, "E-PROBE-CONFIG"), (14, "E-WORKER-BUG")])
def test_a_refused_configuration_leaves_the_others_alone(context: int, code: str, setup: Setup) -> None:
    good, refused, also_good = setup.prober.sizes(setup.spec("llama"), _configs(512, context, 256))
    assert isinstance(good, OracleSizes)
    assert isinstance(also_good, OracleSizes)
    assert _said(refused)[0] == code
    assert len(setup.spawner.processes) == 1


def test_a_file_that_kills_the_child_is_a_verdict_and_not_tried_again(setup: Setup) -> None:
    bad, good = setup.spec("aborts"), setup.spec("llama")
    assert [_said(answer) for answer in setup.prober.sizes(bad, _configs(512, 256))] == [_crashed("aborts")] * 2
    assert isinstance(setup.prober.sizes(good, _configs(512))[0], OracleSizes)
    assert _said(setup.prober.sizes(bad, _configs(128))[0]) == _crashed("aborts")
    assert _said(setup.prober.verify(bad)) == _crashed("aborts")
    assert [line for line in setup.noted() if "aborts" in line] == ["open aborts twin", "open aborts real"]


def test_verdicts_cost_no_restarts(setup: Setup) -> None:
    for number in range(4):  # one more than a supervisor lets a child die
        name = f"bad{number}"
        assert _said(setup.prober.verify(setup.spec("aborts", name))) == _crashed(name)
    assert setup.prober.verify(setup.spec("llama")) is None


def test_one_deadly_configuration_is_its_own_verdict_two_are_the_files(setup: Setup) -> None:
    spec = setup.spec("llama")
    deadly, fine = setup.prober.sizes(spec, _configs(666, 512))
    assert _said(deadly) == _crashed("llama")
    assert isinstance(fine, OracleSizes)
    assert _said(setup.prober.sizes(spec, _configs(666))[0]) == _crashed("llama")
    assert setup.noted().count("sizes llama 666") == 1
    answers = setup.prober.sizes(spec, _configs(667, 512))
    assert [_said(answer) for answer in answers] == [_crashed("llama")] * 2
    assert setup.noted()[-1] == "sizes llama 667"


@pytest.mark.parametrize("kind", ["refused-as-twin", "aborts-as-twin"])
def test_a_verdict_never_rests_on_the_twin_alone(kind: str, setup: Setup) -> None:
    spec = setup.spec(kind)
    assert isinstance(setup.prober.sizes(spec, _configs(512))[0], OracleSizes)
    assert isinstance(setup.prober.sizes(spec, _configs(256))[0], OracleSizes)
    opened = [line for line in setup.noted() if line.startswith("open")]
    assert opened == [f"open {kind} twin", f"open {kind} real"]


def test_a_file_without_a_twin_is_read_itself_and_again_when_it_was_replaced(setup: Setup) -> None:
    path = setup.folder / "tabled.gguf"
    # A large array outside the tokenizer: our reader does not keep it, so no twin can be written.
    gguf_writer.model().add_array("llama.table", "uint32", range(5000)).write(path)
    spec = setup.spec("llama", "tabled")
    setup.prober.sizes(spec, _configs(512, 256))
    setup.prober.sizes(replace(spec, sha256="1" * 64), _configs(512))
    assert [line for line in setup.noted() if line.startswith("open")] == ["open tabled real"] * 2


def test_an_unknown_architecture_is_a_verdict(setup: Setup) -> None:
    spec = setup.spec("unknown")
    expected = ("E-PROBE-MODEL", {"model": "unknown"})
    assert _said(setup.prober.sizes(spec, _configs(512))[0]) == expected
    assert _said(setup.prober.verify(spec)) == expected
    assert len(setup.spawner.processes) == 1


def test_no_answer_in_time_is_a_verdict(setup: Setup) -> None:
    assert _said(setup.prober.verify(setup.spec("hangs"))) == _crashed("hangs", "hang")
    assert setup.alive() == 0
    assert setup.prober.verify(setup.spec("llama")) is None


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_lack_of_memory_says_nothing_about_the_file(setup: Setup) -> None:
    spec = setup.spec("killed")
    for _ in range(2):
        assert _said(setup.prober.verify(spec)) == _crashed("killed", "out_of_memory")
    assert setup.noted() == ["open killed real"] * 2


def test_verify_reads_the_real_file_anew(setup: Setup) -> None:
    spec = setup.spec("llama")
    setup.prober.sizes(spec, _configs(256))
    assert setup.prober.verify(spec) is None
    assert setup.noted()[2:] == ["close llama", "open llama real", "sizes llama 512", "close llama"]


def test_a_file_that_our_reader_refuses_never_reaches_a_child(setup: Setup) -> None:
    spec = setup.spec("llama")
    spec.path.write_bytes(b"GGUF" + bytes(30))
    assert _said(setup.prober.sizes(spec, _configs(512))[0])[0] == "E-MODEL-MALFORMED"
    spec.path.unlink()
    assert _said(setup.prober.sizes(spec, _configs(512))[0])[0] == "E-MODEL-FILE"
    assert setup.spawner.processes == []


def test_close_ends_the_child_removes_the_twins_and_allows_more(setup: Setup) -> None:
    spec = setup.spec("llama")
    setup.prober.sizes(spec, _configs(512))
    setup.prober.sizes(setup.spec("qwen2"), _configs(512))
    folder = setup.prober._folder
    assert folder is not None
    held = Path(folder.name)
    assert len(list(held.iterdir())) == 2
    assert held.stat().st_mode & 0o077 == 0
    setup.prober.close()
    setup.prober.close()
    assert not held.exists()
    assert setup.alive() == 0
    assert isinstance(setup.prober.sizes(spec, _configs(512))[0], OracleSizes)


def test_close_ends_a_question_that_is_being_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spawner = CountingSpawner(ProcessSpawner(commands={"probe": [sys.executable, FRAGILE, str(log)]}))
    prober = Prober(spawner, child_timing=QUICK)
    setup = Setup(prober, spawner, tmp_path, log)
    answers: list[KnownError | None] = []
    asking = threading.Thread(target=lambda: answers.append(prober.verify(setup.spec("hangs"))))
    asking.start()
    try:
        while not (log.exists() and setup.noted()):
            asking.join(0.02)
            assert asking.is_alive()
        prober.close()
        asking.join(30.0)
        assert not asking.is_alive()
    finally:
        prober.close()
    assert _said(answers[0])[0] in {"E-PROBE-CRASHED", "E-WORKER-DIED"}
    assert setup.alive() == 0


def test_a_child_that_does_not_start_is_no_verdict(tmp_path: Path) -> None:
    spawner = CountingSpawner(ProcessSpawner(commands={"probe": MISSING_ROLE}))
    prober = Prober(spawner, child_timing=QUICK)
    setup = Setup(prober, spawner, tmp_path, tmp_path / "log")
    try:
        answers = prober.sizes(setup.spec("llama"), _configs(512, 256, 128))
    finally:
        prober.close()
    assert [_said(answer) for answer in answers] == [("E-WORKER-DIED", {"role": "probe", "cause": "start"})] * 3
    assert len(spawner.processes) == 1


def test_the_probe_role_takes_no_arguments() -> None:
    process = ProcessSpawner(arguments={"probe": ["x"]}).spawn("probe")
    with process:
        assert process.wait(30) == 2

"""Requantizing in a child process: progress, cancel, death, and the fence round the one file that it may write."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from muniment_app.bootstrap import build_services
from muniment_app.cli.main import run
from muniment_app.services.api import Services
from muniment_app.workspace.paths import Home
from muniment_resources.errors import KnownError
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.quantizer import ROLE, WorkerQuantizer
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.protocol import Role
from muniment_runtime.worker.spawn import Process, ProcessSpawner
from tests.helpers.quantizing import BASE_ID, tiny, types_of

MADE_ID = "tiny-q4_0-requantized"
ENOUGH_BYTES = 1 << 40


def _command(result: Path, behaviour: str) -> list[str]:
    return [sys.executable, "-m", "tests.helpers.quantizing", str(result), behaviour]


class Starter(ProcessSpawner):
    """Remembers the processes that it started."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(commands={ROLE: command})
        self.started: list[Process] = []

    def spawn(self, role: Role, arguments: Sequence[str] = ()) -> Process:
        self.started.append(super().spawn(role, arguments))
        return self.started[-1]


@pytest.fixture
def result(tmp_path: Path) -> Path:
    path = tmp_path / "result.gguf"
    path.write_bytes(tiny("Q4_0", 2))
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "x.part"
    path.parent.mkdir()
    path.touch()
    return path


Open = Callable[[str], tuple[WorkerQuantizer, Starter]]


@pytest.fixture
def opened(result: Path, target: Path) -> Iterator[Open]:
    quantizers: list[WorkerQuantizer] = []

    def start(behaviour: str) -> tuple[WorkerQuantizer, Starter]:
        starter = Starter(_command(result, behaviour))
        quantizers.append(WorkerQuantizer(starter, target, 1 << 20))
        return quantizers[-1], starter

    yield start
    for quantizer in quantizers:
        quantizer.close()


def _never() -> bool:
    return False


def _failed(call: Callable[[], object]) -> tuple[str, object]:
    with pytest.raises(KnownError) as caught:
        call()
    return caught.value.code, caught.value.params.get("cause")


def test_plan_and_work_with_the_name_of_each_tensor(opened: Open, result: Path, target: Path) -> None:
    quantizer, starter = opened("good")
    assert quantizer.plan(Path("source.gguf"), 2, _never) == types_of(result)
    assert target.stat().st_size == 0
    names: list[str] = []
    quantizer.run(Path("source.gguf"), 2, 2, 1 << 20, names.append, _never)
    assert names == [tensor.name for tensor in read_header(result).tensors]
    assert target.read_bytes() == result.read_bytes()
    quantizer.close()
    assert starter.started[0].returncode == 0


def test_cancel_ends_a_child_that_cannot_listen(opened: Open, target: Path) -> None:
    quantizer, starter = opened("deaf")
    names: list[str] = []
    run = lambda: quantizer.run(Path("s.gguf"), 2, 2, 1 << 20, names.append, lambda: len(names) == 2)  # noqa: E731
    assert _failed(run) == ("E-CANCELLED", None)
    assert starter.started[0].poll() is not None
    target.unlink()


def test_cancel_before_the_work(opened: Open) -> None:
    quantizer, starter = opened("good")
    assert _failed(lambda: quantizer.plan(Path("s.gguf"), 2, lambda: True)) == ("E-CANCELLED", None)
    assert starter.started[0].poll() is not None


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        ("abort", "crash"),
        ("memory", "out_of_memory"),
        ("early", "start"),
        ("library", "library"),
        # What a child says may come from a document or be made up.
        ("words", "protocol"),
        ("code", "protocol"),
    ],
)
def test_death_or_error_of_the_child_is_a_failure_with_its_cause(opened: Open, behaviour: str, cause: str) -> None:
    quantizer, _ = opened(behaviour)
    run = lambda: quantizer.run(Path("s.gguf"), 2, 2, 1 << 20, lambda _: None, _never)  # noqa: E731
    assert _failed(run) == ("E-QUANTIZE-FAILED", cause)


def test_kill_by_the_system_is_taken_for_memory(opened: Open) -> None:
    quantizer, starter = opened("deaf")
    names: list[str] = []

    def begun(name: str) -> None:
        names.append(name)
        if len(names) == 2:
            starter.started[0].kill()

    run = lambda: quantizer.run(Path("s.gguf"), 2, 2, 1 << 20, begun, _never)  # noqa: E731
    assert _failed(run) == ("E-QUANTIZE-FAILED", "out_of_memory")


def test_garbled_plan_and_missing_program(opened: Open, target: Path) -> None:
    quantizer, _ = opened("lies")
    assert _failed(lambda: quantizer.plan(Path("s.gguf"), 2, _never)) == ("E-QUANTIZE-FAILED", "protocol")
    missing = ProcessSpawner(commands={ROLE: ["/does/not/exist"]})
    assert _failed(lambda: WorkerQuantizer(missing, target, 1)) == ("E-QUANTIZE-FAILED", "start")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kernel layers are Linux")
def test_only_the_one_file_can_be_written_and_not_beyond_its_limit(result: Path, target: Path) -> None:
    source = target.with_name("source.gguf")
    source.write_bytes(b"the base")

    class WithArguments:
        def __init__(self, behaviour: str) -> None:
            self._spawner = ProcessSpawner(commands={ROLE: _command(result, behaviour)})

        def spawn(self, role: Role) -> Process:
            return self._spawner.spawn(role, (str(target), "4096"))

    outcomes: dict[str, dict[str, str]] = {}
    for behaviour in ("guarded", "good"):
        target.touch()
        child = Child(WithArguments(behaviour), ROLE)
        try:
            capabilities = child.hello().get("capabilities")
            if behaviour == "guarded":
                assert isinstance(capabilities, dict)
                assert capabilities["kernel_writes"], f"the kernel layer is not active here: {capabilities}"
            reply, _ = child.request("attempts")
        finally:
            child.stop()
        assert isinstance(reply["outcomes"], dict)
        outcomes[behaviour] = reply["outcomes"]
        if behaviour == "guarded":
            assert sorted(path.name for path in target.parent.iterdir()) == ["source.gguf", "x.part"]
            assert (target.stat().st_size, source.read_bytes()) == (4096, b"the base")
    refused = {name: reason for name, reason in outcomes["guarded"].items() if reason != "done"}
    assert refused == {
        "beside": "Permission denied",
        "rename": "Permission denied",
        "remove": "Permission denied",
        "source": "Permission denied",
        "socket": "Operation not permitted",
        "hook": "BlockedError",
        "limit": "File too large after 4096",
    }
    # The control: without the guard the same attempts work.
    assert {name for name, reason in outcomes["good"].items() if reason != "done"} == {"remove"}
    assert outcomes["good"]["remove"] == "No such file or directory"  # it had been renamed


# --- the whole program --------------------------------------------------------------------------------------------


class Program:
    """Runs commands in this process; the quantizing child is scripted."""

    def __init__(self, folder: Path, result: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.models = folder / "home" / "models"
        self.behaviour = "good"
        self._result = result
        self._capsys = capsys

    def _services(self, _home: Path | None, workspace: str) -> Services:
        spawner = ProcessSpawner(commands={ROLE: _command(self._result, self.behaviour)})
        probe = FixedProbe(what_if(ENOUGH_BYTES))
        return build_services(Home(self.folder / "home"), workspace, spawner, probe=probe)

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run(list(argv), {}, self._services, lambda *_: 0)
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def events(self) -> list[str]:
        events = json.loads(self("audit", "show", "--json", "-n", "50")[1])["events"]
        return [event["type"] for event in events if event["type"].startswith("model.")]


@pytest.fixture
def program(tmp_path: Path, result: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    made = Program(tmp_path, result, capsys)
    base = tmp_path / f"{BASE_ID}.gguf"
    base.write_bytes(tiny("Q8_0", 7))
    assert made("models", "import", str(base))[0] == 0
    return made


def test_command_makes_lists_and_records(program: Program) -> None:
    code, out, err = program("models", "requantize", BASE_ID, "q4_0")
    assert (code, err) == (0, "")
    assert MADE_ID in out
    assert "Q4_0-from-Q8_0" in out
    [listed] = [line for line in program("models", "list")[1].splitlines() if MADE_ID in line]
    assert "Q4_0-from-Q8_0" in listed
    assert BASE_ID in listed
    code, out, _ = program("models", "requantize", BASE_ID, "Q4_0", "--json")
    made = json.loads(out)
    assert (made["model"], made["quantization"], made["base"]) == (MADE_ID, "Q4_0-from-Q8_0", BASE_ID)
    assert made in json.loads(program("models", "list", "--json")[1])["models"]
    assert program.events().count("model.requantized") == 1
    assert program("models", "remove", BASE_ID)[0] == 0
    assert program("models", "verify", MADE_ID)[0] == 0
    assert program("audit", "verify")[0] == 0


def test_usage_and_refusals(program: Program) -> None:
    code, out, err = program("models", "requantize", BASE_ID, "IQ2_XS", "--json")
    assert code == 2
    assert json.loads(out)["error"]["code"] == "E-QUANTIZE-TYPE"
    assert "importance matrix" in err
    code, out, err = program("models", "requantize", "nope", "Q4_0")
    assert (code, out) == (1, "")
    assert "[E-MODEL-UNKNOWN]" in err


def test_crash_is_one_sentence_and_leaves_the_base(program: Program) -> None:
    program.behaviour = "abort"
    before = {path.name: path.read_bytes() for path in program.models.iterdir()}
    code, out, err = program("models", "requantize", BASE_ID, "Q4_0")
    assert (code, out) == (1, "")
    assert "[E-QUANTIZE-FAILED]" in err
    assert "crash" in err
    assert {path.name: path.read_bytes() for path in program.models.iterdir()} == before
    assert "model.requantize_failed" in program.events()
    program.behaviour = "good"
    assert program("models", "requantize", BASE_ID, "Q4_0")[0] == 0


def test_ctrl_c_stops_the_child_and_leaves_nothing(program: Program) -> None:
    program.behaviour = "deaf"
    before = sorted(path.name for path in program.models.iterdir())
    interrupted = threading.Event()

    def interrupt() -> None:
        # Once the half file is there, the child is deep in its work.
        for _ in range(1000):
            if any(path.stat().st_size for path in program.models.glob("*.part")):
                os.kill(os.getpid(), signal.SIGINT)
                interrupted.set()
                return
            threading.Event().wait(0.02)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _, err = program("models", "requantize", BASE_ID, "Q4_0")
    thread.join()
    assert interrupted.is_set()
    assert code == 130
    assert "[E-CANCELLED]" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in program.models.iterdir()) == before
    assert [item for item in psutil.Process().children() if "tests.helpers.quantizing" in item.cmdline()] == []

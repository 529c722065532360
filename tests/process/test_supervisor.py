"""Real children that answer, hang, lie and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.worker.budget import RestartBudget
from muniment_runtime.worker.child import Child, Timing
from muniment_runtime.worker.outcome import Cause
from muniment_runtime.worker.spawn import ProcessSpawner
from muniment_runtime.worker.supervisor import Supervisor

ROOT = Path(__file__).parents[2]
ECHO = str(ROOT / "tests" / "helpers" / "echo_child.py")
# Short budgets, so that a hang is seen soon; no test asserts how long anything took.
QUICK = Timing(start_s=20.0, hang_s=2.0, cancel_grace_s=0.5, stop_grace_s=1.0, terminate_s=1.0)
_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")

Make = Callable[..., Child]


def _spawner() -> ProcessSpawner:
    names = {"echo": (), "guarded": ("guard",), "mute": ("mute",), "early": ("early",)}
    return ProcessSpawner(commands={role: [sys.executable, ECHO, *extra] for role, extra in names.items()})


@pytest.fixture
def make() -> Iterator[Make]:
    children: list[Child] = []

    def start(role: str = "echo", timing: Timing = QUICK) -> Child:
        children.append(Child(_spawner(), role, timing))
        return children[-1]

    yield start
    for child in children:
        child.stop()


def _code(call: Callable[[], object]) -> tuple[str, dict[str, str | int | float]]:
    with pytest.raises(KnownError) as caught:
        call()
    return caught.value.code, dict(caught.value.params)


def test_requests_events_and_raw_bytes_pass(make: Make) -> None:
    child = make()
    assert child.hello()["version"] == 1
    assert child.request("echo", {"a": ["你", 1]}, b"\x00pixels") == (
        {"args": {"a": ["你", 1]}, "kind": "result", "id": 1},
        b"\x00pixels",
    )
    numbers: list[object] = []
    child.request("count", {"to": 500}, on_event=lambda event, _raw: numbers.append(event["number"]))
    assert numbers == list(range(500))


def test_errors_of_the_child_arrive_with_their_code_and_without_its_words(make: Make) -> None:
    child = make()
    assert _code(lambda: child.request("known")) == ("E-DOC-TEST", {"page": 3})
    assert _code(lambda: child.request("bug")) == ("E-WORKER-BUG", {"type": "ValueError"})
    child.request("echo")
    outcome = child.stop()
    assert outcome.cause is Cause.STOPPED
    assert outcome.exit_code == 0
    assert "ValueError" in outcome.untrusted_stderr
    assert "canary" not in outcome.untrusted_stderr
    assert "closed" in outcome.untrusted_stderr


def test_what_native_code_prints_never_reaches_the_protocol(make: Make) -> None:
    child = make()
    child.request("print")
    child.request("echo")
    assert "more noise" in child.stop().untrusted_stderr


def test_several_callers_get_their_own_replies(make: Make) -> None:
    child = make()
    replies: dict[int, object] = {}

    def ask(number: int) -> None:
        replies[number] = child.request("echo", {"n": number})[0]["args"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert replies == {number: {"n": number} for number in range(8)}


def test_a_caller_that_fails_in_an_event_stops_the_work_too(make: Make) -> None:
    child = make()

    def fail(*_: object) -> None:
        raise KnownError("E-DOC-TEST")

    # "wait" ends only when it is cancelled, and the next request only begins when it has ended.
    assert _code(lambda: child.request("wait", on_event=fail))[0] == "E-DOC-TEST"
    assert child.request("echo", {"a": 1}, timeout_s=20.0)[0]["args"] == {"a": 1}


def test_cancel_ends_the_running_request_and_a_waiting_one(make: Make) -> None:
    child = make()
    begun, enough = threading.Event(), threading.Event()
    first: list[object] = []

    def ask() -> None:
        first.append(child.request("wait", on_event=lambda *_: begun.set(), cancelled=enough.is_set)[0])

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(20)
    # This one waits behind the first and is answered although the first goes on.
    assert _code(lambda: child.request("echo", cancelled=lambda: True))[0] == "E-CANCELLED"
    assert not first
    enough.set()
    thread.join(20)
    assert first[0] == {"cancelled": True, "kind": "result", "id": 1}
    child.request("echo")


def test_a_child_that_ignores_a_cancel_or_a_timeout_is_killed(make: Make) -> None:
    deaf = make()
    begun = threading.Event()
    assert _code(lambda: deaf.request("deaf", on_event=lambda *_: begun.set(), cancelled=begun.is_set)) == (
        "E-WORKER-DIED",
        {"role": "echo", "cause": "hang"},
    )
    slow = make()
    assert _code(lambda: slow.request("deaf", timeout_s=0.2))[0] == "E-WORKER-TIMEOUT"
    patient = make()
    assert _code(lambda: patient.request("wait", timeout_s=0.2))[0] == "E-WORKER-TIMEOUT"
    patient.request("echo")


@_posix
def test_kill_in_the_middle_reaches_every_waiter(make: Make) -> None:
    child = make()
    child.hello()
    codes: list[tuple[str, dict[str, str | int | float]]] = []
    threads = [threading.Thread(target=lambda: codes.append(_code(lambda: child.request("wait")))) for _ in range(3)]
    for thread in threads:
        thread.start()
    os.kill(child.pid, signal.SIGKILL)
    for thread in threads:
        thread.join(20)
    expected = ("E-WORKER-DIED", {"role": "echo", "cause": "out_of_memory"})
    assert codes == [expected] * 3
    assert _code(lambda: child.request("echo")) == expected
    outcome = child.outcome()
    assert outcome is not None
    assert outcome.signal_name == "SIGKILL"


@_posix
def test_abort_is_a_crash(make: Make) -> None:
    child = make()
    assert _code(lambda: child.request("abort"))[1]["cause"] == "crash"


def test_garbage_on_the_pipe_ends_the_child_not_the_parent(make: Make) -> None:
    child = make()
    assert _code(lambda: child.request("garbage"))[1]["cause"] == "protocol"


@_posix
@pytest.mark.parametrize("op", ["freeze", "native_loop"])
def test_silence_is_a_hang(make: Make, op: str) -> None:
    child = make()
    assert _code(lambda: child.request(op))[1]["cause"] == "hang"


@_posix
def test_declared_native_time_is_not_a_hang(make: Make) -> None:
    child = make(timing=Timing(hang_s=0.4, stop_grace_s=0.5, terminate_s=0.5))
    child.hello()
    waiter = threading.Thread(target=lambda: _code(lambda: child.request("freeze", native_budget_s=60.0)))
    waiter.start()
    waiter.join(2.0)
    assert child.alive
    child.kill()
    waiter.join(20)


@_posix
def test_stop_ends_even_a_frozen_child(make: Make) -> None:
    child = make(timing=Timing(hang_s=60.0, stop_grace_s=0.3, terminate_s=0.3))
    child.hello()
    begun = threading.Event()
    waiter = threading.Thread(target=lambda: _code(lambda: child.request("freeze", on_event=lambda *_: begun.set())))
    waiter.start()
    assert begun.wait(20)
    outcome = child.stop()
    waiter.join(20)
    assert outcome.cause is Cause.STOPPED
    assert outcome.signal_name == "SIGKILL"
    assert child.stop() == outcome


def test_a_child_that_never_greets_or_ends_at_once_is_reported(make: Make) -> None:
    assert _code(make("mute", Timing(start_s=0.5, hang_s=1.0)).hello)[1]["cause"] == "hang"
    assert _code(make("early").hello)[1]["cause"] == "start"
    missing = ProcessSpawner(commands={"x": ["/does/not/exist"]})
    assert _code(lambda: Child(missing, "x"))[0] == "E-WORKER-START"


@_posix
@pytest.mark.parametrize("op", ["wait", "native_loop"])
def test_child_is_gone_soon_after_its_parent_was_killed(op: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.parent", op], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait(10)
        # The interpreter's lock is held in one case, so only the kernel can end that child.
        gone, _ = psutil.wait_procs([child], timeout=10)
    assert gone == [child]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kernel layers are Linux")
@pytest.mark.parametrize(
    "name", ["socket", "write", "exec", "native_socket", "native_unix_socket", "native_write", "native_io_uring"]
)
def test_guard_refuses_what_an_unguarded_child_may_do(make: Make, tmp_path: Path, name: str) -> None:
    target = {"name": name, "path": str(tmp_path / "out")}
    free = make("echo").request("attempt", target)[0]["outcome"]
    # The control: without the guard the same attempt works (io_uring may be off on the whole machine).
    assert free == "done" or name == "native_io_uring"
    (tmp_path / "out").unlink(missing_ok=True)
    guarded = make("guarded")
    layers = guarded.hello()["capabilities"]
    assert isinstance(layers, dict)
    assert layers["audit_hook"]
    if name.startswith("native") and not (layers["kernel_writes" if name == "native_write" else "kernel_network"]):
        pytest.fail(f"the kernel layer is not active here: {layers}")
    outcome = guarded.request("attempt", target)[0]["outcome"]
    assert outcome in {"BlockedError", "Operation not permitted", "Permission denied"}
    assert not (tmp_path / "out").exists()
    assert guarded.request("attempt", {"name": "read", "path": ECHO})[0]["outcome"] == "done"


def test_supervisor_restarts_within_its_budget() -> None:
    now = [0.0]
    budget = RestartBudget(lambda: now[0], delays_s=(0.0,), crashes=2)
    supervisor = Supervisor(_spawner(), "echo", budget, QUICK)
    first = supervisor.child()
    assert supervisor.child() is first
    _code(lambda: first.request("abort"))
    second = supervisor.child()
    assert second is not first
    second.request("echo")
    _code(lambda: second.request("abort"))
    assert _code(supervisor.child)[0] == "E-WORKER-CIRCUIT"
    supervisor.retry()
    third = supervisor.child()
    third.request("echo")
    supervisor.close()
    assert not third.alive
    assert _code(supervisor.child)[0] == "E-WORKER-CIRCUIT"

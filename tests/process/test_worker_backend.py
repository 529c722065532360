"""The contract over pipes, with the scripted backend in a real, guarded child."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.worker import WorkerBackend
from muniment_runtime.contracts import GenerateRequest
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.outcome import Cause
from muniment_runtime.worker.spawn import ProcessSpawner, role_command
from tests.contract.backend_contract import BackendContract, Streamed, prompt

SCRIPT = """
default = "The 海 sea 😀 is wide and deep, and nobody has seen all of its floor."
token_delay_s = 0.02
prefill_delay_s = 0.02
die_on = "please crash"
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT, "utf-8")
    child = Child(ProcessSpawner(arguments={"inference-fake": [str(script)]}), "inference-fake")
    yield child
    child.stop()


class TestWorkerBackend(BackendContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(b"any")
        return path

    @pytest.fixture
    def backend(self, child: Child) -> Backend:
        return WorkerBackend(child)

    def test_name_is_that_of_the_backend_inside(self, backend: Backend) -> None:
        assert backend.name == "fake"

    def test_death_in_the_middle_is_a_known_state(self, loaded: Backend, child: Child) -> None:
        with pytest.raises(KnownError) as caught:
            Streamed().run(loaded, GenerateRequest(prompt("please crash"), 4))
        assert caught.value.code == "E-WORKER-DIED"
        outcome = child.outcome()
        assert outcome is not None
        assert outcome.cause is Cause.CRASH
        loaded.unload()


def test_the_scripted_role_needs_its_script() -> None:
    child = Child(ProcessSpawner(), "inference-fake")
    with pytest.raises(KnownError):
        child.hello()
    assert child.stop().exit_code == 2


def test_an_unknown_role_is_refused() -> None:
    child = Child(ProcessSpawner(commands={"x": role_command("no-such-role")}), "x")
    with pytest.raises(KnownError):
        child.hello()
    assert child.stop().exit_code == 2

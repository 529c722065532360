"""The scripted backend keeps the contract that the real ones keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import BugError
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.fake import FakeBackend, FakeRule, FakeScript
from muniment_runtime.contracts import GenerateRequest
from tests.contract.backend_contract import BackendContract, Streamed, prompt

SCRIPT = FakeScript(
    rules=(FakeRule("revenue", "It is 12.4 million."),),
    default="The 海 sea 😀 is wide and deep, and nobody has seen all of its floor.",
    token_delay_s=0.005,
    prefill_delay_s=0.005,
)


class TestFakeBackend(BackendContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(b"any")
        return path

    @pytest.fixture
    def backend(self) -> Backend:
        return FakeBackend(SCRIPT, enabled=True)

    def test_replies_follow_the_rules(self, loaded: Backend) -> None:
        result = Streamed().run(loaded, GenerateRequest(prompt("What is the revenue?"), 50))
        assert result.untrusted_text == "It is 12.4 million."


def test_it_does_not_exist_unless_asked_for() -> None:
    with pytest.raises(BugError):
        FakeBackend(SCRIPT, enabled=False)

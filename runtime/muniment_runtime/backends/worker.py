"""The backend that lives in a child process: the same contract, at the other end of the pipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.backends.codec import (
    config_to_json,
    integers,
    loaded_from_json,
    member,
    request_to_json,
    result_from_json,
    segments_to_json,
)
from muniment_runtime.contracts import (
    FinishReason,
    GenerateRequest,
    GenerateResult,
    LoadedModel,
    RunConfig,
    Segment,
)
from muniment_runtime.headroom.device import DeviceMemory
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.protocol import CANCELLED, Json

__all__ = ["WorkerBackend"]

_LOAD_BUDGET_S = 300.0
"""Longest silence during a load: a cold file of many gigabytes on a slow disk."""


class WorkerBackend:
    """A backend in a child process. Thread-safe: the child serves one request after the other.

    Every method also raises ``KnownError`` with ``E-WORKER-DIED`` when the child is gone; a model that was loaded
    is then lost, and a new child must load it again.

    Args:
        child: A running inference child.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._name: str | None = None

    @property
    def name(self) -> str:
        """Name of the backend inside the child."""
        if self._name is None:
            self._name = member(self._child.request("info")[0], "backend", str)
        return self._name

    def devices(self) -> list[DeviceMemory]:
        """See ``Backend.devices``."""
        found: list[DeviceMemory] = []
        for row in member(self._child.request("devices")[0], "devices", list):
            match row:
                case [str(name), int(free_bytes), int(total_bytes)]:
                    found.append(DeviceMemory(name, free_bytes, total_bytes))
                case _:
                    raise KnownError("E-WORKER-PROTOCOL")
        return found

    def load(self, path: Path, config: RunConfig) -> LoadedModel:
        """See ``Backend.load``."""
        reply, _ = self._child.request(
            "load", {"path": str(path.absolute()), "config": config_to_json(config)}, native_budget_s=_LOAD_BUDGET_S
        )
        return loaded_from_json(reply)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See ``Backend.count_tokens``."""
        return integers(self._child.request("count_tokens", {"texts": list(texts)})[0], "counts")

    def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        """See ``Backend.tokenize``."""
        return integers(self._child.request("tokenize", {"segments": segments_to_json(segments)})[0], "tokens")

    def generate(
        self,
        request: GenerateRequest,
        on_text: Callable[[str], None],
        cancelled: Callable[[], bool],
        on_progress: Callable[[int, int], None],
    ) -> GenerateResult:
        """See ``Backend.generate``; the callbacks run in the calling thread."""

        def on_event(event: Json, _raw: bytes | None) -> None:
            if event.get("event") == "text":
                on_text(member(event, "text", str))
            elif event.get("event") == "progress":
                on_progress(member(event, "done", int), member(event, "total", int))

        try:
            reply, _ = self._child.request("generate", request_to_json(request), on_event=on_event, cancelled=cancelled)
        except KnownError as error:
            if error.code != CANCELLED:
                raise
            # It was cancelled before the child had begun with it.
            return GenerateResult("", FinishReason.CANCELLED, 0, 0, 0.0, 0.0, 0.0)
        return result_from_json(reply)

    def unload(self) -> None:
        """See ``Backend.unload``; a child that is gone holds no model."""
        if self._child.alive:
            self._child.request("unload")

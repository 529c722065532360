"""Keeps the one inference worker: started when needed, reloaded when the plan changes, replaced when it dies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from muniment_app.services.api import Record
from muniment_resources.errors import BugError, KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.contracts import (
    Candidate,
    Clock,
    GenerateRequest,
    GenerateResult,
    LoadedModel,
    ModelSpec,
    Plan,
    RunConfig,
)
from muniment_runtime.headroom.device import DeviceMemory

__all__ = ["Admission", "Held", "Learn", "ModelHost"]

log = logging.getLogger(__name__)

Learn = Callable[[ModelSpec, Candidate, LoadedModel], int]
"""Compares what a load really took with what was expected; returns the difference in bytes."""


class Held(Protocol):
    """Memory that is reserved for one load.

    Attributes:
        shared: Whether other running instances see it.
    """

    shared: bool

    def settle(self, resident_bytes: int) -> None:
        """Tell what is resident now: only the rest stays outstanding."""
        ...

    def release(self) -> None:
        """Give it back. Idempotent."""
        ...


class Admission(Protocol):
    """Makes sure that two loads never count the same headroom."""

    def reserve(self, need_bytes: int, margin_bytes: int, freed_bytes: int, replaces: Held | None) -> Held:
        """Reserve memory for a load that first gives ``freed_bytes`` back and then replaces ``replaces``.

        Raises:
            KnownError: ``E-PLAN-RESERVED`` when other loads hold what the plan counted on, ``E-PLAN-SHRUNK`` when it
                is gone for another reason, ``E-PLAN-LEDGER`` when it cannot be told.
        """
        ...


class ModelHost:
    """Owner of the inference worker.

    Args:
        start: Starts a worker, or a new one after a death, and returns the backend in it.
        stop: Ends the worker. Idempotent.
        audit: Records loads, starts and deaths before they have an effect.
        clock: Monotonic seconds.
        admission: Reserves memory before a load.
        learn: Takes notice of what a load really took.
    """

    def __init__(
        self,
        start: Callable[[], Backend],
        stop: Callable[[], None],
        audit: Record,
        clock: Clock,
        admission: Admission,
        learn: Learn,
    ) -> None:
        self._admission = admission
        self._learn = learn
        self._held: Held | None = None
        self._devices: list[DeviceMemory] | None = None
        self._start = start
        self._stop = stop
        self._audit = audit
        self._clock = clock
        self._lock = threading.RLock()
        self._worker: Backend | None = None
        self._loaded: LoadedModel | None = None
        self._config: RunConfig | None = None
        self._sha256 = ""

    def running(self) -> LoadedModel | None:
        """Return what is loaded now, read back from the worker."""
        return self._loaded

    def config(self) -> RunConfig | None:
        """Return the configuration that runs now."""
        return self._config

    def devices(self) -> list[DeviceMemory]:
        """Return the graphics devices that the worker reports; what it said last while it is busy, none without it.

        A worker that has no devices is not asked again: they do not come while it runs.

        Raises:
            KnownError: ``E-WORKER-DIED``.
        """
        if not self._lock.acquire(blocking=False):
            return self._devices or []
        try:
            if self._worker is None:
                return []
            if self._devices is None or self._devices:
                self._devices = self._worker.devices()
            return self._devices
        finally:
            self._lock.release()

    def ensure(self, spec: ModelSpec, plan: Plan) -> tuple[LoadedModel, float]:
        """Return the loaded model and the seconds that loading took now (0 when it was warm).

        Args:
            spec: The model of the plan's choice.
            plan: A plan with a choice.

        Raises:
            KnownError: ``E-MODEL-LOAD``, ``E-MODEL-MEMORY``, ``E-WORKER-DIED``; as ``Admission.reserve`` when the
                headroom is gone meanwhile.
        """
        choice = plan.choice
        if choice is None:
            raise BugError("a plan without a choice cannot be loaded")
        with self._lock:
            if self._loaded is not None and self._config == choice.config and self._sha256 == spec.sha256:
                return self._loaded, 0.0
            started = self._clock()
            self._reserve(spec, plan, choice)
            worker = self._worker_or_start()
            self._loaded = self._config = None
            try:
                with self._dropped_when_dead():
                    loaded = worker.load(spec.path, choice.config)
            except KnownError:
                self._release()
                raise
            self._settle(spec, choice, loaded)
            self._loaded, self._config, self._sha256 = loaded, choice.config, spec.sha256
            return loaded, self._clock() - started

    def _reserve(self, spec: ModelSpec, plan: Plan, choice: Candidate) -> None:
        """Reserve the need; who insisted on a pin gave up the reserve and the mapped weights."""
        insisted = choice.reason == "overridden"
        mapped = spec.weights_bytes if insisted and choice.config.mmap else 0
        freed = 0 if self._loaded is None else self._loaded.anonymous_bytes
        self._held = self._admission.reserve(
            choice.need.total_bytes - mapped, 0 if insisted else plan.margin_bytes, freed, self._held
        )

    def _settle(self, spec: ModelSpec, choice: Candidate, loaded: LoadedModel) -> None:
        """Record what really runs beside what was planned; mapped weights stay reserved, since no probe sees them."""
        if self._held is not None:
            self._held.settle(loaded.anonymous_bytes)
        residual = self._learn(spec, choice, loaded)
        self._audit(
            "model.loaded",
            {
                "model": spec.model_id,
                "sha256": spec.sha256,
                "planned_context": choice.config.context,
                "context": loaded.context,
                "planned_sequences": choice.config.sequences,
                "sequences": loaded.sequences,
                "need_bytes": choice.need.total_bytes,
                "anonymous_bytes": loaded.anonymous_bytes,
                "file_bytes": loaded.file_bytes,
                "residual_bytes": residual,
                "reserved": int(self._held is not None and self._held.shared),
                "load_ms": round(loaded.load_s * 1000),
            },
            {},
        )
        if loaded.context < choice.config.context or loaded.sequences < choice.config.sequences:
            log.warning("model.smaller context=%d planned=%d", loaded.context, choice.config.context)

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return token counts by the loaded model's own tokenizer."""
        with self._lock, self._dropped_when_dead():
            return self._current().count_tokens(texts)

    def generate(
        self,
        request: GenerateRequest,
        on_text: Callable[[str], None],
        cancelled: Callable[[], bool],
        on_progress: Callable[[int, int], None],
    ) -> GenerateResult:
        """Generate with the loaded model; see ``Backend.generate``."""
        with self._lock, self._dropped_when_dead():
            return self._current().generate(request, on_text, cancelled, on_progress)

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._drop({"cause": "closed"})
            self._stop()

    def _current(self) -> Backend:
        if self._worker is None or self._loaded is None:
            raise KnownError("E-MODEL-NOT-LOADED")
        return self._worker

    def _worker_or_start(self) -> Backend:
        if self._worker is None:
            self._audit("worker.started", {"role": "inference"}, {})
            self._worker = self._start()
        return self._worker

    def _dropped_when_dead(self) -> _DropWhenDead:
        return _DropWhenDead(self._drop)

    def _drop(self, fields: Mapping[str, str | int | float]) -> None:
        worker, self._worker, self._loaded, self._config = self._worker, None, None, None
        self._devices = None
        self._release()
        if worker is None:
            return
        self._audit("worker.exited", {"role": "inference", "cause": str(fields.get("cause", "unknown"))}, {})


class _DropWhenDead:
    """Forgets a worker that died inside the block, so that the next question starts a fresh one."""

    def __init__(self, drop: Callable[[Mapping[str, str | int | float]], None]) -> None:
        self._drop = drop

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KnownError) and error.code == "E-WORKER-DIED":
            log.warning("worker.died role=inference")
            self._drop(error.params)

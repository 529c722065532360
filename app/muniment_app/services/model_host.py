"""Keeps the one inference worker: started when needed, reloaded when the plan changes, replaced when it dies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from muniment_app.services.api import Record
from muniment_resources.errors import KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.contracts import (
    Clock,
    GenerateRequest,
    GenerateResult,
    LoadedModel,
    ModelSpec,
    RunConfig,
)

__all__ = ["ModelHost"]

log = logging.getLogger(__name__)


class ModelHost:
    """Owner of the inference worker.

    Args:
        start: Starts a worker, or a new one after a death, and returns the backend in it.
        stop: Ends the worker. Idempotent.
        audit: Records loads, starts and deaths before they have an effect.
        clock: Monotonic seconds.
    """

    def __init__(self, start: Callable[[], Backend], stop: Callable[[], None], audit: Record, clock: Clock) -> None:
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

    def ensure(self, spec: ModelSpec, config: RunConfig) -> tuple[LoadedModel, float]:
        """Return the loaded model and the seconds that loading took now (0 when it was warm).

        Raises:
            KnownError: ``E-MODEL-LOAD``, ``E-WORKER-DIED``.
        """
        with self._lock:
            if self._loaded is not None and self._config == config and self._sha256 == spec.sha256:
                return self._loaded, 0.0
            started = self._clock()
            worker = self._worker_or_start()
            self._loaded = None
            with self._dropped_when_dead():
                loaded = worker.load(spec.path, config)
            self._audit(
                "model.loaded",
                {
                    "model": spec.model_id,
                    "sha256": spec.sha256,
                    "context": loaded.context,
                    "sequences": loaded.sequences,
                    "anonymous_bytes": loaded.anonymous_bytes,
                    "file_bytes": loaded.file_bytes,
                    "load_ms": round(loaded.load_s * 1000),
                },
                {},
            )
            self._loaded, self._config, self._sha256 = loaded, config, spec.sha256
            return loaded, self._clock() - started

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

"""Asks the engine for the needs that a plan stands on, and remembers the answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from muniment_app.services.measurements import Measurements
from muniment_resources.errors import KnownError
from muniment_runtime.contracts import ModelSpec, Need, RunConfig
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.residual import spread_of

__all__ = ["DryRunner", "Trials"]

log = logging.getLogger(__name__)

UNLOADABLE = frozenset({"E-PROBE-CRASHED", "E-PROBE-MODEL"})
"""Verdicts on a file as a whole: the library died of it, or refused it."""


class DryRunner(Protocol):
    """Lets the library compute needs without allocating; see ``muniment_runtime.backends.prober``."""

    def needs(self, spec: ModelSpec, configs: Sequence[RunConfig]) -> list[Need | KnownError]:
        """Return a need, or why there is none, for each configuration.

        Raises:
            KnownError: No dry run is possible at all on this device, such as ``E-WORKER-START``.
        """
        ...

    def close(self) -> None:
        """End the worker, if one runs."""
        ...


class Trials:
    """Dry runs with a memory. One plan at a time.

    Args:
        measurements: Where answers are kept.
        runner: Runs them; ``None`` where the engine is not installed.
        threads: Threads that configurations use here.
    """

    def __init__(self, measurements: Measurements, runner: DryRunner | None, threads: int) -> None:
        self._measurements = measurements
        self._runner = runner
        self._threads = threads
        self._seen: dict[str, dict[RunConfig, Need | None]] = {}

    def known(self, specs: Sequence[ModelSpec], running: RunConfig | None) -> Knowledge:
        """Return what is known before anything is asked."""
        runs: dict[RunConfig, Need] = {}
        refused: set[RunConfig] = set()
        unloadable: dict[str, str] = {}
        for spec in specs:
            code = self._measurements.unloadable(spec)
            if code is not None:
                unloadable[spec.model_id] = code
            for config, need in self._of(spec).items():
                if need is None:
                    refused.add(config)
                else:
                    runs[config] = need
        residuals: dict[str, int] = {}
        for key, residual in self._measurements.residuals().items():
            residuals[key.architecture] = max(residuals.get(key.architecture, 0), residual.correction_bytes)
        return Knowledge(
            dry_runs=runs,
            unloadable=unloadable,
            unrunnable=frozenset(refused),
            residual_bytes=residuals,
            running=running,
            probing=self._runner is not None,
        )

    def spread_bytes(self) -> int:
        """Return how far loads scatter on this device: the reserve grows by it."""
        return spread_of(self._measurements.residuals())

    def ask(self, specs: Sequence[ModelSpec], configs: Sequence[RunConfig]) -> bool:
        """Run the configurations dry and keep the answers.

        Returns:
            ``False`` when no dry run is possible on this device; plans then stand on the closed form alone.
        """
        if self._runner is None:
            return False
        for spec in specs:
            wanted = [config for config in configs if config.model_id == spec.model_id]
            if wanted and not self._ask(self._runner, spec, wanted):
                self._runner.close()
                self._runner = None
                return False
        return True

    def close(self) -> None:
        """End the worker, if one runs."""
        if self._runner is not None:
            self._runner.close()

    def _ask(self, runner: DryRunner, spec: ModelSpec, configs: Sequence[RunConfig]) -> bool:
        try:
            answers = runner.needs(spec, configs)
        except KnownError as error:
            log.warning("trial.impossible code=%s", error.code)
            return False
        found: list[tuple[RunConfig, Need | None]] = []
        for config, answer in zip(configs, answers, strict=True):
            if isinstance(answer, Need):
                found.append((config, answer))
            elif answer.code in UNLOADABLE:
                log.warning("trial.unloadable code=%s", answer.code)
                self._measurements.learn_unloadable(spec, answer.code)
            else:
                found.append((config, None))
        self._of(spec).update(found)
        if found:
            self._measurements.learn_dry_runs(spec, found)
        return True

    def _of(self, spec: ModelSpec) -> dict[RunConfig, Need | None]:
        if spec.sha256 not in self._seen:
            self._seen[spec.sha256] = self._measurements.dry_runs(spec, self._threads)
        return self._seen[spec.sha256]

"""Asks the engine for the needs that a plan stands on, and remembers the answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from muniment_app.services.measurements import Measurements
from muniment_resources.errors import KnownError
from muniment_runtime.contracts import ModelSpec, Need, OracleSizes, RunConfig
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.oracle_need import oracle_need
from muniment_runtime.planner.residual import Residual, ResidualKey, spread_of

__all__ = ["DryRunner", "Trials"]

log = logging.getLogger(__name__)

_CRASHED = "E-PROBE-CRASHED"
_OF_FILE = frozenset({"E-PROBE-MODEL", "E-MODEL-FILE", "E-MODEL-MALFORMED"})
_OF_CONFIG = frozenset({"E-PROBE-CONFIG"})
_OF_MACHINE = frozenset({"out_of_memory", "stopped", "start"})
"""Causes of a crash that say nothing about the file."""


class DryRunner(Protocol):
    """Lets the library compute sizes without allocating; see ``muniment_runtime.backends.prober``."""

    def sizes(self, spec: ModelSpec, configs: Sequence[RunConfig]) -> list[OracleSizes | KnownError]:
        """Return sizes, or why there are none, for each configuration."""
        ...

    def close(self) -> None:
        """End the worker, if one runs; the next question starts it again."""
        ...


class Trials:
    """Dry runs with a memory. Thread-safe as far as the runner is.

    Args:
        measurements: Where answers are kept.
        runner: Runs them; ``None`` where the engine is not installed.
        threads: Threads that configurations use here.
        idle_s: After so long without a question the worker is ended: its memory is worth more.
    """

    def __init__(
        self, measurements: Measurements, runner: DryRunner | None, threads: int, idle_s: float = 30.0
    ) -> None:
        self._measurements = measurements
        self._runner = runner
        self._threads = threads
        self._idle_s = idle_s
        self._idle: threading.Timer | None = None
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

    def residuals(self) -> Mapping[ResidualKey, Residual]:
        """Return what loads have taught."""
        return self._measurements.residuals()

    def spread_bytes(self) -> int:
        """Return how far loads scatter on this device: the reserve grows by it."""
        return spread_of(self._measurements.residuals())

    def ask(self, specs: Sequence[ModelSpec], configs: Sequence[RunConfig]) -> bool:
        """Run the configurations dry and keep the answers.

        Returns:
            ``False`` when no dry run is possible now; the plan then stands on the closed form alone.
        """
        if self._runner is None:
            return False
        self._stop_timer()
        try:
            return all(
                self._ask(self._runner, spec, wanted)
                for spec in specs
                if (wanted := [config for config in configs if config.model_id == spec.model_id])
            )
        finally:
            self._idle = threading.Timer(self._idle_s, self._runner.close)
            self._idle.daemon = True
            self._idle.start()

    def close(self) -> None:
        """End the worker, if one runs."""
        self._stop_timer()
        if self._runner is not None:
            self._runner.close()

    def _ask(self, runner: DryRunner, spec: ModelSpec, configs: Sequence[RunConfig]) -> bool:
        found: list[tuple[RunConfig, Need | None]] = []
        possible = True
        for config, answer in zip(configs, runner.sizes(spec, configs), strict=True):
            if isinstance(answer, OracleSizes):
                found.append((config, oracle_need(spec, config, answer)))
            elif answer.code in _OF_FILE or (answer.code == _CRASHED and self._crashed_before(spec, found)):
                log.warning("trial.unloadable code=%s", answer.code)
                self._measurements.learn_unloadable(spec, answer.code)
                break
            elif answer.code in _OF_CONFIG or (
                answer.code == _CRASHED and answer.params.get("cause") not in _OF_MACHINE
            ):
                found.append((config, None))
            else:
                log.warning("trial.impossible code=%s", answer.code)
                possible = False
                break
        self._of(spec).update(found)
        if found:
            self._measurements.learn_dry_runs(spec, found)
        return possible

    def _crashed_before(self, spec: ModelSpec, found: Sequence[tuple[RunConfig, Need | None]]) -> bool:
        """Whether another configuration of the file already failed: one may be odd, two are the file's."""
        return any(need is None for need in [*self._of(spec).values(), *(need for _, need in found)])

    def _of(self, spec: ModelSpec) -> dict[RunConfig, Need | None]:
        if spec.sha256 not in self._seen:
            self._seen[spec.sha256] = self._measurements.dry_runs(spec, self._threads)
        return self._seen[spec.sha256]

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

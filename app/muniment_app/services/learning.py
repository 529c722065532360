"""Compares what a load really took with what the plan expected, and remembers the difference."""

from __future__ import annotations

import sys

from muniment_app.services.measurements import Measurements
from muniment_runtime.contracts import Candidate, LoadedModel, ModelSpec
from muniment_runtime.planner.resident import after_load
from muniment_runtime.planner.residual import ResidualKey

__all__ = ["LoadLearner"]


class LoadLearner:
    """Keeps residuals by architecture, backend and system.

    Args:
        measurements: Where they are kept.
        backend: Name of the backend that loads.
        system: Name of the operating system.
    """

    def __init__(self, measurements: Measurements, backend: str = "llama_cpp", system: str = sys.platform) -> None:
        self._measurements = measurements
        self._backend = backend
        self._system = system

    def __call__(self, spec: ModelSpec, choice: Candidate, loaded: LoadedModel) -> int:
        """Take notice of a load; return measured minus expected bytes, 0 where the system tells nothing."""
        measured = loaded.anonymous_bytes + loaded.file_bytes
        if not measured:
            return 0
        # Without the correction learned so far: a load teaches how far computing is off, not the last lesson.
        expected = after_load(spec, choice.config, choice.need)
        residual = measured - expected.anonymous_bytes - expected.file_bytes
        self._measurements.learn_residual(ResidualKey(spec.architecture, self._backend, self._system), residual)
        return residual

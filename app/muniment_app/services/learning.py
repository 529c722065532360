"""Compares what a load really took with what the plan expected, and remembers the difference."""

from __future__ import annotations

import sys

from muniment_app.services.measurements import Measurements
from muniment_runtime.contracts import Candidate, LoadedModel, ModelSpec
from muniment_runtime.planner.need import vocabulary_bytes
from muniment_runtime.planner.residual import ResidualKey

__all__ = ["LoadLearner", "expected_at_load"]


def expected_at_load(spec: ModelSpec, choice: Candidate) -> int:
    """Return the resident bytes by which a worker should grow in a load.

    The process itself was there before, and temporary tensors become resident with the first full prompt only. The
    learned correction is left out: a load teaches how far computing is off, not how far the last lesson was.
    """
    need = choice.need
    return need.weights_bytes + need.kv_bytes + need.recurrent_bytes + need.output_bytes + vocabulary_bytes(spec)


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
        residual = measured - expected_at_load(spec, choice)
        self._measurements.learn_residual(ResidualKey(spec.architecture, self._backend, self._system), residual)
        return residual

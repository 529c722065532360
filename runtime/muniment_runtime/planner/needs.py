"""Closed-form needs of many configurations of many models, each computed once."""

from __future__ import annotations

from muniment_runtime.contracts import ModelSpec, Need, RunConfig
from muniment_runtime.planner.need import NeedModel

__all__ = ["Needs"]

_MAX_MODELS = 256
_MAX_CONFIGS = 4096


class Needs:
    """Remembers what the closed form gave: a plan is made at every question, the models change once a month.

    Not thread-safe; the learned correction is not part of what is kept.
    """

    def __init__(self) -> None:
        self._models: dict[tuple[str, str, int], tuple[NeedModel, dict[RunConfig, Need]]] = {}

    def of(self, spec: ModelSpec, config: RunConfig) -> Need:
        """Return the need of a model that the closed form covers.

        Raises:
            KnownError: ``E-MODEL-UNSUPPORTED``.
            BugError: The configuration is impossible.
        """
        key = (spec.model_id, spec.sha256, spec.repack_bytes)
        entry = self._models.get(key)
        if entry is None or len(entry[1]) > _MAX_CONFIGS:
            if len(self._models) >= _MAX_MODELS:
                self._models.clear()
            entry = self._models[key] = (NeedModel(spec), {})
        model, known = entry
        need = known.get(config)
        if need is None:
            need = known[config] = model.need(config)
        return need

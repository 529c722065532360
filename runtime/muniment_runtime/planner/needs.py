"""Closed-form needs of many configurations of many models, each computed once."""

from __future__ import annotations

from muniment_runtime.contracts import ModelSpec, Need, RunConfig
from muniment_runtime.planner.need import NeedModel

__all__ = ["ModelNeeds", "Needs"]

_MAX_MODELS = 256
_MAX_CONFIGS = 4096


class ModelNeeds(dict[RunConfig, Need]):
    """Needs of one model by configuration; a missing one is computed and kept. Without the learned correction.

    Raises:
        KnownError: ``E-MODEL-UNSUPPORTED``.
        BugError: The configuration is impossible.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self._model = NeedModel(spec)

    def __missing__(self, config: RunConfig) -> Need:
        need = self[config] = self._model.need(config)
        return need


class Needs:
    """Remembers what the closed form gave: a plan is made at every question, the models change once a month.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._models: dict[tuple[str, str, int], ModelNeeds] = {}

    def of(self, spec: ModelSpec) -> ModelNeeds:
        """Return the needs of a model that the closed form covers.

        Raises:
            KnownError: ``E-MODEL-UNSUPPORTED``.
        """
        key = (spec.model_id, spec.sha256, spec.repack_bytes)
        known = self._models.get(key)
        if known is None or len(known) > _MAX_CONFIGS:
            if len(self._models) >= _MAX_MODELS:
                self._models.clear()
            known = self._models[key] = ModelNeeds(spec)
        return known

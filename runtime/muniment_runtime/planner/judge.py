"""The rules that look at one candidate alone. Pure; the first rule that fails is the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muniment_resources.units import format_bytes
from muniment_runtime.contracts import (
    Candidate,
    Headroom,
    KvType,
    ModelSpec,
    Need,
    Pins,
    Prediction,
    Profile,
    RunConfig,
)
from muniment_runtime.planner.candidates import configurations, smallest
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.need import kv_fits_type
from muniment_runtime.planner.needs import Needs
from muniment_runtime.planner.prior import SpeedModel, SpeedPrior, microseconds
from muniment_runtime.planner.rank import Entry

__all__ = ["RULES", "Judge", "Judged", "Params", "entry_of"]

Params = Mapping[str, str | int | float]

RULES = frozenset(
    {
        "pinned_out",
        "unloadable",
        "no_chat_template",
        "unsupported",
        "not_probed",
        "kv_type_unavailable",
        "one_sequence_only",
        "context_over_training",
        "refused_by_library",
        "not_calibrated",
    }
)
"""Reasons that exclude a candidate whatever memory there is."""

_NO_NEED = Need(0, 0, 0, 0, 0, 0, 0)
_NO_PREDICTION = Prediction(None, None, None, None)
_NOTHING: Params = {}


Judged = tuple[Candidate, Entry]
"""A configuration with everything but its place among the others, and what the order looks at.

The candidate's reason is empty when no rule failed.
"""


class Judge:
    """Judges the configurations of one model after the other under fixed circumstances."""

    def __init__(
        self,
        headroom: Headroom,
        profile: Profile,
        pins: Pins,
        needed_context: int,
        least_context: int,
        margin_bytes: int,
        prior: SpeedPrior,
        threads: int,
        knowledge: Knowledge,
        needs: Needs,
    ) -> None:
        self._needs = needs
        self._bound_bytes = headroom.available_bytes - margin_bytes
        self._profile = profile
        self._pins = pins
        self._needed = needed_context
        self._least = least_context
        self._prior = prior
        self._threads = threads
        self._knowledge = knowledge

    def model(self, spec: ModelSpec) -> list[Judged]:
        """Return the judged configurations of one model; a model excluded as a whole gives one."""
        reason, params = self._whole(spec)
        speed = SpeedModel(spec, self._prior, self._needed)
        if reason:
            return [self._excluded(spec, speed, reason, params)]
        configs = self._configurations(spec)
        if not spec.supported:
            configs = [config for config in configs if self._asked(config)]
            if not configs:
                return [self._excluded(spec, speed, "not_probed", {"model": spec.model_id})]
        return self._judged(spec, configs, speed)

    def questions(self, spec: ModelSpec) -> list[RunConfig]:
        """Return the configurations that need a dry run because nothing else tells their need."""
        if spec.supported or not self._knowledge.probing or self._whole(spec)[0]:
            return []
        return [config for config in self._configurations(spec) if not self._asked(config)]

    def _configurations(self, spec: ModelSpec) -> list[RunConfig]:
        found = configurations(
            spec,
            self._profile,
            self._pins,
            self._needed,
            self._least,
            self._threads,
            self._knowledge.measured_kv,
        )
        running = self._knowledge.running
        if running is not None and running.model_id == spec.model_id and running not in found and self._may_stay():
            found.append(running)
        if spec.supported:
            return found
        # Each costs a dry run, so only the ends of the scale are asked about.
        ends = {found[0].ubatch, min(config.ubatch for config in found)}
        return [config for config in found if config.ubatch in ends and config.context == found[0].context]

    def _may_stay(self) -> bool:
        """Whether what runs meets pins and the least context, so that it may be a candidate beside the fresh ones."""
        running, pins = self._knowledge.running, self._pins
        return (
            running is not None
            and running.context >= self._least
            and running.threads == self._threads
            and pins.context in (None, running.context)
            and pins.sequences in (None, running.sequences)
            and pins.kv_type in (None, running.kv_type)
        )

    def _asked(self, config: RunConfig) -> bool:
        return config in self._knowledge.dry_runs or config in self._knowledge.unrunnable

    def _whole(self, spec: ModelSpec) -> tuple[str, Params]:
        """Return the rule that excludes a model whatever its configuration."""
        if self._pins.model_id is not None and self._pins.model_id != spec.model_id:
            return "pinned_out", {
                "model": spec.model_id,
                "context": self._pins.context or self._needed,
                "would_fit": 0,
            }
        if spec.model_id in self._knowledge.unloadable:
            return "unloadable", {"model": spec.model_id, "cause": self._knowledge.unloadable[spec.model_id]}
        if spec.template is None:
            return "no_chat_template", {"model": spec.model_id}
        if not spec.supported and not self._knowledge.probing:
            return "unsupported", {"model": spec.model_id, "architecture": spec.architecture}
        if self._pins.kv_type is not None and not kv_fits_type(spec, self._pins.kv_type):
            return "kv_type_unavailable", {"model": spec.model_id, "kv_type": str(self._pins.kv_type)}
        if spec.single_sequence and (self._pins.sequences or 1) > 1:
            return "one_sequence_only", {"model": spec.model_id}
        return "", _NOTHING

    def _excluded(self, spec: ModelSpec, speed: SpeedModel, reason: str, params: Params) -> Judged:
        config = smallest(spec, self._pins, self._least, self._threads)
        need, formula, prediction = _NO_NEED, None, _NO_PREDICTION
        if spec.supported and kv_fits_type(spec, config.kv_type):
            need = formula = self._needs.of(spec)[config]._replace(residual_bytes=self._residual(spec))
            prediction = speed.predict(config)
        candidate = Candidate(config, spec.quantization, need, prediction, False, reason, params, formula)
        return candidate, entry_of(candidate, spec, self._needed, self._knowledge.running)

    def _residual(self, spec: ModelSpec) -> int:
        return self._knowledge.residual_bytes.get(spec.architecture, 0)

    def _judged(self, spec: ModelSpec, configs: Sequence[RunConfig], speed: SpeedModel) -> list[Judged]:
        """Judge many configurations of one model; a loop rather than calls, because there are hundreds of them."""
        residual, runs, running = self._residual(spec), self._knowledge.dry_runs, self._knowledge.running
        formulas = self._needs.of(spec) if spec.supported else None
        quantization, parameters, weights_bytes = spec.quantization, spec.parameters, spec.weights_bytes
        needed, bound_bytes = self._needed, self._bound_bytes
        kinds = {kv_type: self._kind(spec, kv_type) for kv_type in {config.kv_type for config in configs}}
        found: list[Judged] = []
        for config in configs:
            model_id, context, kv_type, sequences, _, ubatch, _, mmap, _, _, _, _ = config
            formula = need = None
            prediction, ttft_us = _NO_PREDICTION, None
            fits_type, measured = kinds[kv_type]
            if fits_type:
                prediction, ttft_us = speed.timed(config)
                if formulas is not None:
                    formula = need = formulas[config]
                    if residual:
                        formula = need = formula._replace(residual_bytes=residual)
                if runs and config in runs:
                    need = runs[config]._replace(residual_bytes=residual)
            total_bytes = 0 if need is None else need.total_bytes
            reason, params = self._rule(spec, config, need, fits_type, measured)
            allowed = not reason
            if allowed and total_bytes > bound_bytes:
                missing = total_bytes - bound_bytes
                reason = "needs_more_memory"
                params = {"missing_bytes": missing, "missing": format_bytes(missing)}
            private_bytes = total_bytes - weights_bytes if mmap else total_bytes
            shortfall = needed - context if context < needed else 0
            found.append(
                (
                    Candidate(config, quantization, need or _NO_NEED, prediction, not reason, reason, params, formula),
                    Entry(
                        allowed,
                        total_bytes,
                        private_bytes,
                        parameters,
                        weights_bytes,
                        ttft_us,
                        model_id,
                        context,
                        kv_type,
                        sequences,
                        ubatch,
                        shortfall,
                        config == running,
                    ),
                )
            )
        return found

    def _kind(self, spec: ModelSpec, kv_type: KvType) -> tuple[bool, bool]:
        """Return whether the model can hold its cache in this type, and whether the type may be used."""
        free = kv_type is KvType.F16 or self._pins.kv_type is not None or kv_type in self._knowledge.measured_kv
        return not spec.supported or kv_fits_type(spec, kv_type), free

    def _rule(
        self, spec: ModelSpec, config: RunConfig, need: Need | None, fits_type: bool, measured: bool
    ) -> tuple[str, Params]:
        """Return the first rule other than memory that rejects a configuration."""
        if not fits_type:
            return "kv_type_unavailable", {"model": spec.model_id, "kv_type": str(config.kv_type)}
        if config.context > spec.context_train:
            return "context_over_training", {"context": config.context, "context_train": spec.context_train}
        unrunnable = self._knowledge.unrunnable
        if need is None or (unrunnable and config in unrunnable):
            return "refused_by_library", {"model": spec.model_id}
        if not measured:
            return "not_calibrated", {"kv_type": str(config.kv_type)}
        return "", _NOTHING


def entry_of(candidate: Candidate, spec: ModelSpec, needed_context: int, running: RunConfig | None) -> Entry:
    """Return what the order looks at."""
    config, total_bytes = candidate.config, candidate.need.total_bytes
    return Entry(
        allowed=candidate.reason not in RULES,
        need_bytes=total_bytes,
        private_bytes=total_bytes - spec.weights_bytes if config.mmap else total_bytes,
        parameters=spec.parameters,
        weights_bytes=spec.weights_bytes,
        ttft_us=microseconds(candidate.prediction.ttft_s),
        model_id=config.model_id,
        context=config.context,
        kv_type=config.kv_type,
        sequences=config.sequences,
        ubatch=config.ubatch,
        shortfall=max(0, needed_context - config.context),
        stays=config == running,
    )

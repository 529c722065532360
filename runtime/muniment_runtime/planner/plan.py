"""The planner: models, headroom, profile and pins in, every candidate with its verdict and the choice out. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_resources.errors import BugError
from muniment_resources.units import MIB, format_bytes
from muniment_runtime.contracts import (
    Candidate,
    Headroom,
    KvType,
    ModelSpec,
    Need,
    Pins,
    Plan,
    Prediction,
    Profile,
    RunConfig,
)
from muniment_runtime.planner.candidates import configurations, smallest
from muniment_runtime.planner.need import estimate, kv_fits_type
from muniment_runtime.planner.prior import SpeedPrior, predict
from muniment_runtime.planner.rank import TTFT_BUDGET_US, Entry, choose, over_time_budget, ranking

__all__ = ["RULES", "default_margin", "entries_of", "make_plan", "microseconds"]

RULES = frozenset({"pinned_out", "unsupported", "no_chat_template", "context_over_training", "not_calibrated"})
"""Reasons that exclude a candidate whatever memory there is."""

_NO_NEED = Need(0, 0, 0, 0, 0, 0, 0)
_NO_PREDICTION = Prediction(None, None, None, None)


def default_margin(headroom: Headroom) -> int:
    """Return the bytes that always stay free: 512 MiB, or 8 % of the memory limit where that is more."""
    return max(512 * MIB, headroom.total_bytes * 8 // 100)


def microseconds(seconds: float | None) -> int | None:
    """Return a time in whole microseconds: the form in which times are compared and recorded."""
    return None if seconds is None else round(seconds * 1_000_000)


def make_plan(
    specs: Sequence[ModelSpec],
    headroom: Headroom,
    profile: Profile,
    pins: Pins,
    needed_context: int,
    margin: int,
    priors: SpeedPrior | None = None,
    threads: int = 2,
) -> Plan:
    """Choose a configuration.

    Every candidate carries the first rule that rejects it; among those that fit, ``rank.order_key`` decides. A pin is
    never overridden: when the pinned choice does not fit, nothing is chosen and the best that would fit without the
    pins is listed as ``pinned_out`` with ``would_fit`` 1.

    Args:
        specs: The installed models.
        headroom: What is free.
        profile: What the task protects.
        pins: What the user fixed.
        needed_context: Tokens that the task needs at least, prompt and answer together.
        margin: Bytes that must stay free.
        priors: Believed speed of the device.
        threads: Threads for the configurations.
    """
    prior = priors or SpeedPrior()
    by_id = {spec.model_id: spec for spec in specs}
    if len(by_id) != len(specs):
        raise BugError("two models share an id")
    judged = _Judge(headroom, profile, pins, needed_context, margin, prior, threads)
    ordered = [by_id[model_id] for model_id in sorted(by_id)]
    candidates = [candidate for spec in ordered for candidate in judged.model(spec)]
    chosen = choose(profile, entries_of(candidates, by_id), headroom.available_bytes, margin)
    missing = [
        int(candidate.reason_params["missing_bytes"])
        for candidate in candidates
        if candidate.reason == "needs_more_memory"
    ]
    if chosen is None:
        if pins != Pins():
            free = make_plan(specs, headroom, profile, Pins(), needed_context, margin, prior, threads).choice
            if free is not None:
                candidates.append(_pinned_out(free, would_fit=True))
        return Plan(profile, headroom, margin, pins, tuple(candidates), None, min(missing, default=0))
    entries = entries_of(candidates, by_id)
    final = [
        _told(candidate, index, chosen, entries, profile, headroom, margin)
        for index, candidate in enumerate(candidates)
    ]
    order = ranking(profile, entries, headroom.available_bytes, margin)
    return Plan(profile, headroom, margin, pins, tuple(final), chosen, 0, _ladder(final, order, chosen))


class _Judge:
    """Applies the rules that look at one candidate alone."""

    def __init__(
        self,
        headroom: Headroom,
        profile: Profile,
        pins: Pins,
        needed_context: int,
        margin: int,
        prior: SpeedPrior,
        threads: int,
    ) -> None:
        self._headroom = headroom
        self._profile = profile
        self._pins = pins
        self._needed = needed_context
        self._margin = margin
        self._prior = prior
        self._threads = threads

    def model(self, spec: ModelSpec) -> list[Candidate]:
        """Return the candidates of one model; a model excluded as a whole gives one."""
        single = smallest(spec, self._pins, self._needed, self._threads)
        if not spec.supported:
            params = {"model": spec.model_id, "architecture": spec.architecture}
            return [Candidate(single, spec.quantization, _NO_NEED, _NO_PREDICTION, False, "unsupported", params)]
        if not kv_fits_type(spec, single.kv_type):
            params = {"model": spec.model_id, "architecture": f"{spec.architecture}, {single.kv_type}"}
            return [Candidate(single, spec.quantization, _NO_NEED, _NO_PREDICTION, False, "unsupported", params)]
        if self._pins.model_id is not None and self._pins.model_id != spec.model_id:
            return [_pinned_out(self._candidate(spec, single), would_fit=False)]
        if spec.template is None:
            bare = self._candidate(spec, single)
            return [bare._replace(fits=False, reason="no_chat_template", reason_params={"model": spec.model_id})]
        return [
            self._candidate(spec, config)
            for config in configurations(spec, self._profile, self._pins, self._needed, self._threads)
            if kv_fits_type(spec, config.kv_type)
        ]

    def _candidate(self, spec: ModelSpec, config: RunConfig) -> Candidate:
        need = estimate(spec, config)
        prediction = predict(spec, config, self._needed, self._prior)
        reason, params = self._verdict(spec, config, need)
        return Candidate(config, spec.quantization, need, prediction, not reason, reason, params)

    def _verdict(self, spec: ModelSpec, config: RunConfig, need: Need) -> tuple[str, dict[str, str | int | float]]:
        if config.context > spec.context_train:
            return "context_over_training", {"context": config.context, "context_train": spec.context_train}
        if config.kv_type is not KvType.F16 and self._pins.kv_type is None:
            return "not_calibrated", {"kv_type": str(config.kv_type)}
        missing = need.total_bytes + self._margin - self._headroom.available_bytes
        if missing > 0:
            return "needs_more_memory", {"missing_bytes": missing, "missing": format_bytes(missing)}
        return "", {}


def _pinned_out(candidate: Candidate, *, would_fit: bool) -> Candidate:
    return candidate._replace(
        fits=False,
        reason="pinned_out",
        reason_params={
            "model": candidate.config.model_id,
            "context": candidate.config.context,
            "would_fit": int(would_fit),
        },
    )


def entries_of(candidates: Sequence[Candidate], specs: dict[str, ModelSpec]) -> list[Entry]:
    """Return what the order looks at, one entry a candidate."""
    return [
        Entry(
            allowed=candidate.reason not in RULES,
            need_bytes=candidate.need.total_bytes,
            parameters=specs[candidate.config.model_id].parameters,
            weights_bytes=specs[candidate.config.model_id].weights_bytes,
            ttft_us=microseconds(candidate.prediction.ttft_s),
            model_id=candidate.config.model_id,
            context=candidate.config.context,
            kv_type=str(candidate.config.kv_type),
            sequences=candidate.config.sequences,
            ubatch=candidate.config.ubatch,
        )
        for candidate in candidates
    ]


def _told(
    candidate: Candidate,
    index: int,
    chosen: int,
    entries: Sequence[Entry],
    profile: Profile,
    headroom: Headroom,
    margin: int,
) -> Candidate:
    """Return the candidate with the reason why it was, or was not, chosen among those that fit."""
    if not candidate.fits:
        return candidate
    entry, best = entries[index], entries[chosen]
    reason = "not_best"
    params: dict[str, str | int | float] = {"model": entry.model_id, "context": entry.context}
    if index == chosen:
        reason = "chosen"
        params |= {
            "quantization": candidate.quantization,
            "need": format_bytes(candidate.need.total_bytes),
            "headroom": format_bytes(headroom.available_bytes),
            "margin": format_bytes(margin),
        }
    elif over_time_budget(profile, entry):
        reason = "over_time_budget"
        params |= {"seconds": (entry.ttft_us or 0) // 1_000_000, "budget": (TTFT_BUDGET_US[profile] or 0) // 1_000_000}
    elif entry.parameters < best.parameters:
        reason = "smaller_than_chosen"
        params |= {"chosen": best.model_id}
    return candidate._replace(reason=reason, reason_params=params)


def _ladder(candidates: Sequence[Candidate], order: Sequence[int], start: int) -> tuple[int, ...]:
    """Return the rungs below the choice, next first: each the best candidate that frees memory over the one before."""
    rungs: list[int] = []
    lowest = candidates[start].need.total_bytes
    for index in order[order.index(start) + 1 :]:
        if candidates[index].need.total_bytes < lowest:
            rungs.append(index)
            lowest = candidates[index].need.total_bytes
    return tuple(rungs)

"""The planner: models, headroom, profile and pins in, every candidate with its verdict and the choice out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from muniment_resources.errors import BugError
from muniment_resources.units import MIB, format_bytes
from muniment_runtime.contracts import Candidate, Headroom, ModelSpec, NeedBasis, Pins, Plan, Profile, RunConfig
from muniment_runtime.planner.judge import RULES, Judge, Params, entry_of
from muniment_runtime.planner.knowledge import NOTHING_KNOWN, Knowledge
from muniment_runtime.planner.needs import Needs
from muniment_runtime.planner.prior import SpeedPrior, microseconds
from muniment_runtime.planner.rank import TTFT_BUDGET_US, Choice, Entry, choose, over_time_budget, rungs

__all__ = ["RULES", "default_margin", "entries_of", "make_plan", "microseconds", "open_questions"]


def default_margin(headroom: Headroom, spread_bytes: int = 0) -> int:
    """Return the bytes that always stay free: 512 MiB, or 8 % of the memory limit where that is more.

    Args:
        headroom: Whose ``total_bytes`` is the limit.
        spread_bytes: How far measured needs scatter on this device: the reserve grows by it.
    """
    return max(512 * MIB, headroom.total_bytes * 8 // 100) + spread_bytes


def make_plan(
    specs: Sequence[ModelSpec],
    headroom: Headroom,
    profile: Profile,
    pins: Pins,
    needed_context: int,
    margin: int,
    priors: SpeedPrior | None = None,
    threads: int = 2,
    least_context: int | None = None,
    knowledge: Knowledge = NOTHING_KNOWN,
    needs: Needs | None = None,
) -> Plan:
    """Choose a configuration.

    Every candidate carries the first rule that rejects it; among those that fit, ``rank.order_key`` decides. A pin is
    never overridden by the planner: when the pinned choice does not fit, nothing is chosen and the best that would fit
    without the pins is listed as ``pinned_out`` with ``would_fit`` 1. Only the user can insist (``Pins.override``).

    Args:
        specs: The installed models.
        headroom: What is free.
        profile: What the task protects.
        pins: What the user fixed.
        needed_context: Tokens that the task needs, prompt and answer together.
        margin: Bytes that must stay free.
        priors: Believed speed of the device.
        threads: Threads for the configurations.
        least_context: Tokens below which the task cannot be done at all; between this and ``needed_context`` passages
            are left out. By default nothing may be left out.
        knowledge: Dry runs, corrections and what runs now.
        needs: Closed-form needs that were computed before; they change nothing but the time.
    """
    needs = needs or Needs()
    by_id = {spec.model_id: spec for spec in specs}
    if len(by_id) != len(specs):
        raise BugError("two models share an id")
    least = needed_context if least_context is None else min(least_context, needed_context)
    judge = Judge(
        headroom, profile, pins, needed_context, least, margin, priors or SpeedPrior(), threads, knowledge, needs
    )
    judged = [item for model_id in sorted(by_id) for item in judge.model(by_id[model_id])]
    entries = [entry for _, entry in judged]
    choice = choose(profile, entries, headroom.available_bytes, margin, pins.override and _pinned(pins))
    told = _Told(profile, headroom, margin, entries, choice)
    candidates = [told.candidate(index, item) for index, (item, _) in enumerate(judged)]
    missing = [int(item.reason_params["missing_bytes"]) for item in candidates if item.reason == "needs_more_memory"]
    if choice.chosen is None and _pinned(pins):
        free = make_plan(
            specs, headroom, profile, Pins(), needed_context, margin, priors, threads, least_context, knowledge, needs
        ).choice
        if free is not None:
            candidates.append(_would_fit(free))
    return Plan(
        profile=profile,
        headroom=headroom,
        margin_bytes=margin,
        pins=pins,
        candidates=tuple(candidates),
        chosen=choice.chosen,
        unblock_bytes=min(missing, default=0) if choice.chosen is None else 0,
        ladder=rungs([entry.need_bytes for entry in entries], choice.order),
        needed_context=needed_context,
    )


def open_questions(
    plan: Plan,
    specs: Sequence[ModelSpec],
    threads: int,
    least_context: int,
    knowledge: Knowledge,
) -> list[RunConfig]:
    """Return what a dry run should answer before this plan is acted on, nothing when the plan stands.

    First the models whose need nobody but the library knows; then the choice, if its need is still the closed form's.
    """
    judge = Judge(
        plan.headroom,
        plan.profile,
        plan.pins,
        plan.needed_context,
        least_context,
        plan.margin_bytes,
        SpeedPrior(),
        threads,
        knowledge,
        Needs(),
    )
    asked = [config for spec in specs for config in judge.questions(spec)]
    if asked or not knowledge.probing:
        return asked
    choice = plan.choice
    if choice is not None and choice.need.basis is NeedBasis.FORMULA:
        return [choice.config]
    return []


def _pinned(pins: Pins) -> bool:
    return replace(pins, override=False) != Pins()


def _would_fit(candidate: Candidate) -> Candidate:
    config = candidate.config
    params: Params = {"model": config.model_id, "context": config.context, "would_fit": 1}
    return candidate._replace(fits=False, reason="pinned_out", reason_params=params)


def entries_of(
    candidates: Sequence[Candidate],
    specs: Mapping[str, ModelSpec],
    needed_context: int = 0,
    running: RunConfig | None = None,
) -> list[Entry]:
    """Return what the order looks at, one entry a candidate."""
    return [entry_of(item, specs[item.config.model_id], needed_context, running) for item in candidates]


class _Told:
    """Says of each candidate why it was, or was not, chosen among those that fit."""

    def __init__(
        self, profile: Profile, headroom: Headroom, margin: int, entries: Sequence[Entry], choice: Choice
    ) -> None:
        self._profile = profile
        self._entries = entries
        self._choice = choice
        self._free = {"headroom": format_bytes(headroom.available_bytes), "margin": format_bytes(margin)}

    def candidate(self, index: int, item: Candidate) -> Candidate:
        """Return the candidate with its verdict among the others."""
        chosen = self._choice.chosen
        if index == chosen:
            reason = "overridden" if self._choice.overridden else "chosen"
            params: Params = {
                "model": item.config.model_id,
                "context": item.config.context,
                "quantization": item.quantization,
                "need": format_bytes(item.need.total_bytes),
                **self._free,
            }
        elif item.fits and chosen is not None:
            reason, params = self._beaten(self._entries[index], self._entries[chosen])
        else:
            return item
        return Candidate(
            item.config, item.quantization, item.need, item.prediction, item.fits, reason, params, item.formula
        )

    def _beaten(self, entry: Entry, best: Entry) -> tuple[str, Params]:
        params: dict[str, str | int | float] = {"model": entry.model_id, "context": entry.context}
        if over_time_budget(self._profile, entry):
            seconds = ((entry.ttft_us or 0) + 500_000) // 1_000_000
            budget = (TTFT_BUDGET_US[self._profile] or 0) // 1_000_000
            return "over_time_budget", {**params, "seconds": seconds, "budget": budget}
        if entry.parameters < best.parameters:
            return "smaller_than_chosen", {**params, "chosen": best.model_id}
        if entry.parameters == best.parameters and entry.weights_bytes < best.weights_bytes:
            return "fewer_bits_than_chosen", {**params, "chosen": best.model_id}
        if entry.shortfall > best.shortfall:
            return "fewer_passages", {**params, "shortfall": entry.shortfall}
        return "not_best", params

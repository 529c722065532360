"""From a demand to a loaded model: plan, record the decision, reserve, load; or the reason why nothing can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muniment_app.services.api import PlanService, PlanSummary, Receipt, Record
from muniment_app.services.model_host import ModelHost
from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Candidate, LoadedModel, ModelSpec, Pins, Plan, Profile
from muniment_runtime.planner.demand import Demand
from muniment_runtime.planner.serialize import decision_record

__all__ = ["Loader", "Ready", "Refusal", "rungs_below_full"]

_PLANS = 3
"""The headroom may be gone between plan and reservation; each new plan sees what took it."""
_TRY_AGAIN = frozenset({"E-PLAN-RESERVED", "E-PLAN-SHRUNK"})


@dataclass(frozen=True)
class Ready:
    """A model is loaded."""

    spec: ModelSpec
    loaded: LoadedModel
    load_s: float
    plan: PlanSummary


@dataclass(frozen=True)
class Refusal:
    """Nothing can run.

    Attributes:
        decision: The recorded decision.
        code: Code of the sentence.
        params: Its values.
    """

    decision: Receipt
    code: str
    params: Mapping[str, str | int | float] = field(default_factory=dict)


class Loader:
    """Plans and loads.

    Args:
        planner: Chooses what runs.
        specs: The installed models.
        host: Runs it.
        audit: Records every decision before it takes effect.
    """

    def __init__(
        self, planner: PlanService, specs: Callable[[], Sequence[ModelSpec]], host: ModelHost, audit: Record
    ) -> None:
        self._planner = planner
        self._specs = specs
        self._host = host
        self._audit = audit

    def load(self, profile: Profile, pins: Pins, demand: Demand, on_loading: Callable[[], None]) -> Ready | Refusal:
        """Make the best plan run.

        Args:
            profile: What the task protects.
            pins: What the user fixed.
            demand: Tokens that the task needs.
            on_loading: Called once a choice is recorded, before it is loaded.

        Raises:
            KnownError: ``E-AUDIT-WRITE``, ``E-MODEL-NONE``, ``E-MODEL-LOAD``, ``E-MODEL-MEMORY``, ``E-WORKER-DIED``.
        """
        attempt = 1
        while True:
            plan = self._planner.plan(profile, pins, demand=demand)
            specs = {spec.model_id: spec for spec in self._specs()}
            record = decision_record(plan, tuple(specs.values()), self._host.config())
            decision = self._audit("runtime.decision", record, {})
            if plan.choice is None:
                return _refusal(plan, decision)
            on_loading()
            spec = specs[plan.choice.config.model_id]
            try:
                loaded, load_s = self._host.ensure(spec, plan)
            except KnownError as error:
                if error.code not in _TRY_AGAIN:
                    raise
                if attempt == _PLANS:
                    return Refusal(decision, error.code, error.params)
                attempt += 1
                continue
            return Ready(spec, loaded, load_s, _summary(plan, specs))


def _refusal(plan: Plan, decision: Receipt) -> Refusal:
    if not any(candidate.reason == "needs_more_memory" for candidate in plan.candidates):
        # No memory would help: base models, unknown architectures, or pins that exclude each other.
        return Refusal(decision, "E-PLAN-UNUSABLE")
    return Refusal(decision, "E-PLAN-NOTHING-FITS", {"missing_mib": -(-plan.unblock_bytes // 2**20)})


def _summary(plan: Plan, specs: Mapping[str, ModelSpec]) -> PlanSummary:
    choice = plan.choice
    assert choice is not None
    return PlanSummary(
        model=choice.config.model_id,
        quantization=choice.quantization,
        context=choice.config.context,
        kv_type=choice.config.kv_type.value,
        sequences=choice.config.sequences,
        rung=rungs_below_full(plan, specs),
        reason=choice.reason,
        need_bytes=choice.need.total_bytes,
        headroom_bytes=plan.headroom.available_bytes,
    )


def rungs_below_full(plan: Plan, specs: Mapping[str, ModelSpec]) -> int:
    """Return how far memory alone kept the choice below the full level.

    Counted are the installed models of more parameters, or of the same with finer weights, that did not fit, and one
    more when a context that holds more of the evidence did not fit. Prefill chunks do not change an answer.
    """
    choice = plan.choice
    assert choice is not None

    def level(candidate: Candidate) -> tuple[int, int]:
        spec = specs[candidate.config.model_id]
        return spec.parameters, spec.weights_bytes

    short = [candidate for candidate in plan.candidates if candidate.reason == "needs_more_memory"]
    better = {candidate.config.model_id for candidate in short if level(candidate) > level(choice)}
    longer = any(
        candidate.config.model_id == choice.config.model_id
        and candidate.config.sequences == choice.config.sequences
        and choice.config.context < min(candidate.config.context, plan.needed_context)
        for candidate in short
    )
    return len(better) + int(longer)

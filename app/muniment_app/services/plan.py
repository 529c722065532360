"""Plans for the installed models against live or assumed headroom. Loads nothing and starts no process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from muniment_app.services.trials import Trials
from muniment_resources.errors import KnownError
from muniment_runtime.contracts import (
    Headroom,
    HeadroomProbe,
    LoadedModel,
    ModelSpec,
    Pins,
    Plan,
    Profile,
    RunConfig,
)
from muniment_runtime.headroom.chain import released, what_if
from muniment_runtime.planner.demand import Demand
from muniment_runtime.planner.knowledge import NOTHING_KNOWN, Knowledge
from muniment_runtime.planner.needs import Needs
from muniment_runtime.planner.plan import default_margin, make_plan, open_questions
from muniment_runtime.planner.prior import SpeedPrior
from muniment_runtime.planner.residual import Residual, ResidualKey

__all__ = ["NEEDED_CONTEXT", "LocalPlanService"]

NEEDED_CONTEXT: Mapping[Profile, int] = MappingProxyType(
    {Profile.REALTIME: 2048, Profile.BATCH: 4096, Profile.EXTRACTION: 4096}
)
"""Tokens that a task takes at most: instructions, evidence, question and answer; also what is planned for without one.

About five passages fit into 2,048 tokens, which a small model on two cores reads within half a minute; tasks without a
person waiting take twice the evidence.
"""
LEAST_CONTEXT = 1536
"""Tokens for instructions, three passages, question and answer, when no question is known."""

_MAX_TRIALS = 8
"""Dry runs of one plan; what is then still open stands on the closed form and says so."""

# llama.cpp allows 256 sequences; no catalogue model was trained for a context above this.
_MAX_SEQUENCES = 256
_MAX_CONTEXT = 1 << 20
_MAX_BYTES = 1 << 50


class LocalPlanService:
    """Implements ``PlanService``.

    Args:
        specs: Returns the installed models.
        probe: Measures headroom.
        running: Returns what is loaded now, if anything.
        running_config: Returns the configuration it was loaded with.
        trials: Dry runs and corrections; without them plans stand on the closed form.
        threads: Threads that the model may use.
        prior: Believed speed of this device, used for predictions until measured.
        needed_context: Tokens each profile's task needs at least.
    """

    def __init__(
        self,
        specs: Callable[[], Sequence[ModelSpec]],
        probe: HeadroomProbe,
        running: Callable[[], LoadedModel | None],
        running_config: Callable[[], RunConfig | None] = lambda: None,
        trials: Trials | None = None,
        threads: int = 2,
        prior: SpeedPrior | None = None,
        needed_context: Mapping[Profile, int] = NEEDED_CONTEXT,
    ) -> None:
        self._specs = specs
        self._probe = probe
        self._running = running
        self._running_config = running_config
        self._trials = trials
        self._needs = Needs()
        self._lock = threading.Lock()
        self._threads = threads
        self._prior = prior or SpeedPrior()
        self._needed_context = needed_context

    def headroom(self) -> Headroom:
        """Measure headroom now."""
        return self._probe.measure()

    def plan(
        self,
        profile: Profile = Profile.REALTIME,
        pins: Pins | None = None,
        headroom_bytes: int | None = None,
        demand: Demand | None = None,
    ) -> Plan:
        """Plan for the installed models.

        A plan replaces what runs, so the private memory of the running model counts as free. ``headroom_bytes`` asks
        about a device that has exactly these bytes free and no more; the reserve is computed from the same figure.

        Raises:
            KnownError: ``E-MODEL-NONE``, ``E-PLAN-MODEL`` when the pinned model is not installed, ``E-PLAN-PIN`` when
                a pinned number is out of range.
        """
        wanted = pins or Pins()
        _check("context", wanted.context, 1, _MAX_CONTEXT)
        _check("sequences", wanted.sequences, 1, _MAX_SEQUENCES)
        _check("headroom", headroom_bytes, 0, _MAX_BYTES)
        specs = self._specs()
        if not specs:
            raise KnownError("E-MODEL-NONE")
        if wanted.model_id is not None and all(spec.model_id != wanted.model_id for spec in specs):
            raise KnownError("E-PLAN-MODEL", model=wanted.model_id)
        asked = demand or Demand(self._needed_context[profile], LEAST_CONTEXT)
        with self._lock:
            return self._plan(specs, profile, wanted, headroom_bytes, asked)

    def _plan(
        self,
        specs: Sequence[ModelSpec],
        profile: Profile,
        pins: Pins,
        headroom_bytes: int | None,
        demand: Demand,
    ) -> Plan:
        headroom = self._live() if headroom_bytes is None else what_if(headroom_bytes)
        margin = default_margin(headroom, self._trials.spread_bytes() if self._trials else 0)
        running = self._running_config()

        def make(knowledge: Knowledge) -> Plan:
            return make_plan(
                specs,
                headroom,
                profile,
                pins,
                demand.needed,
                margin,
                self._prior,
                self._threads,
                demand.least,
                knowledge,
                self._needs,
            )

        if self._trials is None:
            return make(replace(NOTHING_KNOWN, running=running))
        for _ in range(_MAX_TRIALS):
            knowledge = self._trials.known(specs, running)
            plan = make(knowledge)
            asked = open_questions(plan, specs, self._threads, demand.least, knowledge)
            if not asked:
                return plan
            if not self._trials.ask(specs, asked):
                break
        return make(replace(self._trials.known(specs, running), probing=False))

    def running(self) -> LoadedModel | None:
        """Return what is loaded now, read back from the worker."""
        return self._running()

    def learned(self) -> Mapping[ResidualKey, Residual]:
        """Return how far loads on this device were off; see ``PlanService``."""
        return {} if self._trials is None else self._trials.residuals()

    def _live(self) -> Headroom:
        loaded = self._running()
        measured = self._probe.measure()
        return measured if loaded is None else released(measured, loaded.anonymous_bytes)


def _check(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise KnownError("E-PLAN-PIN", name=name, value=value, low=low, high=high)

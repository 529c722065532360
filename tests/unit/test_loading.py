"""From a demand to a loaded model: replanning when the headroom is gone, refusals, and the rung that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from muniment_app.services.api import Receipt
from muniment_app.services.loading import Loader, Ready, Refusal, rungs_below_full
from muniment_app.services.model_host import Held, ModelHost
from muniment_app.services.plan import LocalPlanService
from muniment_resources.errors import KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.fake import FakeBackend, FakeScript
from muniment_runtime.contracts import Candidate, LoadedModel, ModelSpec, Pins, Profile, RunConfig
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.planner.demand import Demand
from muniment_runtime.planner.need import estimate
from muniment_runtime.planner.plan import make_plan
from muniment_runtime.planner.serialize import replay
from tests.unit.planner_specs import spec_of

MIB = 1 << 20
DEMAND = Demand(2048, 1536)


@dataclass
class Ledger:
    """Grants, or refuses with the codes given, in order; remembers what was asked and held."""

    refusals: list[str] = field(default_factory=list)
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    def reserve(self, need_bytes: int, margin_bytes: int, freed_bytes: int, replaces: Held | None) -> Held:
        self.asked.append((need_bytes, margin_bytes, freed_bytes))
        if self.refusals:
            raise KnownError(self.refusals.pop(0), missing="1 MiB", reserved="2 MiB", n=1)
        granted = Granted(self)
        self.held.append(granted)
        if replaces is not None:
            replaces.release()
        return granted


class Granted:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.shared = True
        self.settled = -1

    def settle(self, resident_bytes: int) -> None:
        self.settled = resident_bytes

    def release(self) -> None:
        if self in self._ledger.held:
            self._ledger.held.remove(self)


class Rig:
    """A loader over a scripted backend."""

    def __init__(self, specs: Sequence[ModelSpec], free: int, *refusals: str) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self.ledger = Ledger(list(refusals))
        self.learned: list[LoadedModel] = []
        self.host = ModelHost(self._start, lambda: None, self._record, lambda: 0.0, self.ledger, self._learn)
        planner = LocalPlanService(
            lambda: specs, FixedProbe(what_if(free)), self.host.running, running_config=self.host.config
        )
        self.loader = Loader(planner, lambda: specs, self.host, self._record)

    def load(self, pins: Pins | None = None) -> Ready | Refusal:
        return self.loader.load(Profile.REALTIME, pins or Pins(), DEMAND, lambda: None)

    def of_type(self, name: str) -> list[dict[str, object]]:
        return [fields for type_, fields in self.events if type_ == name]

    def _start(self) -> Backend:
        return FakeBackend(FakeScript(), enabled=True)

    def _record(self, type_: str, fields: dict[str, object], _secrets: dict[str, str]) -> Receipt:
        self.events.append((type_, fields))
        return Receipt(len(self.events), "00")

    def _learn(self, _spec: ModelSpec, _choice: Candidate, loaded: LoadedModel) -> int:
        self.learned.append(loaded)
        return 7


@pytest.fixture
def specs(tmp_path: Path) -> list[ModelSpec]:
    path = tmp_path / "medium.gguf"
    path.touch()
    return [replace(spec_of("medium"), path=path)]


def test_need_is_reserved_before_the_load_and_what_ran_is_recorded(specs: list[ModelSpec]) -> None:
    rig = Rig(specs, 16000 * MIB)
    ready = rig.load()
    assert isinstance(ready, Ready)
    need = ready.plan.need_bytes
    ((asked, margin, freed),) = rig.ledger.asked
    assert (asked, freed) == (need, 0)
    assert margin == 16000 * MIB * 8 // 100
    (loaded,) = rig.of_type("model.loaded")
    assert (loaded["planned_context"], loaded["context"]) == (2048, 2048)
    assert (loaded["need_bytes"], loaded["residual_bytes"], loaded["reserved"]) == (need, 7, 1)
    assert len(rig.ledger.held) == 1
    # Warm: nothing is planned to change, nothing is reserved twice.
    again = rig.load()
    assert isinstance(again, Ready)
    assert again.load_s == 0.0
    assert len(rig.ledger.asked) == 1
    assert len(rig.of_type("runtime.decision")) == 2
    rig.host.close()
    assert rig.ledger.held == []


@pytest.mark.parametrize("code", ["E-PLAN-RESERVED", "E-PLAN-SHRUNK"])
def test_headroom_that_is_gone_is_planned_again_and_every_decision_is_recorded(
    specs: list[ModelSpec], code: str
) -> None:
    rig = Rig(specs, 16000 * MIB, code, code)
    assert isinstance(rig.load(), Ready)
    assert len(rig.of_type("runtime.decision")) == 3
    rig = Rig(specs, 16000 * MIB, code, code, code)
    refusal = rig.load()
    assert isinstance(refusal, Refusal)
    assert refusal.code == code
    assert refusal.params["missing"] == "1 MiB"
    assert rig.of_type("model.loaded") == []


def test_a_ledger_that_stays_locked_is_an_error_not_a_plan(specs: list[ModelSpec]) -> None:
    with pytest.raises(KnownError) as caught:
        Rig(specs, 16000 * MIB, "E-PLAN-LEDGER").load()
    assert caught.value.code == "E-PLAN-LEDGER"


def test_insisting_reserves_private_memory_only(specs: list[ModelSpec]) -> None:
    free = estimate(specs[0], RunConfig("medium", 1536, ubatch=64))
    rig = Rig(specs, free.total_bytes)
    assert isinstance(rig.load(Pins(model_id="medium")), Refusal)
    ready = rig.load(Pins(model_id="medium", override=True))
    assert isinstance(ready, Ready)
    ((asked, margin, _),) = rig.ledger.asked
    assert (asked, margin) == (ready.plan.need_bytes - specs[0].weights_bytes, 0)
    assert replay(rig.of_type("runtime.decision")[-1]).chosen is not None


def test_a_load_that_fails_gives_its_reservation_back(specs: list[ModelSpec]) -> None:
    rig = Rig([replace(specs[0], path=Path("gone.gguf"))], 16000 * MIB)
    with pytest.raises(KnownError) as caught:
        rig.load()
    assert caught.value.code == "E-MODEL-LOAD"
    assert len(rig.ledger.asked) == 1
    assert rig.ledger.held == []
    assert rig.host.config() is None


def test_rung_counts_better_models_finer_weights_and_longer_contexts_that_did_not_fit() -> None:
    big = spec_of("big", parameters=900_000_000, weights_bytes=700 * MIB)
    fine = spec_of("fine", weights_bytes=500 * MIB)
    coarse = spec_of("coarse", weights_bytes=250 * MIB, quantization="Q2_K")
    specs = {spec.model_id: spec for spec in (big, fine, coarse)}

    def rung(free_mib: int, needed: int = 2048, least: int = 1024) -> tuple[str, int, int]:
        plan = make_plan(
            list(specs.values()), what_if(free_mib * MIB), Profile.REALTIME, Pins(), needed, 0, least_context=least
        )
        assert plan.choice is not None
        return plan.choice.config.model_id, plan.choice.config.context, rungs_below_full(plan, specs)

    assert rung(16000) == ("big", 2048, 0)
    assert rung(700) == ("fine", 2048, 1)
    assert rung(450) == ("coarse", 2048, 2)
    least = estimate(coarse, RunConfig("coarse", 1536, ubatch=64)).total_bytes
    assert rung(-(-least // MIB)) == ("coarse", 1536, 3)

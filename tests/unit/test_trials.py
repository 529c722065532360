"""Plans ask the engine first, remember its answers, and stand on the closed form when it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from muniment_app.services.measurements import Measurements
from muniment_app.services.plan import LocalPlanService
from muniment_app.services.trials import Trials
from muniment_resources.errors import KnownError
from muniment_runtime.contracts import ModelSpec, NeedBasis, OracleSizes, Plan, Profile, RunConfig
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.planner.need import estimate
from tests.unit.planner_specs import spec_of

MIB = 1 << 20
Answer = Callable[[ModelSpec, RunConfig], OracleSizes | KnownError]


class Scripted:
    """A runner that answers by a function and counts."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[RunConfig] = []
        self.closed = 0

    def sizes(self, spec: ModelSpec, configs: Sequence[RunConfig]) -> list[OracleSizes | KnownError]:
        self.asked += configs
        return [self.answer(spec, config) for config in configs]

    def close(self) -> None:
        self.closed += 1


def like_the_formula(spec: ModelSpec, config: RunConfig, more: int = 0) -> OracleSizes:
    need = estimate(spec, config)
    return OracleSizes(
        need.kv_bytes, 0, need.compute_bytes + more, need.output_bytes, spec.weights_bytes, config.context, 1
    )


def service(tmp_path: Path, runner: Scripted, specs: list[ModelSpec], free: int) -> LocalPlanService:
    trials = Trials(Measurements(tmp_path / "facts.json", "lib"), runner, 2)
    return LocalPlanService(lambda: specs, FixedProbe(what_if(free)), lambda: None, trials=trials)


def only(plan: Plan) -> RunConfig:
    assert plan.choice is not None
    return plan.choice.config


def test_choice_is_tried_once_and_never_again(tmp_path: Path) -> None:
    runner = Scripted(like_the_formula)
    plan = service(tmp_path, runner, [spec_of()], 16000 * MIB).plan()
    assert plan.choice is not None
    assert plan.choice.need.basis is NeedBasis.ORACLE
    assert runner.asked == [only(plan)]
    again = Scripted(like_the_formula)
    assert service(tmp_path, again, [spec_of()], 16000 * MIB).plan() == plan
    assert again.asked == []


def test_a_choice_that_the_trial_finds_too_large_gives_way_to_the_next(tmp_path: Path) -> None:
    spec = spec_of()
    runner = Scripted(lambda spec, config: like_the_formula(spec, config, 90 * MIB if config.ubatch > 128 else 0))
    free = estimate(spec, RunConfig("small", 2048)).total_bytes + 512 * MIB
    plan = service(tmp_path, runner, [spec], free).plan()
    assert only(plan).ubatch == 128
    assert [config.ubatch for config in runner.asked] == [512, 256, 128]
    rejected = [item for item in plan.candidates if item.need.basis is NeedBasis.ORACLE and not item.fits]
    assert {item.reason for item in rejected} == {"needs_more_memory"}
    assert all(item.formula is not None and item.formula.total_bytes < item.need.total_bytes for item in rejected)


def test_unknown_architecture_runs_on_the_trial_alone(tmp_path: Path) -> None:
    odd = spec_of("odd", supported=False)
    sizes = OracleSizes(50 * MIB, 7 * MIB, 40 * MIB, 1 * MIB, odd.weights_bytes, 2048, 1)
    runner = Scripted(lambda _spec, _config: sizes)
    plan = service(tmp_path, runner, [odd], 16000 * MIB).plan()
    assert plan.choice is not None
    assert plan.choice.formula is None
    assert plan.choice.need.recurrent_bytes == 7 * MIB
    without = LocalPlanService(lambda: [odd], FixedProbe(what_if(16000 * MIB)), lambda: None)
    assert [item.reason for item in without.plan().candidates] == ["unsupported"]


@pytest.mark.parametrize("code", ["E-PROBE-MODEL", "E-MODEL-MALFORMED"])
def test_file_that_the_engine_cannot_load_is_a_verdict_and_the_next_model_runs(tmp_path: Path, code: str) -> None:
    bad, good = spec_of("bad", parameters=900_000_000), spec_of("good")
    bad = ModelSpec(**{**vars(bad), "sha256": "b" * 64})
    runner = Scripted(
        lambda spec, config: KnownError(code, model="bad") if spec is bad else like_the_formula(spec, config)
    )
    plan = service(tmp_path, runner, [bad, good], 16000 * MIB).plan()
    assert only(plan).model_id == "good"
    verdicts = {item.config.model_id: item for item in plan.candidates if item.reason == "unloadable"}
    assert verdicts["bad"].reason_params["cause"] == code
    assert len([config for config in runner.asked if config.model_id == "bad"]) == 1


def test_one_crash_condemns_the_configuration_two_the_file(tmp_path: Path) -> None:
    bad, good = spec_of("bad", parameters=900_000_000), spec_of("good")
    bad = ModelSpec(**{**vars(bad), "sha256": "b" * 64})
    crash = KnownError("E-PROBE-CRASHED", model="bad", cause="crash")
    runner = Scripted(lambda spec, config: crash if spec is bad else like_the_formula(spec, config))
    plan = service(tmp_path, runner, [bad, good], 16000 * MIB).plan()
    assert only(plan).model_id == "good"
    assert {item.reason for item in plan.candidates if item.config.model_id == "bad"} == {"unloadable"}
    assert len([config for config in runner.asked if config.model_id == "bad"]) == 2


@pytest.mark.parametrize(
    "error",
    [KnownError("E-WORKER-START", role="probe"), KnownError("E-PROBE-CRASHED", model="m", cause="out_of_memory")],
)
def test_a_machine_that_cannot_try_condemns_nothing(tmp_path: Path, error: KnownError) -> None:
    runner = Scripted(lambda _spec, _config: error)
    plans = service(tmp_path, runner, [spec_of()], 16000 * MIB)
    plan = plans.plan()
    assert plan.choice is not None
    assert plan.choice.need.basis is NeedBasis.FORMULA
    assert len(runner.asked) == 1
    runner.answer = like_the_formula
    later = plans.plan(Profile.REALTIME).choice
    assert later is not None
    assert later.need.basis is NeedBasis.ORACLE


def test_refused_configuration_is_told_and_another_is_chosen(tmp_path: Path) -> None:
    runner = Scripted(
        lambda spec, config: (
            KnownError("E-PROBE-CONFIG", model="m") if config.ubatch == 512 else like_the_formula(spec, config)
        )
    )
    plan = service(tmp_path, runner, [spec_of()], 16000 * MIB).plan()
    assert only(plan).ubatch == 256
    assert "refused_by_library" in {item.reason for item in plan.candidates}


def test_spread_of_earlier_loads_widens_the_reserve_and_their_excess_the_need(tmp_path: Path) -> None:
    from muniment_runtime.planner.residual import ResidualKey

    facts = Measurements(tmp_path / "facts.json", "lib")
    plain = service(tmp_path, Scripted(like_the_formula), [spec_of()], 16000 * MIB).plan()
    for value in (10 * MIB, 30 * MIB):
        facts.learn_residual(ResidualKey("llama", "llama_cpp", "linux"), value)
    plan = service(tmp_path, Scripted(like_the_formula), [spec_of()], 16000 * MIB).plan()
    assert plan.margin_bytes == plain.margin_bytes + 20 * MIB
    assert plan.choice is not None
    assert plain.choice is not None
    assert plan.choice.need.residual_bytes == 30 * MIB
    assert plan.choice.need.total_bytes == plain.choice.need.total_bytes + 30 * MIB

"""Need, verdicts, choice, explanation and JSON of the planner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import pytest

from muniment_app.audit.events import FieldValue, clear_fields
from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import (
    Headroom,
    KvType,
    LayerKv,
    Limit,
    ModelSpec,
    Need,
    NeedBasis,
    Pins,
    Plan,
    Pressure,
    Profile,
    RunConfig,
)
from muniment_runtime.headroom.chain import UNKNOWN, build, what_if
from muniment_runtime.planner.explain import explain
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.need import base_bytes, compute_bytes, estimate, kv_bytes, kv_row_bytes, output_bytes
from muniment_runtime.planner.plan import default_margin, make_plan, open_questions
from muniment_runtime.planner.serialize import decision_record, plan_json, replay
from tests.unit.planner_specs import spec_of

MIB = 1 << 20
SMALL = spec_of(
    "small", parameters=135_000_000, weights_bytes=100 * MIB, embedding_length=576, feed_forward_length=1536
)
MEDIUM = spec_of("medium")
LARGE = spec_of(
    "large",
    parameters=7_000_000_000,
    weights_bytes=4000 * MIB,
    embedding_length=3584,
    feed_forward_length=18944,
    layers=(LayerKv(512, 512),) * 28,
)


def plan_of(
    specs: list[ModelSpec],
    free_mib: int = 16000,
    profile: Profile = Profile.REALTIME,
    pins: Pins | None = None,
    needed: int = 2048,
) -> Plan:
    return make_plan(specs, what_if(free_mib * MIB), profile, pins or Pins(), needed, 512 * MIB)


def reasons(plan: Plan, model_id: str) -> set[str]:
    return {item.reason for item in plan.candidates if item.config.model_id == model_id}


# Figures of llama.cpp's dry run for the shape of Llama 3.2 1B: 16 layers, 8 KV heads of 64, 2048 wide.
LLAMA_1B = spec_of(
    "llama-1b",
    layers=(LayerKv(512, 512),) * 16,
    embedding_length=2048,
    feed_forward_length=8192,
    head_count=32,
    head_count_kv=8,
    vocabulary=128256,
)


@pytest.mark.parametrize(("kv_type", "mib"), [(KvType.F16, 1024), (KvType.Q8_0, 544)])
def test_cache_size_of_a_known_model(kv_type: KvType, mib: int) -> None:
    assert kv_bytes(LLAMA_1B, RunConfig("m", 32768, kv_type)) == mib * MIB


@pytest.mark.parametrize(("context", "flash", "mib"), [(4096, True, 68), (32768, True, 96), (32768, False, 2134)])
def test_compute_size_of_a_known_model(context: int, flash: bool, mib: int) -> None:
    assert compute_bytes(LLAMA_1B, RunConfig("m", context, flash_attention=flash)) / MIB == pytest.approx(mib, rel=0.01)


def test_sliding_window_layers_hold_only_their_window() -> None:
    """Gemma 3 4B at 32k: 5 global layers 640 MiB and 29 windowed layers 174 MiB, as the library prints."""
    layers = tuple(LayerKv(1024, 1024, 0 if index % 6 == 5 else 1024) for index in range(34))
    assert kv_bytes(spec_of(layers=layers), RunConfig("m", 32768)) == (640 + 174) * MIB


def test_context_is_rounded_up_and_given_to_every_sequence() -> None:
    assert kv_bytes(MEDIUM, RunConfig("m", 1000)) == kv_bytes(MEDIUM, RunConfig("m", 1024))
    assert kv_bytes(MEDIUM, RunConfig("m", 1024, sequences=3)) == 3 * kv_bytes(MEDIUM, RunConfig("m", 1024))


def test_without_flash_attention_v_is_as_wide_as_the_widest_layer() -> None:
    spec = spec_of(layers=(LayerKv(64, 64), LayerKv(64, 192)))
    assert kv_bytes(spec, RunConfig("m", 256)) == 256 * 2 * (64 + 64 + 64 + 192)
    assert kv_bytes(spec, RunConfig("m", 256, flash_attention=False)) == 256 * 2 * (64 + 192 + 64 + 192)


def test_impossible_configurations_are_bugs() -> None:
    with pytest.raises(BugError):
        kv_bytes(MEDIUM, RunConfig("m", 2048, KvType.Q8_0, flash_attention=False))
    with pytest.raises(BugError):
        kv_row_bytes(KvType.Q8_0, 100)
    with pytest.raises(BugError):
        estimate(MEDIUM, RunConfig("m", 0))


def test_unsupported_architecture_is_never_guessed() -> None:
    with pytest.raises(KnownError) as caught:
        estimate(replace(MEDIUM, supported=False), RunConfig("m", 2048))
    assert caught.value.code == "E-MODEL-UNSUPPORTED"
    for language in LANGUAGES:
        assert "llama" in Translator(language).error(caught.value)


def test_total_is_the_sum_of_the_lines() -> None:
    config = RunConfig("m", 2048, sequences=2)
    need = estimate(spec_of(repack_bytes=7, vocabulary=1000), config, residual_bytes=11)
    assert need.output_bytes == output_bytes(spec_of(vocabulary=1000), config) == 4 * 1000 * 2
    assert need.weights_bytes == (400 * MIB) + 7
    assert need.total_bytes == (
        need.weights_bytes
        + need.kv_bytes
        + need.compute_bytes
        + need.output_bytes
        + base_bytes(spec_of(vocabulary=1000))
        + 11
    )


def test_best_model_in_time_is_chosen_with_the_smallest_sufficient_context() -> None:
    plan = plan_of([SMALL, LARGE, MEDIUM])
    assert plan.choice is not None
    assert (plan.choice.config.model_id, plan.choice.config.context, plan.choice.config.ubatch) == ("medium", 2048, 512)
    assert plan.choice.config.flash_attention
    assert plan.choice.config.kv_type is KvType.F16
    assert reasons(plan, "large") == {"over_time_budget", "not_calibrated"}
    assert reasons(plan, "small") == {"smaller_than_chosen", "not_calibrated"}
    assert reasons(plan, "medium") == {"chosen", "not_best", "not_calibrated"}


def test_without_a_time_budget_quality_comes_first() -> None:
    assert plan_of([SMALL, LARGE, MEDIUM], profile=Profile.EXTRACTION).candidates[0].config.model_id == "large"
    choice = plan_of([SMALL, LARGE, MEDIUM], profile=Profile.EXTRACTION).choice
    assert choice is not None
    assert choice.config.model_id == "large"


def test_when_every_model_is_late_the_fastest_is_chosen() -> None:
    choice = plan_of(
        [LARGE, replace(LARGE, model_id="larger", feed_forward_length=20000, parameters=8_000_000_000)]
    ).choice
    assert choice is not None
    assert choice.config.model_id == "large"


def test_batch_runs_more_sequences_while_they_fit() -> None:
    roomy = plan_of([MEDIUM], 16000, Profile.BATCH).choice
    assert roomy is not None
    assert roomy.config.sequences == 4
    tight = plan_of([MEDIUM], 400 + 512 + 130, Profile.BATCH).choice
    assert tight is not None
    assert tight.config.sequences < 4


def test_less_memory_first_shrinks_the_prefill_chunk_then_the_model() -> None:
    full = estimate(MEDIUM, RunConfig("m", 2048)).total_bytes + 512 * MIB
    least = estimate(MEDIUM, RunConfig("m", 2048, ubatch=64)).total_bytes + 512 * MIB
    choices = []
    for free in (full, full - 1, least, least - 1):
        choice = make_plan([SMALL, MEDIUM], what_if(free), Profile.REALTIME, Pins(), 2048, 512 * MIB).choice
        assert choice is not None
        choices.append((choice.config.model_id, choice.config.ubatch))
    assert choices == [("medium", 512), ("medium", 256), ("medium", 64), ("small", 512)]


def test_nothing_fits_names_the_missing_bytes() -> None:
    plan = plan_of([SMALL, MEDIUM], 512)
    assert plan.chosen is None
    # 512 MiB are free and 512 MiB must stay free, so the whole need is missing.
    assert plan.unblock_bytes == estimate(SMALL, RunConfig("m", 2048, ubatch=64)).total_bytes
    assert plan_of([SMALL, MEDIUM], 512 + -(-plan.unblock_bytes // MIB)).chosen is not None


def test_pin_that_does_not_fit_is_not_overridden_and_an_alternative_is_named() -> None:
    plan = plan_of([SMALL, LARGE], 2000, pins=Pins(model_id="large"))
    assert plan.chosen is None
    assert reasons(plan, "large") == {"needs_more_memory", "not_calibrated"}
    assert plan.unblock_bytes > 0
    last = plan.candidates[-1]
    assert (last.config.model_id, last.reason, last.reason_params["would_fit"]) == ("small", "pinned_out", 1)
    assert "plan.would_fit" in [line.key for line in explain(plan)]


def test_pins_are_respected() -> None:
    pins = Pins(model_id="small", context=3000, sequences=2, kv_type=KvType.Q8_0)
    plan = plan_of([SMALL, MEDIUM], pins=pins)
    assert plan.choice is not None
    config = plan.choice.config
    assert (config.model_id, config.context, config.sequences, config.kv_type) == ("small", 3000, 2, KvType.Q8_0)
    assert reasons(plan, "medium") == {"pinned_out"}


def test_models_that_may_not_run_are_listed_with_the_reason() -> None:
    odd = spec_of("odd", supported=False)
    plan = plan_of([odd, spec_of("mute", template=None), spec_of("short", context_train=1024), SMALL])
    assert reasons(plan, "odd") == {"unsupported"}
    assert reasons(plan, "mute") == {"no_chat_template"}
    assert reasons(plan, "short") == {"context_over_training"}
    assert plan.choice is not None
    assert plan.choice.config.model_id == "small"


def test_context_is_capped_by_what_the_model_was_trained_for() -> None:
    plan = plan_of([spec_of("mid", context_train=3000)], needed=2500)
    assert {item.config.context for item in plan.candidates} == {3000}


def test_passages_are_left_out_before_the_weights_get_coarser_or_the_model_smaller() -> None:
    coarse = replace(MEDIUM, model_id="medium-q2", weights_bytes=250 * MIB, quantization="Q2_K")
    specs = [SMALL, MEDIUM, coarse]
    plan = make_plan(specs, what_if(16000 * MIB), Profile.REALTIME, Pins(), 3000, 512 * MIB, least_context=1500)
    assert plan.choice is not None
    steps = [plan.choice, *(plan.candidates[index] for index in plan.ladder)]
    seen = list(dict.fromkeys((step.config.model_id, step.config.context) for step in steps))
    assert seen[:3] == [("medium", 3072), ("medium", 2048), ("medium", 1536)]
    assert [model for model, _ in seen].index("medium-q2") < [model for model, _ in seen].index("small")
    assert reasons(plan, "medium") == {"chosen", "not_best", "fewer_passages", "not_calibrated"}
    assert reasons(plan, "medium-q2") == {"fewer_bits_than_chosen", "not_calibrated"}


def test_context_is_the_smallest_step_that_holds_the_task_and_never_below_the_least() -> None:
    plan = make_plan([MEDIUM], what_if(16000 * MIB), Profile.REALTIME, Pins(), 1700, 512 * MIB, least_context=1500)
    assert plan.choice is not None
    assert plan.choice.config.context == 2048
    assert {item.config.context for item in plan.candidates} == {2048, 1536}
    assert plan.needed_context == 1700


def test_what_runs_stays_when_nothing_better_fits() -> None:
    running = RunConfig("medium", 4096, ubatch=256)
    stay = plan_of([SMALL, MEDIUM], needed=1800)
    assert stay.choice is not None
    assert stay.choice.config.context == 2048
    knowledge = Knowledge(running=running)
    plan = make_plan([SMALL, MEDIUM], what_if(16000 * MIB), Profile.REALTIME, Pins(), 1800, 0, knowledge=knowledge)
    assert plan.choice is not None
    assert plan.choice.config == running
    # A better model is worth a load; so is a context that holds all evidence.
    other = Knowledge(running=RunConfig("small", 4096))
    better = make_plan([SMALL, MEDIUM], what_if(16000 * MIB), Profile.REALTIME, Pins(), 1800, 0, knowledge=other)
    assert better.choice is not None
    assert better.choice.config.model_id == "medium"
    longer = make_plan([MEDIUM], what_if(16000 * MIB), Profile.REALTIME, Pins(), 5000, 0, knowledge=knowledge)
    assert longer.choice is not None
    assert longer.choice.config.context == 6144


def test_replay_knows_what_ran() -> None:
    running = RunConfig("medium", 4096, ubatch=256)
    knowledge = Knowledge(running=running)
    plan = make_plan([SMALL, MEDIUM], what_if(16000 * MIB), Profile.REALTIME, Pins(), 1800, 0, knowledge=knowledge)
    record = json.loads(json.dumps(decision_record(plan, [SMALL, MEDIUM], running)))
    assert replay(record) == (plan.chosen, plan.ladder)
    assert replay(json.loads(json.dumps(decision_record(plan, [SMALL, MEDIUM])))).chosen != plan.chosen


def test_the_dry_run_decides_over_the_closed_form() -> None:
    config = RunConfig("medium", 2048)
    formula = estimate(MEDIUM, config)
    trial = formula._replace(compute_bytes=formula.compute_bytes + 50 * MIB, basis=NeedBasis.ORACLE)
    free = what_if(formula.total_bytes + 512 * MIB)
    unasked = make_plan([MEDIUM], free, Profile.REALTIME, Pins(), 2048, 512 * MIB)
    assert unasked.choice is not None
    assert unasked.choice.config == config
    knowledge = Knowledge(dry_runs={config: trial}, residual_bytes={"llama": 5 * MIB}, probing=True)
    plan = make_plan([MEDIUM], free, Profile.REALTIME, Pins(), 2048, 512 * MIB, knowledge=knowledge)
    asked = next(item for item in plan.candidates if item.config == config)
    assert asked.reason == "needs_more_memory"
    assert asked.reason_params["missing_bytes"] == 55 * MIB
    assert asked.formula == formula._replace(residual_bytes=5 * MIB)
    assert plan.choice is not None
    assert plan.choice.config.ubatch == 256
    # The next choice is not yet asked about; with its dry run there is nothing left to ask.
    assert open_questions(plan, [MEDIUM], 2, 2048, knowledge) == [plan.choice.config]
    known = {**knowledge.dry_runs, plan.choice.config: plan.choice.need._replace(basis=NeedBasis.ORACLE)}
    knowledge = replace(knowledge, dry_runs=known)
    plan = make_plan([MEDIUM], free, Profile.REALTIME, Pins(), 2048, 512 * MIB, knowledge=knowledge)
    assert open_questions(plan, [MEDIUM], 2, 2048, knowledge) == []


def test_model_without_closed_form_waits_for_the_dry_run() -> None:
    odd = spec_of("odd", supported=False, parameters=600_000_000)
    knowledge = Knowledge(probing=True)
    plan = make_plan([odd], what_if(16000 * MIB), Profile.REALTIME, Pins(), 2048, 0, knowledge=knowledge)
    assert reasons(plan, "odd") == {"not_probed"}
    asked = open_questions(plan, [odd], 2, 2048, knowledge)
    assert {config.ubatch for config in asked} == {512, 64}
    trial = Need(400 * MIB, 50 * MIB, 0, 40 * MIB, 0, 60 * MIB, 0, NeedBasis.ORACLE)
    answered = Knowledge(dry_runs=dict.fromkeys(asked[1:], trial), unrunnable=frozenset(asked[:1]), probing=True)
    plan = make_plan([odd], what_if(16000 * MIB), Profile.REALTIME, Pins(), 2048, 0, knowledge=answered)
    assert plan.choice is not None
    assert plan.choice.need == trial
    assert plan.choice.formula is None
    assert "refused_by_library" in reasons(plan, "odd")
    assert open_questions(plan, [odd], 2, 2048, answered) == []


def test_rules_that_exclude_a_model_as_a_whole() -> None:
    hybrid = spec_of("hybrid", single_sequence=True)
    narrow = spec_of("narrow", layers=(LayerKv(80, 80),) * 4)
    knowledge = Knowledge(unloadable={"medium": "crash"})
    pins = Pins(sequences=2, kv_type=KvType.Q8_0)
    plan = make_plan(
        [MEDIUM, hybrid, narrow], what_if(16000 * MIB), Profile.REALTIME, pins, 2048, 0, knowledge=knowledge
    )
    assert reasons(plan, "medium") == {"unloadable"}
    assert reasons(plan, "hybrid") == {"one_sequence_only", "pinned_out"}
    assert reasons(plan, "narrow") == {"kv_type_unavailable"}
    batch = make_plan([hybrid], what_if(16000 * MIB), Profile.BATCH, Pins(), 2048, 0)
    assert {item.config.sequences for item in batch.candidates} == {1}


def test_user_may_insist_on_a_pin_but_never_beyond_private_memory() -> None:
    need = estimate(MEDIUM, RunConfig("m", 2048, ubatch=64)).total_bytes
    pins = Pins(model_id="medium")
    insisted = replace(pins, override=True)
    free = what_if(need)
    assert make_plan([MEDIUM], free, Profile.REALTIME, pins, 2048, 512 * MIB).chosen is None
    plan = make_plan([MEDIUM], free, Profile.REALTIME, insisted, 2048, 512 * MIB)
    assert plan.choice is not None
    assert (plan.choice.reason, plan.choice.fits) == ("overridden", False)
    record = decision_record(plan, [MEDIUM])
    assert record["pins"] == {"model": "medium", "override": 1}
    assert replay(record) == (plan.chosen, ())
    private = need - MEDIUM.weights_bytes
    assert make_plan([MEDIUM], what_if(private - 1), Profile.REALTIME, insisted, 2048, 512 * MIB).chosen is None
    # Insisting on nothing means nothing.
    assert make_plan([MEDIUM], free, Profile.REALTIME, Pins(override=True), 2048, 512 * MIB).chosen is None


def test_a_cache_type_that_was_measured_may_be_chosen_last() -> None:
    full = estimate(MEDIUM, RunConfig("m", 4096, KvType.Q8_0, ubatch=64)).total_bytes
    knowledge = Knowledge(measured_kv=frozenset({KvType.Q8_0}))
    plan = make_plan([MEDIUM], what_if(full), Profile.EXTRACTION, Pins(), 4096, 0, knowledge=knowledge)
    assert plan.choice is not None
    assert plan.choice.config.kv_type is KvType.Q8_0
    roomy = make_plan([MEDIUM], what_if(2 * full), Profile.EXTRACTION, Pins(), 4096, 0, knowledge=knowledge)
    assert roomy.choice is not None
    assert roomy.choice.config.kv_type is KvType.F16


def test_ladder_frees_memory_with_every_rung_and_keeps_the_order() -> None:
    plan = plan_of([SMALL, MEDIUM])
    assert plan.choice is not None
    steps = [plan.choice, *(plan.candidates[index] for index in plan.ladder)]
    needs = [step.need.total_bytes for step in steps]
    assert needs == sorted(needs, reverse=True)
    assert len(set(needs)) == len(needs)
    assert [(step.config.model_id, step.config.ubatch) for step in steps][:5] == [
        ("medium", 512),
        ("medium", 256),
        ("medium", 128),
        ("medium", 64),
        ("small", 512),
    ]


def test_two_models_with_one_id_are_a_bug() -> None:
    with pytest.raises(BugError):
        plan_of([SMALL, SMALL])


def test_margin_is_a_share_of_large_limits() -> None:
    assert default_margin(what_if(1 << 30)) == 512 * MIB
    assert default_margin(what_if(100 << 30)) == (100 << 30) * 8 // 100


def test_json_has_the_agreed_shape() -> None:
    shown = json.loads(json.dumps(plan_json(plan_of([SMALL, MEDIUM]))))
    assert {"headroom", "margin_bytes", "candidates", "chosen", "ladder"} <= set(shown)
    assert {"available_bytes", "limits", "pressure", "binding", "signals"} <= set(shown["headroom"])
    candidate = shown["candidates"][0]
    assert {
        "model", "quantization", "context", "kv_type", "sequences", "ubatch", "flash_attention", "need", "prediction",
        "fits", "reason",
    } <= set(candidate)  # fmt: skip
    need = candidate["need"]
    assert need["basis"] == "formula"
    assert sum(size for name, size in need.items() if name not in ("total_bytes", "basis")) == need["total_bytes"]
    assert candidate["prediction"]["basis"] == "hypothesis"
    assert shown["chosen"] in shown["candidates"]
    assert all(rung in shown["candidates"] and rung["fits"] for rung in shown["ladder"])
    assert plan_json(plan_of([SMALL], 100))["chosen"] is None


def test_replay_does_not_trust_the_recorded_choice() -> None:
    plan = plan_of([SMALL, MEDIUM])
    record = decision_record(plan, [SMALL, MEDIUM])
    assert replay({**record, "chosen": 7, "ladder": []}) == (plan.chosen, plan.ladder)
    headroom = record["headroom"]
    assert isinstance(headroom, dict)
    assert replay({**record, "headroom": {**headroom, "available_bytes": 1}}) == (None, ())


@pytest.mark.parametrize(
    "change", [{"profile": "x"}, {"margin_bytes": 1.5}, {"models": []}, {"candidates": "none"}, {"version": 1}]
)
def test_broken_record_is_reported(change: dict[str, object]) -> None:
    record = decision_record(plan_of([SMALL]), [SMALL])
    with pytest.raises(KnownError) as caught:
        replay({**record, **change})
    assert caught.value.code == "E-PLAN-RECORD"


def chains() -> list[Headroom]:
    limited = build([Limit("memory_available", 9000 * MIB), Limit("cgroup:/a", 8000 * MIB)], 10000 * MIB, [])
    return [what_if(8000 * MIB), what_if(100 * MIB), limited, Headroom(0, (), 0, Pressure.CRITICAL, UNKNOWN)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("pins", [Pins(), Pins(model_id="large"), Pins(context=40000), Pins(kv_type=KvType.Q8_0)])
def test_every_explanation_has_words(language: str, pins: Pins) -> None:
    specs = [SMALL, MEDIUM, LARGE, spec_of("odd", supported=False), spec_of("mute", template=None)]
    translator = Translator(language)
    for headroom in chains():
        for profile in Profile:
            plan = make_plan(specs, headroom, profile, pins, 2048, 512 * MIB)
            texts = [translator.text(line.key, **line.params) for line in explain(plan)]
            assert all("{" not in text for text in texts)
            assert len(texts) > len(specs)


def test_explanation_names_the_model_and_all_bytes() -> None:
    plan = plan_of([MEDIUM], 8000)
    text = "\n".join(Translator("en").text(line.key, **line.params) for line in explain(plan))
    assert "Chosen: medium Q4_K_M, context 2048: needs " in text
    assert "7.8 GiB are free and 512 MiB stay in reserve." in text
    assert "Weights: 400 MiB" in text


def test_rejected_lines_name_the_least_that_is_missing_once_per_model() -> None:
    plan = plan_of([SMALL, MEDIUM], 600)
    lines = explain(plan)
    missing = [line.params["missing_bytes"] for line in lines if line.key == "plan.needs_more_memory"]
    least = [estimate(spec, RunConfig("m", 2048, ubatch=64)).total_bytes for spec in (MEDIUM, SMALL)]
    assert missing == [need + (512 - 600) * MIB for need in least]


def test_five_hundred_candidates() -> None:
    specs = [spec_of(f"model-{number:03}", parameters=10_000_000 * number) for number in range(1, 60)]
    plan = make_plan(specs, what_if(16000 * MIB), Profile.BATCH, Pins(), 4096, 512 * MIB, least_context=2048)
    assert len(plan.candidates) > 500
    assert plan.choice is not None
    assert plan.choice.config.model_id == "model-059"


def test_decision_of_a_container_and_a_requantized_model_may_stand_in_the_audit_log() -> None:
    """Neither paths of control groups nor labels with spaces are codes; both occur."""
    gib = 1 << 30
    limits = [
        Limit("memory_available", 9 * gib),
        Limit("cgroup:/", 8 * gib),
        Limit("cgroup:/user.slice/user-1000.slice", 7 * gib),
    ]
    coarse = replace(MEDIUM, model_id="medium-q2_k", quantization="Q2_K (from Q4_K_M)")
    plan = make_plan([coarse, SMALL], build(limits, 16 * gib, []), Profile.REALTIME, Pins(), 2048, 512 * MIB)
    record = decision_record(plan, [coarse, SMALL])
    fields = clear_fields(cast("dict[str, FieldValue]", record))
    assert replay(fields) == (plan.chosen, plan.ladder)
    headroom = record["headroom"]
    assert isinstance(headroom, dict)
    names = [limit["name"] for limit in headroom["limits"]]
    assert names == ["memory_available", "cgroup:1", "cgroup:2"]
    assert headroom["binding"] == "cgroup:2"
    assert "1000" not in json.dumps(record["headroom"])

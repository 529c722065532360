"""Need, verdicts, choice, explanation and JSON of the planner."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import (
    Headroom,
    KvType,
    LayerKv,
    Limit,
    ModelSpec,
    Pins,
    Plan,
    Pressure,
    Profile,
    RunConfig,
)
from muniment_runtime.headroom.chain import UNKNOWN, build, what_if
from muniment_runtime.planner.explain import explain
from muniment_runtime.planner.need import base_bytes, compute_bytes, estimate, kv_bytes, kv_row_bytes, output_bytes
from muniment_runtime.planner.plan import default_margin, make_plan
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
    assert set(shown) == {"headroom", "margin_bytes", "candidates", "chosen", "ladder"}
    assert set(shown["headroom"]) == {"available_bytes", "limits", "pressure"}
    candidate = shown["candidates"][0]
    assert set(candidate) == {
        "model", "quantization", "context", "kv_type", "sequences", "ubatch", "flash_attention", "need", "prediction",
        "fits", "reason",
    }  # fmt: skip
    assert (
        sum(size for name, size in candidate["need"].items() if name != "total_bytes")
        == candidate["need"]["total_bytes"]
    )
    assert candidate["prediction"]["basis"] == "hypothesis"
    assert shown["chosen"] in shown["candidates"]
    assert all(rung in shown["candidates"] and rung["fits"] for rung in shown["ladder"])
    assert plan_json(plan_of([SMALL], 100))["chosen"] is None


def test_replay_does_not_trust_the_recorded_choice() -> None:
    plan = plan_of([SMALL, MEDIUM])
    record = decision_record(plan, [SMALL, MEDIUM])
    assert replay({**record, "chosen": 0}) == plan.chosen
    headroom = record["headroom"]
    assert isinstance(headroom, dict)
    assert replay({**record, "headroom": {**headroom, "available_bytes": 1}}) is None


@pytest.mark.parametrize("change", [{"profile": "x"}, {"margin_bytes": 1.5}, {"models": []}, {"candidates": "none"}])
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


def test_rejected_lines_name_the_least_that_is_missing_once_per_context() -> None:
    plan = plan_of([SMALL, MEDIUM], 600)
    lines = explain(plan)
    missing = [line.params["missing_bytes"] for line in lines if line.key == "plan.needs_more_memory"]
    contexts = (2048, 4096, 8192)
    least = [estimate(spec, RunConfig("m", n, ubatch=64)).total_bytes for spec in (MEDIUM, SMALL) for n in contexts]
    assert missing == [need + (512 - 600) * MIB for need in least]


def test_five_hundred_candidates() -> None:
    specs = [spec_of(f"model-{number:03}", parameters=10_000_000 * number) for number in range(1, 60)]
    plan = plan_of(specs, profile=Profile.BATCH)
    assert len(plan.candidates) > 500
    assert plan.choice is not None
    assert plan.choice.config.model_id == "model-059"

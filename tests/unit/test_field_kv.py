"""A quantized cache where it cannot work, as it goes wrong elsewhere: promised, and silently not there, or a crash."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from muniment_resources.errors import BugError
from muniment_resources.i18n import Translator
from muniment_resources.units import GIB
from muniment_runtime.contracts import KvType, LayerKv, ModelSpec, Pins, Plan, Profile, RunConfig
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.need import NeedModel
from muniment_runtime.planner.plan import default_margin, make_plan
from tests.unit.planner_specs import spec_of

QUANTIZED = [kv_type for kv_type in KvType if kv_type.quantized]
# 24 heads of 20 elements: no whole number of blocks of 32.
ODD = spec_of("odd", layers=(LayerKv(20, 20),) * 24, head_dim=20)
EVEN = spec_of("even")


def _plan(spec: ModelSpec, profile: Profile, pins: Pins, measured: frozenset[KvType] = frozenset()) -> Plan:
    headroom = what_if(16 * GIB)
    return make_plan(
        [spec],
        headroom,
        profile,
        pins,
        4096,
        default_margin(headroom),
        least_context=1024,
        knowledge=Knowledge(measured_kv=measured),
    )


@pytest.mark.parametrize("kv_type", QUANTIZED)
def test_t22_no_plan_holds_a_quantized_cache_without_flash_attention(kv_type: KvType) -> None:
    seen = 0
    for profile, pins in itertools.product(
        Profile, (Pins(), Pins(kv_type=kv_type), Pins(kv_type=kv_type, context=1000))
    ):
        for candidate in _plan(EVEN, profile, pins, frozenset({kv_type})).candidates:
            if candidate.config.kv_type.quantized:
                seen += 1
                assert candidate.config.flash_attention
    assert seen > 0


def test_t22_a_quantized_cache_without_flash_attention_has_no_price() -> None:
    model = NeedModel(EVEN)
    for kv_type in QUANTIZED:
        config = RunConfig("even", 4096, kv_type)
        assert model.need(config).kv_bytes < model.need(config._replace(kv_type=KvType.F16)).kv_bytes
        with pytest.raises(BugError):
            model.need(config._replace(flash_attention=False))


@pytest.mark.parametrize("profile", Profile)
def test_t22_a_cache_type_that_the_model_cannot_hold_is_rejected_with_words(profile: Profile) -> None:
    plan = _plan(ODD, profile, Pins(kv_type=KvType.Q8_0))
    assert plan.choice is None
    rejected = [candidate for candidate in plan.candidates if candidate.config.kv_type is KvType.Q8_0]
    assert {candidate.reason for candidate in rejected} == {"kv_type_unavailable"}
    for candidate in rejected:
        assert not candidate.fits
        # Nothing is counted as saved by what is not there.
        assert candidate.need.total_bytes == 0
        for language in ("en", "zh_CN"):
            words = Translator(language).text("plan.kv_type_unavailable", **candidate.reason_params)
            assert "odd" in words
            assert "q8_0" in words
    # What would do instead is said, as for any pin.
    assert [item.config.kv_type for item in plan.candidates if item.reason == "pinned_out"] == [KvType.F16]


def test_t22_a_sliding_window_keeps_its_size_so_only_the_rest_is_saved() -> None:
    windowed = replace(EVEN, layers=(LayerKv(128, 128, 512),) * 23 + (LayerKv(128, 128),))
    model = NeedModel(windowed)
    short, long = RunConfig("even", 8192, KvType.Q8_0), RunConfig("even", 32768, KvType.Q8_0)
    grown = model.need(long).kv_bytes - model.need(short).kv_bytes
    # One layer of 24 grows; a row of 128 elements is four blocks of 34 bytes, for K and for V.
    assert grown == (32768 - 8192) * 2 * 4 * 34

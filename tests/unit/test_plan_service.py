"""The plan service: pins and what-if questions are checked, and what runs counts as free."""

from __future__ import annotations

import sys

import pytest

from muniment_app.services.api import PlanService
from muniment_app.services.plan import LocalPlanService
from muniment_resources.errors import KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import LoadedModel, ModelSpec, Pins, Profile
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from tests.unit.planner_specs import spec_of

MIB = 1 << 20


def service(specs: list[ModelSpec], free_mib: int = 4000, loaded: LoadedModel | None = None) -> PlanService:
    return LocalPlanService(lambda: specs, FixedProbe(what_if(free_mib * MIB)), lambda: loaded)


def test_plan_uses_live_headroom_and_loads_nothing() -> None:
    before = "llama_cpp" in sys.modules
    plan = service([spec_of()]).plan()
    assert plan.headroom.available_bytes == 4000 * MIB
    assert plan.choice is not None
    assert plan.choice.config.context == 2048
    assert ("llama_cpp" in sys.modules) is before


def test_profiles_need_different_contexts() -> None:
    choice = service([spec_of()]).plan(Profile.EXTRACTION).choice
    assert choice is not None
    assert choice.config.context == 4096


def test_what_if_replaces_the_measurement() -> None:
    plan = service([spec_of()]).plan(headroom_bytes=600 * MIB)
    assert plan.headroom.binding == "what_if"
    assert plan.chosen is None
    assert plan.unblock_bytes > 0


def test_private_memory_of_the_running_model_counts_as_free() -> None:
    loaded = LoadedModel("small", 2048, 1, 32000, 0.1, 300 * MIB, 400 * MIB)
    busy = service([spec_of()], 900, loaded)
    assert busy.headroom().available_bytes == 900 * MIB
    assert busy.plan().headroom.available_bytes == 1200 * MIB
    assert busy.running() == loaded
    assert service([spec_of()], 900).plan().chosen is None
    assert busy.plan().chosen is not None


@pytest.mark.parametrize(
    ("specs", "pins", "headroom_bytes", "code"),
    [
        ([], Pins(), None, "E-MODEL-NONE"),
        ([spec_of()], Pins(model_id="other"), None, "E-PLAN-MODEL"),
        ([spec_of()], Pins(context=0), None, "E-PLAN-PIN"),
        ([spec_of()], Pins(sequences=257), None, "E-PLAN-PIN"),
        ([spec_of()], Pins(), -1, "E-PLAN-PIN"),
    ],
)
def test_bad_requests_have_a_sentence(
    specs: list[ModelSpec], pins: Pins, headroom_bytes: int | None, code: str
) -> None:
    with pytest.raises(KnownError) as caught:
        service(specs).plan(pins=pins, headroom_bytes=headroom_bytes)
    assert caught.value.code == code
    for language in LANGUAGES:
        assert Translator(language).error(caught.value)

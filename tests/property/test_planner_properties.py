"""Properties of need and choice that hold for all models, settings and headrooms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from muniment_runtime.contracts import KvType, LayerKv, ModelSpec, Need, NeedBasis, Pins, Plan, Profile, RunConfig
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.repack import WIDEST
from muniment_runtime.model.skeleton import write_shape
from muniment_runtime.model.spec import model_spec
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.need import NeedModel
from muniment_runtime.planner.plan import entries_of, make_plan
from muniment_runtime.planner.rank import order_key
from muniment_runtime.planner.serialize import decision_record, replay
from tests.helpers.shapes import SHAPES
from tests.unit.planner_specs import spec_of

MIB = 1 << 20


@st.composite
def specs(draw: st.DrawFn, model_id: str = "m") -> ModelSpec:
    heads_kv = draw(st.integers(1, 8))
    head_dim = draw(st.sampled_from([32, 64, 128, 256]))
    window = draw(st.sampled_from([0, 512, 1024]))
    width = heads_kv * head_dim
    count = draw(st.integers(1, 40))
    return spec_of(
        model_id,
        layers=tuple(LayerKv(width, width, window if index % 3 else 0) for index in range(count)),
        embedding_length=draw(st.integers(64, 4096)),
        feed_forward_length=draw(st.integers(64, 16384)),
        head_count=heads_kv * draw(st.integers(1, 8)),
        head_count_kv=heads_kv,
        head_dim=head_dim,
        vocabulary=draw(st.integers(100, 262144)),
        weights_bytes=draw(st.integers(10 * MIB, 8000 * MIB)),
        parameters=draw(st.integers(10_000_000, 8_000_000_000)),
        context_train=draw(st.sampled_from([1024, 2048, 3000, 8192, 32768])),
        template=draw(st.sampled_from(["chatml", "chatml", "chatml", None])),
        supported=draw(st.sampled_from([True, True, True, False])),
    )


@st.composite
def lists_of_specs(draw: st.DrawFn) -> list[ModelSpec]:
    return [draw(specs(f"m{number}")) for number in range(draw(st.integers(1, 4)))]


PINS = st.builds(
    Pins,
    model_id=st.sampled_from([None, None, "m0", "m1"]),
    context=st.sampled_from([None, None, 1000, 4096, 40000]),
    sequences=st.sampled_from([None, None, 1, 3]),
    kv_type=st.sampled_from([None, None, KvType.F16, KvType.Q8_0]),
    override=st.booleans(),
)
FREE = st.integers(0, 12000 * MIB)
NEEDED = st.integers(256, 12000)


@cache
def _prepared(name: str) -> NeedModel:
    """The need of a published model's shape; preparing one takes milliseconds, asking it microseconds."""
    with TemporaryDirectory() as folder:
        path = write_shape(SHAPES[name](), Path(folder) / "shape.gguf")
        assert path is not None
        return NeedModel(model_spec(read_header(path), model_id=name, path=path, sha256="", cpu=WIDEST))


MODELS = st.one_of(
    st.sampled_from(sorted(SHAPES)).map(_prepared),
    specs().map(lambda spec: NeedModel(replace(spec, supported=True))),
)
LINES = [name for name in Need._fields if name.endswith("_bytes")]
KINDS = st.sampled_from([(True, KvType.F16), (True, KvType.Q8_0), (False, KvType.F16), (False, KvType.F32)])


@given(
    MODELS,
    st.integers(1, 40000),
    st.integers(1, 8),
    st.integers(1, 512),
    KINDS,
    st.booleans(),
    st.tuples(st.integers(0, 20000), st.integers(0, 4), st.integers(0, 256)),
)
@settings(deadline=None)
def test_need_grows_with_context_sequences_and_ubatch(
    model: NeedModel,
    context: int,
    sequences: int,
    ubatch: int,
    kind: tuple[bool, KvType],
    unified: bool,
    more: tuple[int, int, int],
) -> None:
    flash, kv_type = kind
    base = RunConfig("m", context, kv_type, sequences, ubatch=ubatch, flash_attention=flash, unified=unified)
    need = model.need(base)
    for larger in (
        base._replace(context=context + more[0]),
        base._replace(sequences=sequences + more[1]),
        base._replace(ubatch=ubatch + more[2]),
    ):
        grown = model.need(larger)
        for name in LINES:
            assert getattr(grown, name) >= getattr(need, name), name


@given(MODELS, st.integers(1, 40000), st.integers(1, 8), st.integers(1, 512), KINDS, st.booleans())
@settings(deadline=None)
def test_a_prepared_model_and_a_fresh_one_agree(
    model: NeedModel, context: int, sequences: int, ubatch: int, kind: tuple[bool, KvType], unified: bool
) -> None:
    """What was asked before leaves no trace in the answer."""
    config = RunConfig("m", context, kind[1], sequences, ubatch=ubatch, flash_attention=kind[0], unified=unified)
    assert model.need(config) == NeedModel(model.spec).need(config)


@st.composite
def circumstances(draw: st.DrawFn, models: Sequence[ModelSpec]) -> Knowledge:
    """Dry runs that differ from the closed form, corrections, verdicts, something that runs."""
    runs: dict[RunConfig, Need] = {}
    for spec in models:
        config = RunConfig(
            spec.model_id, draw(st.sampled_from([1024, 2048, 4096])), ubatch=draw(st.sampled_from([64, 512]))
        )
        if draw(st.booleans()):
            runs[config] = Need(
                spec.weights_bytes, draw(st.integers(0, 999 * MIB)), 0, draw(st.integers(0, 99 * MIB)), 0, 0, 0,
                NeedBasis.ORACLE,
            )  # fmt: skip
    running = draw(st.sampled_from([None, RunConfig(models[0].model_id, 4096), RunConfig("gone", 2048)]))
    return Knowledge(
        dry_runs=runs,
        unloadable=draw(st.sampled_from([{}, {}, {"m1": "crash"}])),
        residual_bytes={"llama": draw(st.integers(0, 64 * MIB))},
        running=running,
        measured_kv=draw(st.sampled_from([frozenset(), frozenset({KvType.Q8_0})])),
        probing=draw(st.booleans()),
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[ModelSpec], Knowledge]:
    models = draw(lists_of_specs())
    return models, draw(circumstances(models))


@given(situations(), FREE, st.sampled_from(Profile), PINS, NEEDED, st.integers(0, 4096), st.integers(0, 2000 * MIB))
def test_choice_fits_obeys_pins_and_replays(
    situation: tuple[list[ModelSpec], Knowledge],
    free: int,
    profile: Profile,
    pins: Pins,
    needed: int,
    spare: int,
    margin: int,
) -> None:
    models, known = situation
    least = max(1, needed - spare)

    def planned(specs: list[ModelSpec]) -> Plan:
        return make_plan(specs, what_if(free), profile, pins, needed, margin, None, 2, least, known)

    plan = planned(models)
    assert plan == planned(list(reversed(models)))
    record = json.loads(json.dumps(decision_record(plan, models, known.running)))
    assert replay(record) == (plan.chosen, plan.ladder)
    assert not list(_floats(record))
    if plan.choice is None:
        assert not any(item.fits for item in plan.candidates)
        return
    config = plan.choice.config
    if plan.choice.reason == "overridden":
        assert pins.override
        assert not any(item.fits for item in plan.candidates)
        weights = next(spec.weights_bytes for spec in models if spec.model_id == config.model_id)
        assert plan.choice.need.total_bytes - weights <= free
    else:
        assert free - plan.choice.need.total_bytes >= margin
    assert pins.model_id in (None, config.model_id)
    assert pins.context in (None, config.context)
    assert pins.sequences in (None, config.sequences)
    assert pins.kv_type in (None, config.kv_type)
    assert pins.context is not None or config.context >= least
    assert config.model_id not in known.unloadable
    assert config.kv_type is KvType.F16 or config.kv_type in (pins.kv_type, *known.measured_kv)
    assert config.ubatch >= 64
    lowest = plan.choice.need.total_bytes
    for index in plan.ladder:
        rung = plan.candidates[index]
        assert rung.fits
        assert rung.need.total_bytes < lowest
        lowest = rung.need.total_bytes


@given(situations(), FREE, st.integers(0, 8000 * MIB), st.sampled_from(Profile), PINS, NEEDED)
@settings(max_examples=60)
def test_more_headroom_never_gives_a_worse_plan(
    situation: tuple[list[ModelSpec], Knowledge], free: int, more: int, profile: Profile, pins: Pins, needed: int
) -> None:
    models, known = situation
    bound = replace(pins, override=False)
    before, after = (
        make_plan(models, what_if(size), profile, bound, needed, 512 * MIB, None, 2, needed // 2, known)
        for size in (free, free + more)
    )
    if before.chosen is not None:
        assert after.chosen is not None
        assert _rank(after, models, known) <= _rank(before, models, known)


def _rank(plan: Plan, models: Sequence[ModelSpec], known: Knowledge) -> tuple[int | str, ...]:
    assert plan.chosen is not None
    by_id = {spec.model_id: spec for spec in models}
    entries = entries_of(plan.candidates, by_id, plan.needed_context, known.running)
    return order_key(plan.profile, entries[plan.chosen])


def _floats(value: object) -> list[float]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in _floats(item)]
    if isinstance(value, list):
        return [found for item in value for found in _floats(item)]
    return [value] if isinstance(value, float) else []

"""Random decisions, written as the audit log writes them, read back and replayed: how many lead elsewhere.

Models, headroom, profiles, pins, demands, dry runs, corrections and what runs are drawn from a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from bench.common import Report
from bench.need_planner import planner_specs
from muniment_app.audit.canonical import Json, canonicalize, parse
from muniment_app.audit.events import FieldValue, clear_fields
from muniment_resources.units import GIB, MIB
from muniment_runtime.contracts import KvType, Limit, ModelSpec, NeedBasis, Pins, Profile, RunConfig
from muniment_runtime.headroom.chain import build
from muniment_runtime.planner.candidates import UBATCHES
from muniment_runtime.planner.demand import CONTEXTS
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.needs import Needs
from muniment_runtime.planner.plan import make_plan
from muniment_runtime.planner.serialize import decision_record, replay

__all__ = ["replayed"]

_DECISIONS = 10_000
_QUICK_DECISIONS = 1_000
_SEED = 20_261_201
_MODELS = 4
_VARIANTS = 12
_CONTEXTS = CONTEXTS[:9]


def _pool(draw: random.Random, bases: Sequence[ModelSpec]) -> list[list[ModelSpec]]:
    """Return models to draw from: several of each id, so that each is prepared once."""

    def variant(number: int) -> ModelSpec:
        base = draw.choice(bases)
        return replace(
            base,
            model_id=f"m{number}",
            sha256=f"{draw.getrandbits(256):064x}",
            template=draw.choice(["chatml", "chatml", "chatml", None]),
            weights_bytes=draw.randint(base.weights_bytes // 4, base.weights_bytes),
            quantization=draw.choice(["Q4_K_M", "Q2_K-from-Q4_K_M", "Q8_0"]),
        )

    return [[variant(number) for _ in range(_VARIANTS)] for number in range(_MODELS)]


def _knowledge(draw: random.Random, models: Sequence[ModelSpec], needs: Needs) -> Knowledge:
    def config() -> RunConfig:
        model = draw.choice(models).model_id
        return RunConfig(model, draw.choice(_CONTEXTS), sequences=draw.choice([1, 2, 4]), ubatch=draw.choice(UBATCHES))

    by_id = {spec.model_id: spec for spec in models}
    runs = {}
    for tried in {config() for _ in range(draw.randint(0, 12))}:
        need = needs.of(by_id[tried.model_id])[tried]
        more = draw.randint(-need.compute_bytes // 10, 40 * MIB)
        runs[tried] = need._replace(compute_bytes=need.compute_bytes + more, basis=NeedBasis.ORACLE)
    return Knowledge(
        dry_runs=runs,
        unloadable={"m0": "E-PROBE-MODEL"} if draw.random() < 0.1 else {},
        unrunnable=frozenset({config()}),
        residual_bytes={spec.architecture: draw.randint(0, 50 * MIB) for spec in models},
        running=draw.choice([None, config()]),
        measured_kv=frozenset(draw.sample([KvType.Q8_0], draw.randint(0, 1))),
        probing=draw.random() < 0.5,
    )


def _pins(draw: random.Random) -> Pins:
    if draw.random() < 0.6:
        return Pins()
    return Pins(
        draw.choice([None, "m0", "m1"]),
        draw.choice([None, 1000, 4096]),
        draw.choice([None, 1, 3]),
        draw.choice([None, KvType.F16, KvType.Q8_0, KvType.Q4_0]),
        draw.random() < 0.3,
    )


def _differs(draw: random.Random, pool: Sequence[Sequence[ModelSpec]], needs: Needs) -> tuple[bool, bool]:
    """Return whether a random decision replays to something else, and whether it chose anything."""
    models = [draw.choice(variants) for variants in pool[: draw.randint(1, _MODELS)]]
    free = draw.randint(0, 14 * GIB)
    limits = [Limit("memory_available", draw.randint(free, 16 * GIB)), Limit("cgroup:/user.slice/a", free)]
    needed = draw.randint(512, 9000)
    knowledge = _knowledge(draw, models, needs)
    plan = make_plan(
        models,
        build(limits, 16 * GIB, []),
        draw.choice(list(Profile)),
        _pins(draw),
        needed,
        draw.randint(0, GIB),
        least_context=draw.randint(256, needed),
        knowledge=knowledge,
        needs=needs,
    )
    record = decision_record(plan, models, knowledge.running)
    written = canonicalize(cast("Json", clear_fields(cast("dict[str, FieldValue]", record))))
    read = parse(written)
    assert isinstance(read, dict)
    return replay(read) != (plan.chosen, plan.ladder), plan.chosen is not None


def replayed(report: Report, *, quick: bool) -> None:
    """Draw the decisions and add the figures."""
    draw = random.Random(_SEED)
    pool, needs = _pool(draw, planner_specs()), Needs()
    count = _QUICK_DECISIONS if quick else _DECISIONS
    results = [_differs(draw, pool, needs) for _ in range(count)]
    report.add("replay_mismatches", sum(differs for differs, _ in results), count)
    report.add("replay_decisions_with_choice", sum(chose for _, chose in results), count)

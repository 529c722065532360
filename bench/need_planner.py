"""Time of one plan over at least 500 candidates, by the closed form alone.

Everything is what a question does: enumerate, need, verdict, order, ladder. Models are published shapes, so that no
file is needed; the chat template is given by hand, because weightless files have none.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.common import Report, percentile
from bench.need_oracle import shape_spec
from muniment_resources.units import GIB
from muniment_runtime.contracts import KvType, ModelSpec, NeedBasis, Pins, Plan, Profile
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.planner.knowledge import Knowledge
from muniment_runtime.planner.needs import Needs
from muniment_runtime.planner.plan import default_margin, make_plan

__all__ = ["LEAST_CANDIDATES", "plan_once", "planned", "planner_specs"]

LEAST_CANDIDATES = 500
_SHAPES = ("qwen2.5-7b", "qwen3-4b", "gemma3-4b")
_NEEDED_TOKENS = 8192
_LEAST_TOKENS = 1024
_AVAILABLE_BYTES = 6 * GIB
_RUNS = 200
_QUICK_RUNS = 40
_FIRST_THREADS = 2


def planner_specs() -> list[ModelSpec]:
    """Return models of several families and sizes that may chat."""
    with tempfile.TemporaryDirectory(prefix="muniment-bench-") as folder:
        return [replace(shape_spec(name, Path(folder)), template="chatml") for name in _SHAPES]


def plan_once(specs: Sequence[ModelSpec], needs: Needs, threads: int = _FIRST_THREADS) -> Plan:
    """Plan a batch task: every model, all contexts from the least to the needed, all batches, both cache types."""
    headroom = what_if(_AVAILABLE_BYTES)
    return make_plan(
        specs,
        headroom,
        Profile.BATCH,
        Pins(),
        _NEEDED_TOKENS,
        default_margin(headroom),
        threads=threads,
        least_context=_LEAST_TOKENS,
        knowledge=Knowledge(measured_kv=frozenset({KvType.Q8_0})),
        needs=needs,
    )


def planned(report: Report, *, quick: bool) -> None:
    """Time the plan and add the figures.

    The key figure computes each candidate's need anew for models that are already prepared, as at the first question
    of a kind; every run asks for another number of threads, which changes no need but makes all configurations new.
    Beside it: the first plan of a process, which prepares the models too, and a repeated one.
    """
    specs = planner_specs()
    runs = _QUICK_RUNS if quick else _RUNS
    shared = Needs()
    plan = plan_once(specs, shared)
    count = len(plan.candidates)
    if count < LEAST_CANDIDATES or any(item.need.basis is not NeedBasis.FORMULA for item in plan.candidates):
        report.notes.append(f"plan of {count} candidates is too small to be timed")
        return
    threads = iter(range(_FIRST_THREADS + 1, _FIRST_THREADS + 1 + runs))
    kinds: tuple[tuple[str, int, Callable[[], Plan]], ...] = (
        ("plan_ms_formula_500", runs, lambda: plan_once(specs, shared, next(threads))),
        ("plan_ms_formula_500_repeated", runs, lambda: plan_once(specs, shared)),
        ("plan_ms_formula_500_first", max(30, runs // 4), lambda: plan_once(specs, Needs())),
    )
    for key, wanted, once in kinds:
        times_ms: list[float] = []
        for _ in range(wanted):
            started = time.perf_counter()
            once()
            times_ms.append((time.perf_counter() - started) * 1000)
        report.add(key, statistics.median(times_ms), wanted)
        if key == "plan_ms_formula_500":
            report.add(f"{key}_p95", percentile(times_ms, 95), wanted)
    report.add("plan_candidates", count, 1)
    fitting = sum(item.fits for item in plan.candidates)
    report.notes.append(f"plan: {count} candidates of {len(specs)} models, {fitting} fit")

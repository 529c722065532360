"""Time of a plan with dry runs: the real models, nothing remembered, a probe worker that runs.

What a person waits for at the first question after a model was added. Beside it the same with a worker that must be
started first, as in a fresh process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.common import Report, percentile
from muniment_app.services.measurements import Measurements
from muniment_app.services.plan import LocalPlanService
from muniment_app.services.trials import Trials
from muniment_resources.units import GIB
from muniment_runtime.backends.prober import Prober
from muniment_runtime.contracts import ModelSpec, NeedBasis, Plan, Profile
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.worker.spawn import ProcessSpawner

__all__ = ["tried"]

_RUNS = 20
_QUICK_RUNS = 8
_AVAILABLE_BYTES = 12 * GIB
_THREADS = 2


def _plan(specs: Sequence[ModelSpec], prober: Prober, folder: Path) -> tuple[Plan, float]:
    """Return a plan made with an empty memory, and its milliseconds."""
    trials = Trials(Measurements(folder / "facts.json", "bench"), prober, _THREADS)
    service = LocalPlanService(
        lambda: specs, FixedProbe(what_if(_AVAILABLE_BYTES)), lambda: None, trials=trials, threads=_THREADS
    )
    started = time.perf_counter()
    plan = service.plan(Profile.BATCH)
    return plan, (time.perf_counter() - started) * 1000


def tried(specs: Sequence[ModelSpec], report: Report, *, quick: bool) -> None:
    """Time plans over the real models and add the figures."""
    usable = [replace(spec, template=spec.template or "chatml") for spec in specs]
    if not usable:
        report.notes.append("no model file: plans with dry runs were left out")
        return
    runs = _QUICK_RUNS if quick else _RUNS
    spawner = ProcessSpawner()
    cold_ms: list[float] = []
    warm_ms: list[float] = []
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="muniment-bench-") as name:
            folder = Path(name)
            prober = Prober(spawner)
            try:
                # The worker runs and knows no file of this plan: another one was asked about before.
                other = replace(usable[-1], sha256=f"{number:064}")
                _, cold = _plan([other], prober, folder / "first")
                plan, warm = _plan(usable, prober, folder / "second")
            finally:
                prober.close()
        if plan.choice is None or plan.choice.need.basis is not NeedBasis.ORACLE:
            report.notes.append("no dry run was possible, so its time was left out")
            return
        cold_ms.append(cold)
        warm_ms.append(warm)
    report.add("plan_ms_with_oracle", statistics.median(warm_ms), runs)
    report.add("plan_ms_with_oracle_p95", percentile(warm_ms, 95), runs)
    report.add("plan_ms_with_oracle_cold_worker", statistics.median(cold_ms), runs)

"""Memory truth: the planner's need against the library's dry run and against real loads, free wins, planning time.

Parts: ``need_oracle`` (closed form against dry runs), ``need_loads`` (real loads at full depth), ``need_wins`` (peak
beside the high-level class), ``need_planner`` and ``need_trials`` (time of a plan, without and with dry runs),
``need_replay`` (decisions read back from their record). Real loads read the catalogue's files from the folder that
``MUNIMENT_MODEL_CACHE`` names.
"""

from __future__ import annotations

import sys

from bench.common import Report, Settings, run
from bench.need_loads import measured_loads
from bench.need_models import catalogue_specs
from bench.need_oracle import compared
from bench.need_planner import planned
from bench.need_replay import replayed
from bench.need_trials import tried
from bench.need_wins import measured_wins

__all__ = ["measure"]


def measure(settings: Settings, report: Report) -> None:
    """Take the samples."""
    # First, while nothing else of ours has run: times come before what fills the memory.
    planned(report, quick=settings.quick)
    specs = catalogue_specs(report)
    tried(specs, report, quick=settings.quick)
    replayed(report, quick=settings.quick)
    compared(report)
    if sys.platform != "linux":
        report.notes.append("resident memory is read from Linux's /proc: real loads and free wins were left out")
        return
    measured_wins(specs, report, quick=settings.quick)
    measured_loads(specs, report, quick=settings.quick)


if __name__ == "__main__":
    raise SystemExit(run("need", measure, ("llama-cpp-python",)))

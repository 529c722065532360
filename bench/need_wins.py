"""Peak memory of our engine beside that of the binding's high-level class at its defaults.

Same file, context, threads and tokens; the sides take turns, each in a fresh process. The context is what the model
was trained for, at most 32,768.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.common import Report
from bench.need_models import THREADS, ChildFailed, run_child
from muniment_resources.units import MIB
from muniment_runtime.contracts import ModelSpec

__all__ = ["Pair", "measured_wins", "short_name"]

_CONTEXT = 32768
_PROMPT_TOKENS = 2000
_PAIRS = 3
_GEMMA_KEY = "peak_vs_default_gemma_32k"


@dataclass(frozen=True)
class Pair:
    """What one process of ours and one of the other took, in bytes."""

    ours: Mapping[str, int]
    default: Mapping[str, int]

    def ratio(self, what: str) -> float:
        """Return ours divided by theirs."""
        return self.ours[what] / self.default[what]


def short_name(model_id: str) -> str:
    """Return a model's name as part of a key: family and size, without the rest."""
    name = re.sub(r"-(instruct|q\d.*)", "", model_id)
    return re.sub(r"\W+", "_", name)


def measured_wins(specs: Sequence[ModelSpec], report: Report, *, quick: bool) -> None:
    """Measure every model, print a line for each process, add the medians of the ratios."""
    for spec in specs:
        if quick and spec.architecture != "gemma3":
            continue
        context = min(_CONTEXT, spec.context_train)
        pairs = _pairs(spec, context, 1 if quick else _PAIRS, report)
        if not pairs:
            continue
        name = short_name(spec.model_id)
        peak = statistics.median(pair.ratio("peak_bytes") for pair in pairs)
        report.add(f"peak_vs_default_{name}", peak, len(pairs))
        anonymous = statistics.median(pair.ratio("anonymous_bytes") for pair in pairs)
        report.add(f"anonymous_vs_default_{name}", anonymous, len(pairs))
        if spec.architecture == "gemma3" and context == _CONTEXT:
            report.add(_GEMMA_KEY, peak, len(pairs))
        ours = statistics.median(pair.ours["peak_bytes"] for pair in pairs) / MIB
        default = statistics.median(pair.default["peak_bytes"] for pair in pairs) / MIB
        report.notes.append(f"peak of {name} at {context} tokens: ours {ours:.0f} MiB, defaults {default:.0f} MiB")
    if quick:
        report.notes.append("free wins: the model with sliding windows alone, one pair (--quick)")


def _pairs(spec: ModelSpec, context: int, count: int, report: Report) -> list[Pair]:
    pairs: list[Pair] = []
    for number in range(count):
        sides: dict[str, dict[str, Any]] = {}
        # Who begins changes, so that neither always finds the file in memory.
        for side in ("ours", "default") if number % 2 == 0 else ("default", "ours"):
            try:
                told = run_child("bench.need_peak_child", side, spec.path, context, _PROMPT_TOKENS, THREADS)
            except ChildFailed as error:
                report.notes.append(f"{spec.model_id} {side} at {context} tokens: not measured, {error}")
                return pairs
            sides[side] = told
            print(
                f"{spec.model_id} context {told['context']} {side}: peak {told['peak_bytes'] / MIB:.1f} MiB, at the "
                f"end anonymous {told['anonymous_bytes'] / MIB:.1f}, file {told['file_bytes'] / MIB:.1f}",
                file=sys.stderr,
                flush=True,
            )
        pairs.append(Pair(sides["ours"], sides["default"]))
    return pairs

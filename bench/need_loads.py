"""Real loads at full depth against the planner's need.

One fresh process a load, through the production engine: load, reach full depth, measure. What is measured is all that
the process holds resident, private and file-backed: the need counts the process itself as well (``base_bytes``).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.common import Report
from bench.need_models import THREADS, ChildFailed, run_child
from muniment_resources.units import MIB
from muniment_runtime.contracts import KvType, ModelSpec, RunConfig
from muniment_runtime.planner.need import NeedModel, ubatch_tokens

__all__ = ["Load", "configurations", "error_ratio", "measured_loads"]

_CONTEXTS = (2048, 8192, 32768)
_EVALUATED = "evaluated"
_RESTORED = "restored"
_FALLBACK_CONTEXT = 8192
"""Longest context whose every token is evaluated when the library refuses a lengthened state."""
_SMALL_BYTES = 300 * MIB


@dataclass(frozen=True)
class Load:
    """One measured load in bytes."""

    config: RunConfig
    need_bytes: int
    anonymous_bytes: int
    file_bytes: int
    method: str
    depth_s: float

    @property
    def measured_bytes(self) -> int:
        """Everything resident."""
        return self.anonymous_bytes + self.file_bytes

    @property
    def ratio(self) -> float:
        """See ``error_ratio``."""
        return error_ratio(self.measured_bytes, self.need_bytes)

    def words(self) -> str:
        """One line."""
        config = self.config
        return (
            f"{config.model_id} context {config.context} {config.kv_type} x{config.sequences} "
            f"{'mapped' if config.mmap else 'read'}: need {self.need_bytes / MIB:.1f} MiB, anonymous "
            f"{self.anonymous_bytes / MIB:.1f}, file {self.file_bytes / MIB:.1f}, ratio {self.ratio:.2f} "
            f"({(self.measured_bytes - self.need_bytes) / MIB:+.1f} MiB, {self.method} in {self.depth_s:.0f} s)"
        )


def error_ratio(measured_bytes: int, need_bytes: int) -> float:
    """Return the error in units of what is allowed: 3 % of the need and 16 MiB; at most 1 is good."""
    return abs(measured_bytes - need_bytes) / (0.03 * need_bytes + 16 * MIB)


def configurations(spec: ModelSpec, *, quick: bool) -> Iterator[RunConfig]:
    """Yield the loads of one model; the quick ones touch every value of every setting at least once."""
    trained = [context for context in _CONTEXTS if context <= spec.context_train]
    for context, kv_type, sequences, mapped in itertools.product(
        trained, (KvType.F16, KvType.Q8_0), (1, 4), (True, False)
    ):
        config = RunConfig(spec.model_id, context, kv_type, sequences, mmap=mapped, threads=THREADS)
        if not quick or _is_quick(spec, config):
            yield config


def _is_quick(spec: ModelSpec, config: RunConfig) -> bool:
    settings = (config.context, config.kv_type, config.sequences, config.mmap)
    return spec.file_bytes < _SMALL_BYTES and settings in {
        (2048, KvType.F16, 1, True),
        (2048, KvType.Q8_0, 4, False),
        (8192, KvType.F16, 4, True),
        (32768, KvType.F16, 1, False),
        (32768, KvType.F16, 4, True),
    }


def measured_loads(specs: Sequence[ModelSpec], report: Report, *, quick: bool) -> None:
    """Measure all loads, print a line for each, add the figures; then hold the quick way to full depth to the slow."""
    loads: list[Load] = []
    for spec in specs:
        model = NeedModel(spec)
        for config in configurations(spec, quick=quick):
            load = _load(spec, model, config, report)
            if load is not None:
                print(load.words(), file=sys.stderr, flush=True)
                loads.append(load)
    if not loads:
        return
    worst = max(loads, key=lambda load: load.ratio)
    report.add("resident_error_worst_ratio", worst.ratio, len(loads))
    report.notes.append(f"worst load: {worst.words()}")
    for mapped in (True, False):
        ours = [load.ratio for load in loads if load.config.mmap is mapped]
        if ours:
            report.add(f"resident_error_worst_ratio_{'mapped' if mapped else 'read'}", max(ours), len(ours))
    restored = {load.config: load for load in loads if load.method == _RESTORED}
    differences = list(_method_differences(specs, restored, report, quick=quick))
    if differences:
        report.add("depth_method_difference_mib_max", max(differences), len(differences))
    left_out = [spec.model_id for spec in specs if max(_CONTEXTS) > spec.context_train]
    if left_out:
        report.notes.append(f"not trained for {max(_CONTEXTS)} tokens, measured below: {', '.join(left_out)}")


def _load(spec: ModelSpec, model: NeedModel, config: RunConfig, report: Report) -> Load | None:
    try:
        told = _child(spec, config, _RESTORED)
        if told["method"] != _RESTORED and config.context <= _FALLBACK_CONTEXT:
            told = _child(spec, config, _EVALUATED)
    except ChildFailed as error:
        report.notes.append(f"{config}: not measured, {error}")
        return None
    if told["method"] not in (_RESTORED, _EVALUATED):
        report.notes.append(f"{config}: not measured, the library refused the lengthened state")
        return None
    if told["context"] != config.context or told["sequences"] != config.sequences:
        report.notes.append(f"{config}: the library made {told['sequences']} x {told['context']} of it")
    anonymous, file = told["deep"]
    return Load(config, model.need(config).total_bytes, anonymous, file, str(told["method"]), float(told["depth_s"]))


def _child(spec: ModelSpec, config: RunConfig, method: str) -> dict[str, Any]:
    # One full batch, and more than the window holds: see ``need_state.lengthened``.
    window = max(layer.window for layer in spec.layers)
    beginning = max(ubatch_tokens(config), window + 256 if window else 0)
    return run_child(
        "bench.need_child",
        spec.path,
        config.context,
        config.kv_type,
        config.sequences,
        int(config.mmap),
        config.threads,
        beginning,
        method,
    )


def _method_differences(
    specs: Sequence[ModelSpec], restored: dict[RunConfig, Load], report: Report, *, quick: bool
) -> Iterator[float]:
    """Yield in MiB how far the memory after a restored depth lies from that after evaluating every token."""
    for spec in specs:
        for context in (2048, 8192):
            config = RunConfig(spec.model_id, context, threads=THREADS)
            if config not in restored or (spec.file_bytes > _SMALL_BYTES and context > 2048):
                continue
            if quick and spec is not specs[0]:
                continue
            try:
                anonymous, file = _child(spec, config, _EVALUATED)["deep"]
            except ChildFailed as error:
                report.notes.append(f"{config}: no second way to full depth, {error}")
                continue
            difference = (anonymous + file - restored[config].measured_bytes) / MIB
            print(f"{spec.model_id} context {context}: all tokens evaluated {difference:+.2f} MiB", file=sys.stderr)
            yield abs(difference)

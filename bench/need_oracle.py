"""The closed form against the library's own dry run, over shapes of published models without weights."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import Report, percentile
from muniment_resources.errors import KnownError
from muniment_resources.units import MIB
from muniment_runtime.backends.prober import Prober
from muniment_runtime.contracts import KvType, ModelSpec, Need, OracleSizes, RunConfig
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.skeleton import write_shape
from muniment_runtime.model.spec import model_spec
from muniment_runtime.planner.need import NeedModel, kv_fits_type
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers.shapes import SHAPES

__all__ = ["Difference", "compared", "configurations", "difference", "shape_spec"]

_CONTEXTS = (1000, 4096, 20_000)
_UBATCHES = (64, 512)
_STREAMS = ((1, False), (4, False), (4, True))
_CACHES = ((True, KvType.F16), (True, KvType.Q8_0), (True, KvType.Q4_0), (False, KvType.F16))


@dataclass(frozen=True)
class Difference:
    """What lies between the closed form and the library for one configuration.

    Attributes:
        cache_mib: Larger difference of cache and recurrent state. The library tells each to 0.01 MiB.
        total_percent: Of weights, cache, state, temporary tensors and output together, signed: above 0 when the
            closed form asks for more.
        compute_percent: Of the temporary tensors alone.
    """

    config: RunConfig
    cache_mib: float
    total_percent: float
    compute_percent: float


def shape_spec(name: str, folder: Path) -> ModelSpec:
    """Write a weightless file of a shape and return what our reader makes of it."""
    path = write_shape(SHAPES[name](), folder / f"{name}.gguf")
    if path is None:
        raise RuntimeError("this file system keeps no holes: a file without weights would fill the disk")
    return model_spec(read_header(path), model_id=name, path=path, sha256=name)


def configurations(spec: ModelSpec) -> Iterator[RunConfig]:
    """Yield every combination that the model can run; copies of weights are left out, as in a dry run."""
    contexts = sorted({min(context, spec.context_train) for context in _CONTEXTS})
    for context, ubatch, (sequences, unified), (flash, kv_type) in itertools.product(
        contexts, _UBATCHES, _STREAMS, _CACHES
    ):
        if kv_fits_type(spec, kv_type) and not (spec.single_sequence and sequences > 1):
            yield RunConfig(
                spec.model_id,
                context,
                kv_type,
                sequences,
                ubatch=ubatch,
                flash_attention=flash,
                unified=unified,
                repack=False,
            )


def difference(config: RunConfig, need: Need, sizes: OracleSizes) -> Difference:
    """Compare one closed form with one dry run."""
    told = (
        sizes.weights_bytes + sizes.kv_bytes + sizes.recurrent_bytes + sizes.compute_bytes + sizes.output_bytes
    )  # fmt: skip
    ours = need.weights_bytes + need.kv_bytes + need.recurrent_bytes + need.compute_bytes + need.output_bytes
    return Difference(
        config,
        max(abs(need.kv_bytes - sizes.kv_bytes), abs(need.recurrent_bytes - sizes.recurrent_bytes)) / MIB,
        100 * (ours - told) / told,
        100 * (need.compute_bytes - sizes.compute_bytes) / sizes.compute_bytes,
    )


def compared(report: Report) -> None:
    """Compare all shapes, print a row for each, and add the figures."""
    found: list[Difference] = []
    shapes = 0
    print(f"{'shape':18} {'configs':>7} {'KV MiB':>8} {'total p95':>9} {'max':>7} {'compute':>15}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="muniment-bench-") as folder:
        prober = Prober(ProcessSpawner())
        try:
            for name in SHAPES:
                spec = shape_spec(name, Path(folder))
                if not spec.supported:
                    report.notes.append(f"{name}: no closed form for {spec.architecture}, dry run only")
                    continue
                ours = _shape(spec, prober, report)
                if ours:
                    shapes += 1
                    found += ours
                    _row(name, ours)
        finally:
            prober.close()
    if not found:
        report.notes.append("no shape could be compared with the library")
        return
    totals = [abs(item.total_percent) for item in found]
    n = len(found)
    report.add("shapes", shapes, n)
    report.add("configurations", n, n)
    report.add("kv_error_mib_max", max(item.cache_mib for item in found), n)
    report.add("total_error_pct_p50", percentile(totals, 50), n)
    report.add("total_error_pct_p95", percentile(totals, 95), n)
    report.add("total_error_pct_max", max(totals), n)
    worst = max(found, key=lambda item: abs(item.total_percent))
    report.notes.append(f"worst total {worst.total_percent:+.2f} %: {_words(worst.config)}")


def _shape(spec: ModelSpec, prober: Prober, report: Report) -> list[Difference]:
    configs = list(configurations(spec))
    model = NeedModel(spec)
    found: list[Difference] = []
    refused: list[str] = []
    for config, sizes in zip(configs, prober.sizes(spec, configs), strict=True):
        if isinstance(sizes, KnownError):
            refused.append(f"{sizes.code} {_words(config)}")
        else:
            found.append(difference(config, model.need(config), sizes))
    if refused:
        report.notes.append(f"{spec.model_id}: {len(refused)} configurations without a dry run, first: {refused[0]}")
    return found


def _row(name: str, found: Sequence[Difference]) -> None:
    totals = [abs(item.total_percent) for item in found]
    compute = [item.compute_percent for item in found]
    print(
        f"{name:18} {len(found):7} {max(item.cache_mib for item in found):8.4f} {percentile(totals, 95):8.2f}% "
        f"{max(totals):6.2f}% {min(compute):+6.1f}..{max(compute):+.1f}%",
        file=sys.stderr,
        flush=True,
    )


def _words(config: RunConfig) -> str:
    return (
        f"{config.model_id} context {config.context} {config.kv_type} x{config.sequences} ubatch {config.ubatch} "
        f"{'unified' if config.unified else 'split'} {'flash' if config.flash_attention else 'no flash'}"
    )

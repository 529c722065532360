"""Enumerates the configurations worth looking at. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_runtime.contracts import KvType, ModelSpec, Pins, Profile, RunConfig
from muniment_runtime.planner.need import CONTEXT_STEP, padded

__all__ = ["CONTEXTS", "UBATCHES", "configurations", "contexts", "smallest"]

CONTEXTS = (2048, 4096, 8192)
# Never below 64: the fast attention path of the CPU backend needs that many query rows (9 times slower at 32).
UBATCHES = (512, 256, 128, 64)
_BATCH = 512
_SEQUENCES = {Profile.REALTIME: (1,), Profile.BATCH: (4, 2, 1), Profile.EXTRACTION: (1,)}


def contexts(spec: ModelSpec, pins: Pins, needed_context: int) -> list[int]:
    """Return the contexts to try, smallest first; never fewer tokens than the task needs, unless pinned.

    A need above what the model was trained for gives that context alone, so that the refusal can be explained.
    """
    if pins.context is not None:
        return [pins.context]
    if needed_context > spec.context_train:
        return [padded(needed_context, CONTEXT_STEP)]
    fitting = {min(context, spec.context_train) for context in CONTEXTS if context >= needed_context}
    return sorted(fitting) or [min(padded(needed_context, CONTEXT_STEP), spec.context_train)]


def configurations(spec: ModelSpec, profile: Profile, pins: Pins, needed_context: int, threads: int) -> list[RunConfig]:
    """Return the configurations of one model.

    Flash attention is on for all: safe with these cache types and physical batches of at least 64, and it saves GiBs at
    long contexts. A quantized cache is enumerated once per context: no size of batch changes its verdict before it was
    measured.
    """
    sequences: Sequence[int] = (pins.sequences,) if pins.sequences is not None else _SEQUENCES[profile]
    found: list[RunConfig] = []
    for context in contexts(spec, pins, needed_context):
        for kv_type in (pins.kv_type,) if pins.kv_type is not None else tuple(KvType):
            full = kv_type is KvType.F16 or pins.kv_type is not None
            for count in sequences if full else sequences[-1:]:
                found.extend(
                    RunConfig(
                        model_id=spec.model_id,
                        context=context,
                        kv_type=kv_type,
                        sequences=count,
                        batch=_BATCH,
                        ubatch=ubatch,
                        threads=threads,
                    )
                    for ubatch in (UBATCHES if full else UBATCHES[:1])
                )
    return found


def smallest(spec: ModelSpec, pins: Pins, needed_context: int, threads: int) -> RunConfig:
    """Return one configuration that stands for a model which a rule excludes as a whole."""
    return RunConfig(
        model_id=spec.model_id,
        context=contexts(spec, pins, needed_context)[0],
        kv_type=pins.kv_type or KvType.F16,
        sequences=pins.sequences or 1,
        batch=_BATCH,
        ubatch=UBATCHES[0],
        threads=threads,
    )

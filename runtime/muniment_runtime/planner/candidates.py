"""Enumerates the configurations worth looking at. Pure and deterministic."""

from __future__ import annotations

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
    long contexts. A quantized cache that nobody pinned gives one configuration a model: neither context nor batch
    changes its verdict before it was measured.
    """
    sequences = _SEQUENCES[profile] if pins.sequences is None else (pins.sequences,)
    tried = contexts(spec, pins, needed_context)

    def at(context: int, kv_type: KvType, count: int, ubatch: int) -> RunConfig:
        return RunConfig(
            model_id=spec.model_id,
            context=context,
            kv_type=kv_type,
            sequences=count,
            batch=_BATCH,
            ubatch=ubatch,
            threads=threads,
        )

    found = [
        at(context, pins.kv_type or KvType.F16, count, ubatch)
        for context in tried
        for count in sequences
        for ubatch in UBATCHES
    ]
    if pins.kv_type is None:
        found.append(at(tried[0], KvType.Q8_0, sequences[-1], UBATCHES[0]))
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

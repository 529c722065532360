"""Enumerates the configurations worth looking at. Pure and deterministic."""

from __future__ import annotations

from muniment_runtime.contracts import KvType, ModelSpec, Pins, Profile, RunConfig
from muniment_runtime.planner.demand import CONTEXTS, context_for
from muniment_runtime.planner.need import CONTEXT_STEP, padded

__all__ = ["UBATCHES", "configurations", "contexts", "smallest"]

# Never below 64: the fast attention path of the CPU backend needs that many query rows (9 times slower at 32).
UBATCHES = (512, 256, 128, 64)
_BATCH = 512
_SEQUENCES = {Profile.REALTIME: (1,), Profile.BATCH: (4, 2, 1), Profile.EXTRACTION: (1,)}


def contexts(spec: ModelSpec, pins: Pins, needed_context: int, least_context: int) -> list[int]:
    """Return the contexts to try, the wanted one first, then shorter ones that leave passages out.

    The wanted context is the smallest step that holds what the task needs, or all that the model was trained for when
    that is less; never below ``least_context``, unless pinned. A model that was trained for less than the least gives
    that context alone, so that the refusal can be explained.
    """
    if pins.context is not None:
        return [pins.context]
    if least_context > spec.context_train:
        return [padded(least_context, CONTEXT_STEP)]
    wanted = min(context_for(needed_context), spec.context_train)
    return [wanted, *(context for context in reversed(CONTEXTS) if least_context <= context < wanted)]


def configurations(
    spec: ModelSpec,
    profile: Profile,
    pins: Pins,
    needed_context: int,
    least_context: int,
    threads: int,
    measured_kv: frozenset[KvType] = frozenset(),
) -> list[RunConfig]:
    """Return the configurations of one model.

    Flash attention is on for all: safe with these cache types and physical batches of at least 64, it saves GiBs at
    long contexts, and a quantized cache cannot do without. A quantized cache that was neither pinned nor allowed by a
    measurement gives one configuration a model: neither context nor batch changes its verdict.
    """
    sequences = _SEQUENCES[profile] if pins.sequences is None else (pins.sequences,)
    if spec.single_sequence and pins.sequences is None:
        sequences = (1,)
    tried = contexts(spec, pins, needed_context, least_context)
    if pins.kv_type is not None:
        types: tuple[KvType, ...] = (pins.kv_type,)
    else:
        types = (KvType.F16, *((KvType.Q8_0,) if KvType.Q8_0 in measured_kv else ()))
    model_id = spec.model_id
    found = [
        RunConfig(model_id, context, kv_type, count, _BATCH, ubatch, threads=threads)
        for kv_type in types
        for context in tried
        for count in sequences
        for ubatch in UBATCHES
    ]
    if pins.kv_type is None and KvType.Q8_0 not in measured_kv:
        found.append(RunConfig(model_id, tried[0], KvType.Q8_0, sequences[-1], _BATCH, UBATCHES[0], threads=threads))
    return found


def smallest(spec: ModelSpec, pins: Pins, least_context: int, threads: int) -> RunConfig:
    """Return one configuration that stands for a model which a rule excludes as a whole."""
    return RunConfig(
        model_id=spec.model_id,
        context=contexts(spec, pins, least_context, least_context)[0],
        kv_type=pins.kv_type or KvType.F16,
        sequences=pins.sequences or 1,
        batch=_BATCH,
        ubatch=UBATCHES[0],
        threads=threads,
    )

"""Plans as JSON: the shape of ``plan --json``, and a record for the audit log that replays to the same choice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Candidate, Headroom, ModelSpec, Need, Pins, Plan, Prediction, Profile, RunConfig
from muniment_runtime.headroom.chain import split_name
from muniment_runtime.planner.plan import RULES, microseconds
from muniment_runtime.planner.rank import Entry, choose, rungs
from muniment_runtime.planner.residual import Residual, ResidualKey

__all__ = ["Replayed", "decision_record", "headroom_json", "plan_json", "replay"]

_RECORD_VERSION = 2
_NO_CODE = re.compile(r"[^A-Za-z0-9._:+=%,-]+")
_NEED_LINES = (
    "weights_bytes",
    "kv_bytes",
    "recurrent_bytes",
    "compute_bytes",
    "output_bytes",
    "base_bytes",
    "residual_bytes",
)


class Replayed(NamedTuple):
    """What the recorded numbers lead to: the index of the choice and those of the rungs below it."""

    chosen: int | None
    ladder: tuple[int, ...]


def plan_json(plan: Plan, learned: Mapping[ResidualKey, Residual] | None = None) -> dict[str, object]:
    """Return the object that ``plan --json`` prints; ``chosen`` is a candidate or ``None``, the ladder candidates.

    Args:
        plan: The plan.
        learned: How far earlier loads were off.
    """
    candidates = [_candidate_json(candidate) for candidate in plan.candidates]
    return {
        "profile": str(plan.profile),
        "headroom": headroom_json(plan.headroom),
        "margin_bytes": plan.margin_bytes,
        "needed_context": plan.needed_context,
        "pins": _pins(plan.pins),
        "candidates": candidates,
        "chosen": None if plan.chosen is None else candidates[plan.chosen],
        "unblock_bytes": plan.unblock_bytes,
        "ladder": [candidates[index] for index in plan.ladder],
        "learned": [
            {
                "architecture": key.architecture,
                "backend": key.backend,
                "system": key.system,
                "loads": residual.samples,
                "typical_bytes": residual.typical_bytes,
                "high_bytes": residual.high_bytes,
            }
            for key, residual in sorted((learned or {}).items())
        ],
    }


def headroom_json(headroom: Headroom) -> dict[str, object]:
    """Return the headroom with every limit, signal and device; ``binding`` names a limit."""
    return {
        "available_bytes": headroom.available_bytes,
        "limits": [{"name": limit.name, "bytes": limit.bytes} for limit in headroom.limits],
        "binding": headroom.binding,
        "pressure": str(headroom.pressure),
        "signals": [{"name": signal.name, "value": signal.value} for signal in headroom.signals],
        "devices": [{"name": limit.name, "bytes": limit.bytes} for limit in headroom.device_limits],
    }


def _pins(pins: Pins) -> dict[str, object]:
    """Return what is pinned; what is free is left out."""
    values: dict[str, object] = {
        "model": pins.model_id,
        "context": pins.context,
        "sequences": pins.sequences,
        "kv_type": None if pins.kv_type is None else str(pins.kv_type),
    }
    pinned = {name: value for name, value in values.items() if value is not None}
    # Insisting on nothing means nothing, so it is not recorded either.
    return {**pinned, "override": 1} if pinned and pins.override else pinned


def _candidate_json(candidate: Candidate) -> dict[str, object]:
    config, formula = candidate.config, candidate.formula
    return {
        "model": config.model_id,
        "quantization": candidate.quantization,
        "context": config.context,
        "kv_type": str(config.kv_type),
        "sequences": config.sequences,
        "ubatch": config.ubatch,
        "flash_attention": config.flash_attention,
        "need": _need_json(candidate.need),
        "formula": None if formula is None else _need_json(formula),
        "prediction": _prediction_json(candidate.prediction),
        "fits": candidate.fits,
        "reason": candidate.reason,
        "missing_bytes": candidate.reason_params.get("missing_bytes", 0),
    }


def _prediction_json(prediction: Prediction) -> dict[str, object]:
    """Return the prediction, to the microsecond: it is a guess."""
    return {
        name: round(value, 6) if isinstance(value, float) else value for name, value in prediction._asdict().items()
    }


def _need_json(need: Need) -> dict[str, object]:
    return {**_need_lines(need), "total_bytes": need.total_bytes, "basis": str(need.basis)}


def _need_lines(need: Need) -> dict[str, int]:
    return {
        "weights_bytes": need.weights_bytes,
        "kv_bytes": need.kv_bytes,
        "recurrent_bytes": need.recurrent_bytes,
        "compute_bytes": need.compute_bytes,
        "output_bytes": need.output_bytes,
        "base_bytes": need.base_bytes,
        "residual_bytes": need.residual_bytes,
    }


def decision_record(plan: Plan, specs: Sequence[ModelSpec], running: RunConfig | None = None) -> dict[str, object]:
    """Return everything that went into the choice, with whole numbers and strings only.

    Times are microseconds, so that no float has to survive a canonical encoding; what is unknown or not pinned is left
    out, and ``chosen`` is -1 when nothing fits. Paths are left out: they may name people.
    """
    used = {candidate.config.model_id for candidate in plan.candidates}
    return {
        "version": _RECORD_VERSION,
        "profile": str(plan.profile),
        "headroom": _headroom_record(plan.headroom),
        "margin_bytes": plan.margin_bytes,
        "needed_context": plan.needed_context,
        "pins": _pins(plan.pins),
        "models": [
            {
                "model": spec.model_id,
                "sha256": spec.sha256,
                "architecture": spec.architecture,
                "parameters": spec.parameters,
                "weights_bytes": spec.weights_bytes,
                "context_train": spec.context_train,
            }
            for spec in sorted(specs, key=lambda item: item.model_id)
            if spec.model_id in used
        ],
        "candidates": [_candidate_record(candidate, candidate.config == running) for candidate in plan.candidates],
        "chosen": -1 if plan.chosen is None else plan.chosen,
        "ladder": list(plan.ladder),
        "unblock_bytes": plan.unblock_bytes,
    }


def _headroom_record(headroom: Headroom) -> dict[str, object]:
    """Return the headroom with codes for names: a control group is a path that may name a person, so it is numbered."""
    codes: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for limit in headroom.limits:
        key, detail = split_name(limit.name)
        counts[key] += 1
        codes[limit.name] = f"{key}:{counts[key]}" if detail else key
    return {
        "available_bytes": headroom.available_bytes,
        "total_bytes": headroom.total_bytes,
        "limits": [{"name": codes[limit.name], "bytes": limit.bytes} for limit in headroom.limits],
        "binding": codes.get(headroom.binding, split_name(headroom.binding)[0]),
        "pressure": str(headroom.pressure),
    }


def _code(label: str) -> str:
    """Return a label in the characters that events hold in the clear."""
    return _NO_CODE.sub("_", label).strip("_")


def _candidate_record(candidate: Candidate, running: bool) -> dict[str, object]:
    config, formula = candidate.config, candidate.formula
    return {
        "model": config.model_id,
        "quantization": _code(candidate.quantization),
        "context": config.context,
        "kv_type": str(config.kv_type),
        "sequences": config.sequences,
        "batch": config.batch,
        "ubatch": config.ubatch,
        "flash_attention": int(config.flash_attention),
        "mmap": int(config.mmap),
        "device_layers": config.device_layers,
        "threads": config.threads,
        "running": int(running),
        "need": _need_lines(candidate.need),
        "basis": str(candidate.need.basis),
        **({} if formula is None else {"formula_bytes": formula.total_bytes}),
        "prediction": _prediction_record(candidate.prediction),
        "fits": int(candidate.fits),
        "reason": candidate.reason,
    }


def _prediction_record(prediction: Prediction) -> dict[str, object]:
    fixed = {
        "ttft_us": microseconds(prediction.ttft_s),
        "tpot_us": microseconds(prediction.tpot_s),
        "millitokens_per_s": None if prediction.tokens_per_s is None else round(prediction.tokens_per_s * 1000),
        "quality_ppm": None if prediction.quality is None else round(prediction.quality * 1_000_000),
    }
    known: dict[str, object] = {name: value for name, value in fixed.items() if value is not None}
    return {**known, "basis": prediction.basis}


def replay(record: Mapping[str, object]) -> Replayed:
    """Return the choice that the recorded numbers lead to, computed anew and without looking at the recorded one.

    Raises:
        KnownError: ``E-PLAN-RECORD`` when the record lacks something, holds something else than it should or was
            written under other rules.
    """
    if record.get("version") != _RECORD_VERSION:
        raise KnownError("E-PLAN-RECORD")
    try:
        profile = Profile(_text(record, "profile"))
        available = _whole(_table(record, "headroom"), "available_bytes")
        models = {_text(model, "model"): model for model in _rows(record, "models")}
        needed = _whole(record, "needed_context")
        entries = [_entry(row, models[_text(row, "model")], needed) for row in _rows(record, "candidates")]
        override = _table(record, "pins").get("override") == 1
        choice = choose(profile, entries, available, _whole(record, "margin_bytes"), override)
    except (KeyError, TypeError, ValueError) as error:
        raise KnownError("E-PLAN-RECORD") from error
    return Replayed(choice.chosen, rungs([entry.need_bytes for entry in entries], choice.order))


def _entry(row: Mapping[str, object], model: Mapping[str, object], needed_context: int) -> Entry:
    need = _table(row, "need")
    prediction = _table(row, "prediction")
    need_bytes = sum(_whole(need, line) for line in _NEED_LINES)
    weights_bytes = _whole(model, "weights_bytes")
    context = _whole(row, "context")
    return Entry(
        allowed=_text(row, "reason") not in RULES,
        need_bytes=need_bytes,
        private_bytes=need_bytes - weights_bytes if _whole(row, "mmap") else need_bytes,
        parameters=_whole(model, "parameters"),
        weights_bytes=weights_bytes,
        ttft_us=_whole(prediction, "ttft_us") if "ttft_us" in prediction else None,
        model_id=_text(row, "model"),
        context=context,
        kv_type=_text(row, "kv_type"),
        sequences=_whole(row, "sequences"),
        ubatch=_whole(row, "ubatch"),
        shortfall=max(0, needed_context - context),
        stays=_whole(row, "running") == 1,
    )


def _whole(table: Mapping[str, object], name: str) -> int:
    value = table[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(name)
    return value


def _text(table: Mapping[str, object], name: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _table(table: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = table[name]
    if not isinstance(value, Mapping):
        raise TypeError(name)
    return value


def _rows(table: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = table[name]
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise TypeError(name)
    return value

"""Words and numbers that several cards of the resources page share. Pure functions."""

from __future__ import annotations

from muniment_app.bridge.formats import count, plan_reason, size
from muniment_resources.errors import BugError
from muniment_resources.i18n import Translator
from muniment_resources.units import MIB
from muniment_runtime.contracts import Candidate, NeedBasis, Signal
from muniment_runtime.headroom.chain import split_name

__all__ = [
    "NONE", "RUNNING", "amount", "difference", "limit_name", "limit_text", "model_name", "need_text", "plan_name",
    "reason_text", "signal_text",
]  # fmt: skip

NONE = "–"
"""Stands where there is no figure: never an empty cell, never a zero."""

RUNNING = "running"
"""Reason of a candidate that the plan does not hold and that is shown because it runs now."""

_MINUS = "−"


def amount(value_bytes: int | None, exact: bool) -> str:
    """Return bytes in the one unit of a table, MiB with one decimal, or exactly; a dash for ``None``."""
    if value_bytes is None:
        return NONE
    text = count(abs(value_bytes)) if exact else f"{abs(value_bytes) / MIB:,.1f}"
    return f"{_MINUS}{text}" if value_bytes < 0 else text


def difference(value_bytes: int | None, exact: bool) -> str:
    """Return a difference with its sign, in MiB with two decimals or exactly; a dash for ``None``."""
    if value_bytes is None:
        return NONE
    text = count(abs(value_bytes)) if exact else f"{abs(value_bytes) / MIB:,.2f}"
    if text in ("0", "0.00"):
        return text
    return f"{_MINUS if value_bytes < 0 else '+'}{text}"


def model_name(model_id: str, quantization: str) -> str:
    """Return a model's id without the quantization at its end, where that is shown beside it."""
    for separator in "-._":
        ending = f"{separator}{quantization}"
        if quantization and model_id.lower().endswith(ending.lower()):
            return model_id[: -len(ending)]
    return model_id


def plan_name(translator: Translator, candidate: Candidate) -> str:
    """Return the one line that names a configuration."""
    config = candidate.config
    return translator.text(
        "ui.plan_name",
        model=model_name(config.model_id, candidate.quantization),
        quantization=candidate.quantization,
        context=count(config.context),
        kv=config.kv_type.value,
        n=config.sequences,
    )


def reason_text(translator: Translator, candidate: Candidate) -> str:
    """Return why a candidate was chosen or rejected, or that it is what runs now."""
    if candidate.reason == RUNNING:
        return translator.text("ui.reason_running")
    return plan_reason(translator, candidate.reason, candidate.reason_params)


def need_text(candidate: Candidate) -> str:
    """Return the need of a candidate; ``≈`` marks one that only the formula gives, a dash one that nobody knows."""
    total = candidate.need.total_bytes
    if not total:
        return NONE
    return f"≈ {size(total)}" if candidate.need.basis is NeedBasis.FORMULA else size(total)


def limit_text(translator: Translator, kind: str, name: str, amount_bytes: int) -> str:
    """Return the sentence about a link of the limit chain, or (kind ``binding``) about the one that sets the bound."""
    key, detail = split_name(name)
    shown = size(amount_bytes)
    fallback = translator.text("ui.limit_other", name=name, size=shown)
    return _text(translator, f"plan.{kind}.{key}", fallback, detail=detail, size=shown)


def limit_name(translator: Translator, name: str) -> str:
    """Return the name of a link of the limit chain, short enough for a table."""
    key, detail = split_name(name)
    return _text(translator, f"ui.limit_{key}", name, detail=detail)


def signal_text(translator: Translator, signal: Signal) -> tuple[str, str, str]:
    """Return (short name, value, sentence) of a reading; its unit stands at the end of its name."""
    if signal.name.endswith("_percent"):
        value = f"{signal.value:.1f} %"
    elif signal.name.endswith("_bytes_per_s"):
        value = translator.text("ui.per_second", size=size(round(signal.value)))
    elif signal.name.endswith("_bytes"):
        value = size(round(signal.value))
    else:
        value = f"{signal.value:g}"
    name = _text(translator, f"ui.signal_{signal.name}", signal.name)
    fallback = translator.text("ui.signal", name=name, value=value)
    return name, value, _text(translator, f"plan.signal.{signal.name}", fallback, value=value)


def _text(translator: Translator, key: str, fallback: str, **params: object) -> str:
    """Return a text that another system or a later version may not have put into the catalogue."""
    try:
        return translator.text(key, **params)
    except BugError:
        return fallback

"""A plan in words and bytes: text keys with their values, for the window, the command line and reports alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Candidate, Headroom, Need, NeedBasis, Pins, Plan
from muniment_runtime.headroom.chain import split_name

__all__ = ["Line", "alternatives", "budget", "budget_lines", "explain", "limit_lines", "rejected_lines"]


@dataclass(frozen=True)
class Line:
    """One line: a key of the text catalogue and the values of its placeholders."""

    key: str
    params: Mapping[str, str | int | float] = field(default_factory=dict)


def explain(plan: Plan) -> list[Line]:
    """Return the whole explanation: limits, choice or what is missing, the budget, the forecast, the rejected."""
    lines = limit_lines(plan.headroom)
    lines.append(Line("plan.margin_line", {"margin": format_bytes(plan.margin_bytes)}))
    choice = plan.choice
    if choice is None:
        lines += _blocked(plan)
    else:
        lines.append(Line(f"plan.{choice.reason}", choice.reason_params))
        lines += _context(plan, choice)
        lines += budget_lines(choice.need)
        lines += _basis(choice)
        lines += _forecast(choice)
    return lines + rejected_lines(plan)


def limit_lines(headroom: Headroom) -> list[Line]:
    """Return the limit chain, outermost first, then the link that binds."""
    lines = []
    for limit in headroom.limits:
        key, detail = split_name(limit.name)
        lines.append(Line(f"plan.limit.{key}", {"detail": detail, "size": format_bytes(limit.bytes)}))
    key, detail = split_name(headroom.binding)
    size = format_bytes(headroom.available_bytes)
    return [*lines, Line(f"plan.binding.{key}", {"detail": detail, "size": size})]


def budget(need: Need) -> list[tuple[str, int]]:
    """Return (key, bytes) of each part of the need; parts of zero bytes are left out, the total is last."""
    parts = (
        ("plan.need.weights", need.weights_bytes),
        ("plan.need.kv", need.kv_bytes),
        ("plan.need.recurrent", need.recurrent_bytes),
        ("plan.need.compute", need.compute_bytes),
        ("plan.need.output", need.output_bytes),
        ("plan.need.base", need.base_bytes),
        ("plan.need.residual", need.residual_bytes),
    )
    return [*(part for part in parts if part[1]), ("plan.need.total", need.total_bytes)]


def budget_lines(need: Need) -> list[Line]:
    """Return the need line by line; lines of zero bytes are left out, the total is last."""
    return [Line(key, {"size": format_bytes(size)}) for key, size in budget(need)]


def alternatives(plan: Plan) -> list[Candidate]:
    """Return the candidates that were not chosen and are worth telling about.

    Candidates of one model with the same cache and verdict differ only in context, sequences and the size of their
    steps: one speaks for them, the one that misses least. Smaller steps of the choice itself are no alternatives.
    """
    groups: dict[tuple[str, str, str], Candidate] = {}
    for index, candidate in enumerate(plan.candidates):
        config = candidate.config
        mark = (config.model_id, config.kv_type.value, candidate.reason)
        if index != plan.chosen and (mark not in groups or _missing(candidate) < _missing(groups[mark])):
            groups[mark] = candidate
    if plan.choice is not None:
        config = plan.choice.config
        groups.pop((config.model_id, config.kv_type.value, "not_best"), None)
    return list(groups.values())


def rejected_lines(plan: Plan) -> list[Line]:
    """Return why each of the ``alternatives`` was not chosen, two lines for each."""
    lines: list[Line] = []
    for candidate in alternatives(plan):
        config = candidate.config
        params: dict[str, str | int | float] = {
            "model": config.model_id,
            "context": config.context,
            "kv_type": str(config.kv_type),
        }
        lines += [Line("plan.candidate", params), Line(f"plan.{candidate.reason}", candidate.reason_params)]
    return lines


def _missing(candidate: Candidate) -> int:
    return int(candidate.reason_params.get("missing_bytes", 0))


def _blocked(plan: Plan) -> list[Line]:
    lines = [Line("plan.nothing")]
    if plan.unblock_bytes:
        lines = [Line("plan.nothing_fits", {"missing": format_bytes(plan.unblock_bytes)})]
    for candidate in plan.candidates:
        if candidate.reason == "pinned_out" and candidate.reason_params.get("would_fit") == 1:
            config = candidate.config
            lines.append(
                Line(
                    "plan.would_fit",
                    {
                        "model": config.model_id,
                        "quantization": candidate.quantization,
                        "context": config.context,
                        "need": format_bytes(candidate.need.total_bytes),
                    },
                )
            )
    if plan.pins != Pins() and not plan.pins.override and plan.unblock_bytes:
        lines.append(Line("plan.insist"))
    return lines


def _context(plan: Plan, choice: Candidate) -> list[Line]:
    if plan.pins.context is not None or not plan.needed_context:
        return []
    if choice.config.context < plan.needed_context:
        return [
            Line("plan.context_short", {"needed": plan.needed_context, "context": choice.config.context}),
        ]
    return [Line("plan.context_line", {"needed": plan.needed_context})]


def _basis(choice: Candidate) -> list[Line]:
    if choice.need.basis is NeedBasis.FORMULA:
        lines = [Line("plan.basis.formula")]
    elif choice.formula is None:
        lines = [Line("plan.basis.oracle_only")]
    else:
        lines = [Line("plan.basis.oracle", {"formula": format_bytes(choice.formula.total_bytes)})]
    if choice.need.residual_bytes:
        lines.append(Line("plan.residual_line", {"size": format_bytes(choice.need.residual_bytes)}))
    return lines


def _forecast(candidate: Candidate) -> list[Line]:
    prediction = candidate.prediction
    if prediction.ttft_s is None or prediction.tpot_s is None:
        return []
    params = {"ttft": f"{prediction.ttft_s:.1f}", "tpot_ms": f"{prediction.tpot_s * 1000:.0f}"}
    return [Line(f"plan.forecast.{prediction.basis}", params)]

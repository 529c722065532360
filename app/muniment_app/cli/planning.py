"""The plan command: what would run now and why, every number of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from muniment_app.cli.context import (
    Cli,
    ExitCode,
    context_option,
    json_option,
    model_option,
    override_option,
    profile_option,
)
from muniment_app.cli.headroom import label, limit_table, pressure_text
from muniment_app.cli.table import columns
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes, parse_bytes
from muniment_runtime.contracts import Candidate, KvType, Need, NeedBasis, Pins, Plan, Profile
from muniment_runtime.planner.explain import Line, alternatives, budget, explain, rejected_lines
from muniment_runtime.planner.residual import Residual, ResidualKey
from muniment_runtime.planner.serialize import plan_json

__all__ = ["SIZE", "plan_text", "register"]

_MEMORY = ("plan.limit.", "plan.binding.", "plan.margin_line")
_EXPECTATION = ("plan.forecast.",)
_INDENT = "  "


class _Size(click.ParamType[int]):
    """Bytes, as a number or with a unit such as ``4GiB``."""

    name = "bytes"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = value if isinstance(value, int) else parse_bytes(value)
        if size is None:
            self.fail(f"{value!r}: 1500000000, 1500MiB, 1.5GiB", param, ctx)
        return size


SIZE = _Size()


def plan_text(plan: Plan, translator: Translator, learned: Mapping[ResidualKey, Residual] | None = None) -> list[str]:
    """Return the plan for people: memory, choice, need in bytes, expectation, candidates, and what loads have taught.

    The sentences are those of ``explain``; limits, need and candidates, which are rows, stand in columns.
    """
    rows = {key for key, _ in budget(plan.choice.need)} if plan.choice else set()
    lines = explain(plan)
    lines = [line for line in lines[: len(lines) - len(rejected_lines(plan))] if line.key not in rows]
    expectation = [line for line in lines if line.key.startswith(_EXPECTATION)]
    choice = [line for line in lines if line not in expectation and not line.key.startswith(_MEMORY)]
    sections = {
        "memory": _memory(plan, translator),
        "choice": _sentences(choice, translator),
        "need": _need(plan, plan.choice, translator) if plan.choice else [],
        "expectation": _sentences(expectation, translator),
        "candidates": _candidates(plan, translator),
        "learned": _learned(learned or {}, translator),
    }
    text: list[str] = []
    for name, content in sections.items():
        if content:
            text += ["", translator.text(f"cli.plan.{name}"), *(_INDENT + line for line in content)]
    return text[1:]


def _sentences(lines: Sequence[Line], translator: Translator) -> list[str]:
    return [translator.text(line.key, **line.params) for line in lines]


def _memory(plan: Plan, translator: Translator) -> list[str]:
    headroom = plan.headroom
    rows = limit_table(headroom.limits, translator, headroom.binding)
    margin = label(translator, "plan.margin_line", margin="")
    rows.append((f"  {margin}", format_bytes(plan.margin_bytes), f"{plan.margin_bytes:,}"))
    lines = columns(rows, right=(1, 2))
    if headroom.device_limits:
        lines += columns(limit_table(headroom.device_limits, translator), right=(1, 2))
    return [*lines, *pressure_text(headroom, translator)]


def _need(plan: Plan, choice: Candidate, translator: Translator) -> list[str]:
    tried = choice.need.basis is not NeedBasis.FORMULA
    formula = _by_key(choice.formula) if tried and choice.formula is not None else {}
    heading = [translator.text(f"cli.column.{name}") for name in ("line", "size", "bytes")]
    if formula:
        heading += [translator.text("cli.column.formula")]
    rows = [tuple(heading)]
    for key, size in budget(choice.need):
        row = [label(translator, key, size=""), format_bytes(size), f"{size:,}"]
        if formula:
            row.append(format_bytes(formula[key]) if key in formula else "-")
        rows.append(tuple(row))
    left = plan.headroom.available_bytes - plan.margin_bytes - choice.need.total_bytes
    blank = [""] if formula else []
    margin = plan.margin_bytes
    rows.append(("+ " + translator.text("cli.plan.margin"), format_bytes(margin), f"{margin:,}", *blank))
    rows.append(
        (
            ("<= " if left >= 0 else "> ") + translator.text("cli.plan.headroom"),
            format_bytes(plan.headroom.available_bytes),
            f"{plan.headroom.available_bytes:,}",
            *blank,
        )
    )
    return columns(rows, right=(1, 2, 3))


def _by_key(need: Need) -> dict[str, int]:
    return dict(budget(need))


def _candidates(plan: Plan, translator: Translator) -> list[str]:
    candidates = [*([plan.choice] if plan.choice else []), *alternatives(plan)]
    names = ("model", "quantization", "context", "kv_type", "sequences", "need", "first_word", "verdict")
    heading = tuple(translator.text(f"cli.column.{name}") for name in names)
    rows = [_row(candidate, translator) for candidate in candidates]
    return columns([heading, *rows], right=(2, 4, 5, 6)) if rows else []


def _learned(residuals: Mapping[ResidualKey, Residual], translator: Translator) -> list[str]:
    heading = tuple(translator.text(f"cli.column.{name}") for name in ("architecture", "loads", "typical", "high"))
    rows = [
        (
            f"{key.architecture}, {key.backend}, {key.system}",
            str(residual.samples),
            _signed(residual.typical_bytes),
            _signed(residual.high_bytes),
        )
        for key, residual in sorted(residuals.items())
    ]
    return columns([heading, *rows], right=(1, 2, 3)) if rows else []


def _signed(size_bytes: int) -> str:
    return f"+{format_bytes(size_bytes)}" if size_bytes > 0 else format_bytes(size_bytes)


def _row(candidate: Candidate, translator: Translator) -> tuple[str, ...]:
    config, need_bytes, ttft_s = candidate.config, candidate.need.total_bytes, candidate.prediction.ttft_s
    return (
        config.model_id,
        candidate.quantization,
        str(config.context),
        config.kv_type.value,
        str(config.sequences),
        format_bytes(need_bytes) if need_bytes else "-",
        "-" if ttft_s is None else f"~{ttft_s:.0f} s",
        translator.text(f"cli.verdict.{candidate.reason}", **candidate.reason_params),
    )


def register(group: click.Group, cli: Cli) -> None:
    """Add the command of this module."""

    @group.command("plan", help=cli.text("help.plan"))
    @profile_option(cli)
    @model_option(cli)
    @context_option(cli)
    @click.option("--sequences", type=click.IntRange(1, 256), help=cli.text("help.sequences"))
    @click.option("--kv-type", type=click.Choice([kv.value for kv in KvType]), help=cli.text("help.kv_type"))
    @click.option("--headroom", type=SIZE, help=cli.text("help.headroom"))
    @override_option(cli)
    @json_option(cli)
    def plan(
        profile: str,
        model: str | None,
        context: int | None,
        sequences: int | None,
        kv_type: str | None,
        headroom: int | None,
        override: bool,
        as_json: bool,
    ) -> None:
        with cli.guarded(as_json):
            pins = Pins(model, context, sequences, None if kv_type is None else KvType(kv_type), override)
            result = cli.services.plan.plan(Profile(profile), pins, headroom)
            if as_json:
                cli.emit(plan_json(result, cli.services.plan.learned()))
            else:
                for line in plan_text(result, cli.translator, cli.services.plan.learned()):
                    cli.say(line)
        if result.chosen is None:
            raise SystemExit(int(ExitCode.NOTHING_FITS))

"""The plan command: what would run now and why, every number of it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from muniment_app.cli.context import Cli, ExitCode, json_option, model_option, profile_option
from muniment_app.cli.table import columns
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes, parse_bytes
from muniment_runtime.contracts import Candidate, KvType, Need, NeedBasis, Pins, Plan, Profile
from muniment_runtime.planner.explain import Line, alternatives, budget, explain, limit_lines, rejected_lines
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


def plan_text(plan: Plan, translator: Translator) -> list[str]:
    """Return the plan for people: memory, choice, need in bytes, expectation, and one table of all candidates.

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
    }
    text: list[str] = []
    for name, content in sections.items():
        if content:
            text += ["", translator.text(f"cli.plan.{name}"), *(_INDENT + line for line in content)]
    return text[1:]


def _sentences(lines: Sequence[Line], translator: Translator) -> list[str]:
    return [translator.text(line.key, **line.params) for line in lines]


def _label(translator: Translator, key: str, **params: str | int | float) -> str:
    """Return what stands before the size in a line of the catalogue; the size has its own column."""
    return translator.text(key, **{**params, "size": ""}).rstrip(" :：")


def _memory(plan: Plan, translator: Translator) -> list[str]:
    headroom = plan.headroom
    rows = [
        (
            _label(translator, line.key, **line.params),
            f"{limit.bytes:,}",
            format_bytes(limit.bytes),
            translator.text("cli.plan.binds") if limit.name == headroom.binding else "",
        )
        for limit, line in zip(headroom.limits, limit_lines(headroom), strict=False)
    ]
    margin = translator.text("plan.margin_line", margin="").rstrip(" :：.。")
    rows.append((margin, f"{plan.margin_bytes:,}", format_bytes(plan.margin_bytes), ""))
    return [*columns(rows, right=(1, 2)), translator.text(f"plan.pressure.{headroom.pressure.value}")]


def _need(plan: Plan, choice: Candidate, translator: Translator) -> list[str]:
    tried = choice.need.basis is not NeedBasis.FORMULA
    formula = _by_key(choice.formula) if tried and choice.formula is not None else {}
    heading = [translator.text(f"cli.column.{name}") for name in ("line", "bytes", "size")]
    if formula:
        heading += [translator.text("cli.column.formula")]
    rows = [tuple(heading)]
    for key, size in budget(choice.need):
        row = [_label(translator, key), f"{size:,}", format_bytes(size)]
        if formula:
            row.append(format_bytes(formula[key]) if key in formula else "-")
        rows.append(tuple(row))
    left = plan.headroom.available_bytes - plan.margin_bytes - choice.need.total_bytes
    blank = [""] if formula else []
    rows.append(
        ("+ " + translator.text("cli.plan.margin"), f"{plan.margin_bytes:,}", format_bytes(plan.margin_bytes), *blank)
    )
    rows.append(
        (
            ("<= " if left >= 0 else "> ") + translator.text("cli.plan.headroom"),
            f"{plan.headroom.available_bytes:,}",
            format_bytes(plan.headroom.available_bytes),
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
    @click.option("--context", type=click.IntRange(min=256), help=cli.text("help.context"))
    @click.option("--sequences", type=click.IntRange(1, 256), help=cli.text("help.sequences"))
    @click.option("--kv-type", type=click.Choice([kv.value for kv in KvType]), help=cli.text("help.kv_type"))
    @click.option("--headroom", type=SIZE, help=cli.text("help.headroom"))
    @click.option("--override", is_flag=True, help=cli.text("help.override"))
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
                cli.emit(plan_json(result))
            else:
                for line in plan_text(result, cli.translator):
                    cli.say(line)
        if result.chosen is None:
            raise SystemExit(int(ExitCode.NOTHING_FITS))

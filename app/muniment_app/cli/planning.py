"""The plan command: what would run now and why, every number of it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from muniment_app.cli.context import Cli, ExitCode, json_option, model_option, profile_option
from muniment_app.cli.table import columns
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Candidate, KvType, Need, Pins, Plan, Profile
from muniment_runtime.planner.explain import Line, alternatives, budget, explain, rejected_lines
from muniment_runtime.planner.serialize import plan_json

__all__ = ["plan_text", "register"]

_MEMORY = ("plan.limit.", "plan.binding.", "plan.margin_line")
_EXPECTATION = ("plan.forecast.",)
_INDENT = "  "


def plan_text(plan: Plan, translator: Translator) -> list[str]:
    """Return the plan for people: memory, choice, need in bytes, expectation, and one table of all candidates.

    The sentences are those of ``explain``; the need and the candidates, which are rows, stand in columns.
    """
    rows = {key for key, _ in budget(plan.choice.need)} if plan.choice else set()
    lines = explain(plan)
    lines = [line for line in lines[: len(lines) - len(rejected_lines(plan))] if line.key not in rows]
    memory = [line for line in lines if line.key.startswith(_MEMORY)]
    expectation = [line for line in lines if line.key.startswith(_EXPECTATION)]
    choice = [line for line in lines if line not in memory and line not in expectation]
    sections = {
        "memory": _sentences(memory, translator),
        "choice": _sentences(choice, translator),
        "need": _need(plan.choice.need, translator) if plan.choice else [],
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


def _need(need: Need, translator: Translator) -> list[str]:
    # The catalogue's line ends with the size; without it, what stands before is the label.
    return columns(
        [(translator.text(key, size="").rstrip(" :："), f"{size:,}", format_bytes(size)) for key, size in budget(need)],
        right=(1, 2),
    )


def _candidates(plan: Plan, translator: Translator) -> list[str]:
    candidates = [*([plan.choice] if plan.choice else []), *alternatives(plan)]
    names = ("model", "quantization", "context", "kv_type", "sequences", "need", "verdict")
    heading = tuple(translator.text(f"cli.column.{name}") for name in names)
    rows = [_row(candidate, translator) for candidate in candidates]
    return columns([heading, *rows], right=(2, 4, 5)) if rows else []


def _row(candidate: Candidate, translator: Translator) -> tuple[str, ...]:
    config, need_bytes = candidate.config, candidate.need.total_bytes
    return (
        config.model_id,
        candidate.quantization,
        str(config.context),
        config.kv_type.value,
        str(config.sequences),
        format_bytes(need_bytes) if need_bytes else "-",
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
    @click.option("--headroom", type=click.IntRange(min=0), help=cli.text("help.headroom"))
    @json_option(cli)
    def plan(
        profile: str,
        model: str | None,
        context: int | None,
        sequences: int | None,
        kv_type: str | None,
        headroom: int | None,
        as_json: bool,
    ) -> None:
        with cli.guarded(as_json):
            pins = Pins(model, context, sequences, None if kv_type is None else KvType(kv_type))
            result = cli.services.plan.plan(Profile(profile), pins, headroom)
            if as_json:
                cli.emit(plan_json(result))
            else:
                for line in plan_text(result, cli.translator):
                    cli.say(line)
        if result.chosen is None:
            raise SystemExit(int(ExitCode.NOTHING_FITS))

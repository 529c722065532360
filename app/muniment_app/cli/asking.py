"""The ask command: a question, an answer with its pages."""

from __future__ import annotations

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
from muniment_app.services.api import Answer, AnswerStatus, AskEvent, AskPhase, AskRequest
from muniment_app.services.serialize import answer_json
from muniment_resources.errors import KnownError
from muniment_resources.units import format_bytes
from muniment_retrieval.model import Support
from muniment_runtime.contracts import Pins, Profile

__all__ = ["EXIT_BY_STATUS", "register", "say_answer", "show_event"]

EXIT_BY_STATUS = {
    AnswerStatus.ANSWERED: ExitCode.OK,
    AnswerStatus.NOT_FOUND: ExitCode.NOT_FOUND,
    AnswerStatus.REFUSED: ExitCode.NOTHING_FITS,
    AnswerStatus.ERROR: ExitCode.ERROR,
}


def show_event(cli: Cli, event: AskEvent) -> None:
    """Show what is happening to the question."""
    if event.phase is AskPhase.READING and event.fraction is not None:
        cli.progress(cli.text("phase.reading", percent=round(event.fraction * 100)))
    elif not event.untrusted_text:
        cli.progress(cli.text(f"phase.{event.phase.value}") if event.phase is not AskPhase.READING else "")


def say_answer(cli: Cli, answer: Answer) -> None:
    """Print an answer for people: the text, then where it stands; what it ran on and took goes to standard error."""
    if answer.reason is not None:
        reason = cli.translator.error(KnownError(answer.reason, **answer.reason_params))
        # Without sentences the reason is the answer; otherwise it is a remark on it.
        (cli.note if answer.sentences else cli.say)(reason)
    for sentence in answer.sentences:
        marks = "".join(f" [{n}]" for n in sentence.citations)
        unsupported = "" if sentence.support is not Support.NONE else " " + cli.text("unsupported")
        cli.say(f"{sentence.text}{marks}{unsupported}")
    if answer.citations:
        cli.say()
    for citation in answer.citations:
        where = cli.text("where", document=citation.document, page=citation.page)
        support = cli.text(f"support.{citation.support.value}")
        cli.say(f'[{citation.n}] {where} ({support})\n    "{" ".join(citation.quote.split())}"')
    for passage in answer.nearest:
        where = cli.text("where", document=passage.document, page=passage.page)
        cli.say(f"\n{cli.text('nearest')} {where}\n    {' '.join(passage.text.split())[:300]}")
    cli.note("")
    if answer.plan is not None:
        cli.note(
            cli.text(
                "ran_on",
                model=answer.plan.model,
                context=answer.plan.context,
                need=format_bytes(answer.plan.need_bytes),
                headroom=format_bytes(answer.plan.headroom_bytes),
            )
        )
    times = answer.timings
    if times.tpot_s > 0:
        cli.note(
            cli.text(
                "took",
                retrieve=f"{times.retrieve_s:.2f}",
                load=f"{times.load_s:.1f}",
                ttft=f"{times.ttft_s:.1f}",
                rate=f"{1 / times.tpot_s:.1f}",
                total=f"{times.total_s:.1f}",
            )
        )
    if answer.left_out:
        cli.note(cli.text("left_out", n=answer.left_out))
    cli.note(cli.text("receipt", seq=answer.audit.seq, leaf=answer.audit.leaf[:16]))


def register(group: click.Group, cli: Cli) -> None:
    """Add the commands of this module."""

    @group.command("ask", help=cli.text("help.ask"))
    @click.argument("question")
    @profile_option(cli)
    @model_option(cli)
    @context_option(cli)
    @override_option(cli)
    @click.option("--max-tokens", default=160, type=click.IntRange(16, 2048), help=cli.text("help.max_tokens"))
    @click.option("--documents", "documents", multiple=True, help=cli.text("help.only_documents"))
    @click.option("--fail-if-degraded", is_flag=True, help=cli.text("help.fail_if_degraded"))
    @json_option(cli)
    def ask(
        question: str,
        profile: str,
        model: str | None,
        context: int | None,
        override: bool,
        max_tokens: int,
        documents: tuple[str, ...],
        fail_if_degraded: bool,
        as_json: bool,
    ) -> None:
        with cli.guarded(as_json):
            ids = tuple(cli.services.library.find(reference).document_id for reference in documents)
            pins = Pins(model_id=model, context=context, override=override)
            request = AskRequest(question, Profile(profile), max_tokens, ids, pins)
            with cli.stoppable() as cancelled:
                answer = cli.services.ask.ask(request, lambda event: show_event(cli, event), cancelled)
            cli.progress_done()
            if as_json:
                cli.emit(answer_json(answer))
            else:
                say_answer(cli, answer)
        code = EXIT_BY_STATUS[answer.status]
        if code is ExitCode.OK and fail_if_degraded and answer.plan is not None and answer.plan.rung > 0:
            code = ExitCode.DEGRADED
        raise SystemExit(int(code))

"""Commands about the audit log: show, verify, export."""

from __future__ import annotations

from pathlib import Path

import click

from muniment_app.cli.context import Cli, ExitCode, json_option
from muniment_app.services.api import AuditReport
from muniment_app.services.serialize import audit_event_json, audit_report_json

__all__ = ["register"]


def _problem(cli: Cli, report: AuditReport) -> str:
    return "" if report.problem is None else cli.translator.text(f"audit.problem.{report.problem}")


def register(group: click.Group, cli: Cli) -> None:
    """Add the commands of this module."""

    @group.group("audit", help=cli.text("help.audit"))
    def audit() -> None:
        pass

    @audit.command("show", help=cli.text("help.audit_show"))
    @click.option("-n", "--last", default=20, type=click.IntRange(1, 100_000), help=cli.text("help.last"))
    @json_option(cli)
    def show(last: int, as_json: bool) -> None:
        with cli.guarded(as_json):
            events = cli.services.audit.events(0, last)
            if as_json:
                cli.emit({"events": [audit_event_json(event) for event in events]})
                return
            for event in events:
                fields = " ".join(f"{key}={value}" for key, value in event.fields.items())
                cli.say(f"{event.seq:>6}  {event.ts}  {event.type}  {fields}"[:200])

    @audit.command("verify", help=cli.text("help.audit_verify"))
    @json_option(cli)
    def verify(as_json: bool) -> None:
        with cli.guarded(as_json):
            report = cli.services.audit.verify()
            if as_json:
                cli.emit(audit_report_json(report))
            elif report.ok:
                cli.say(cli.text("audit.intact", n=report.events, checkpoints=report.checkpoints))
            elif report.first_bad is not None:
                cli.say(cli.text("audit.broken", first_bad=report.first_bad, problem=_problem(cli, report)))
            else:
                cli.say(cli.text("audit.problem", problem=_problem(cli, report)))
        if not report.ok:
            raise SystemExit(int(ExitCode.AUDIT))

    @audit.command("export", help=cli.text("help.audit_export"))
    @click.argument("target", type=click.Path(path_type=Path))
    @click.option("--openings", type=click.Choice(["none", "all"]), default="none", help=cli.text("help.openings"))
    def export(target: Path, openings: str) -> None:
        with cli.guarded():
            written = cli.services.audit.export(target, openings)
            cli.say(cli.text("audit.exported", path=str(written)))

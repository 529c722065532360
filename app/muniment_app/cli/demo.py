"""The demo: sample documents, starter model, one cited answer. Every step is skipped when it is already done."""

from __future__ import annotations

import click

from muniment_app.cli.asking import EXIT_BY_STATUS, say_answer, show_event
from muniment_app.cli.context import Cli
from muniment_app.cli.documents import show_progress
from muniment_app.cli.models import show_bytes
from muniment_app.services.api import AskRequest
from muniment_resources.samples import sample_paths
from muniment_resources.units import format_bytes

__all__ = ["register"]

DEMO_WORKSPACE = "demo"


def register(group: click.Group, cli: Cli) -> None:
    """Add the command of this module."""

    @group.command("demo", help=cli.text("help.demo"))
    @click.option("--gui", is_flag=True, help=cli.text("help.demo_gui"))
    def demo(gui: bool) -> None:
        cli.workspace = DEMO_WORKSPACE
        with cli.guarded():
            models = cli.services.models.list()
            if not any(model.installed for model in models):
                starter = next(model for model in models if model.starter)
                cli.note(cli.text("demo.fetch", name=starter.model_id, size=format_bytes(starter.size_bytes)))
                with cli.stoppable() as cancelled:
                    cli.services.models.add(
                        starter.model_id,
                        lambda done, total: show_bytes(cli, starter.model_id, done, total),
                        cancelled,
                    )
                cli.progress_done()
            cli.note(cli.text("demo.index"))
            with cli.stoppable() as cancelled:
                cli.services.index.index(
                    sample_paths(), lambda progress: show_progress(cli, progress), lambda _name, _wrong: None, cancelled
                )
            cli.progress_done()
            cli.leave_if_stopped()
            question = cli.text("demo.question")
            if gui:
                cli.close()
                raise SystemExit(cli.launch_gui(cli.home, DEMO_WORKSPACE, False))
            cli.note(cli.text("demo.asked", question=question) + "\n")
            with cli.stoppable() as cancelled:
                answer = cli.services.ask.ask(AskRequest(question), lambda event: show_event(cli, event), cancelled)
            cli.progress_done()
            say_answer(cli, answer)
            cli.note("\n" + cli.text("demo.next"))
        raise SystemExit(int(EXIT_BY_STATUS[answer.status]))

"""Commands about documents: index, documents, remove, pages, search."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muniment_app.cli.context import Cli, ExitCode, json_option
from muniment_app.cli.table import cells, pad
from muniment_app.services.api import IndexProgress
from muniment_app.services.serialize import index_json, search_json
from muniment_resources.errors import KnownError
from muniment_retrieval.model import Box, DocumentInfo, DocumentStatus, RenderedPage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["document_line", "register", "show_progress", "to_png"]

PNG_SCALE = 2.0


def document_line(cli: Cli, document: DocumentInfo) -> str:
    """Return one document as a line for people."""
    words = {status: cli.text(f"status.{status.value}") for status in DocumentStatus}
    status = pad(words[document.status], max(map(cells, words.values())))
    pages = cli.text("pages", readable=document.readable_pages, pages=document.pages)
    line = f"{document.document_id[:8]}  {status}  {pages}  {document.name}"
    if document.reason is not None:
        sentence = cli.translator.error(KnownError(document.reason, **document.reason_params))
        line += f"\n          {sentence} [{document.reason}]"
    return line


def show_progress(cli: Cli, progress: IndexProgress) -> None:
    """Show how far the indexing is."""
    if progress.finished is not None:
        cli.progress_done()
        cli.note(document_line(cli, progress.finished))
        return
    key = "indexing" if progress.seconds_left is None else "indexing_left"
    cli.progress(
        cli.text(
            key,
            number=progress.file_number,
            files=progress.files,
            page=progress.page,
            pages=progress.pages,
            seconds=round(progress.seconds_left or 0),
            name=progress.file,
        )
    )


def _password(cli: Cli, interactive: bool, name: str, wrong: bool) -> str | None:
    if not interactive:
        return None
    key = "password_again" if wrong else "password"
    cli.progress_done()
    with cli.prompting():
        entered: str = click.prompt(cli.text(key, name=name), hide_input=True, default="", show_default=False, err=True)
    return entered or None


def to_png(page: RenderedPage, boxes: Sequence[Box]) -> bytes:
    """Encode a rendered page; ``boxes`` (points) are marked like with a yellow pen."""
    # Imported here: only this command needs it, and start-up time counts.
    from PIL import Image, ImageChops, ImageDraw  # noqa: PLC0415

    image = Image.frombytes("RGB", (page.width, page.height), page.rgb)
    if boxes:
        pen = Image.new("RGB", image.size, "white")
        draw = ImageDraw.Draw(pen)
        for box in boxes:
            draw.rectangle([value * page.scale for value in box], fill=(255, 235, 90))
        image = ImageChops.multiply(image, pen)
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def _parse_box(value: str) -> Box:
    try:
        x0, y0, x1, y1 = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(value) from None
    return x0, y0, x1, y1


def register(group: click.Group, cli: Cli) -> None:
    """Add the commands of this module."""
    _register_index(group, cli)
    _register_library(group, cli)
    _register_pages(group, cli)
    _register_search(group, cli)


def _register_index(group: click.Group, cli: Cli) -> None:
    @group.command("index", help=cli.text("help.index"))
    @click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
    @click.option("--password", help=cli.text("help.password"))
    @json_option(cli)
    def index(paths: tuple[Path, ...], password: str | None, as_json: bool) -> None:
        with cli.guarded(as_json):
            interactive = sys.stdin.isatty() and not as_json

            def ask_password(name: str, wrong: bool) -> str | None:
                if password is not None:
                    return None if wrong else password
                return _password(cli, interactive, name, wrong)

            with cli.stoppable() as cancelled:
                documents = cli.services.index.index(
                    list(paths), lambda progress: show_progress(cli, progress), ask_password, cancelled
                )
            cli.progress_done()
            if as_json:
                cli.emit(index_json(documents))
            else:
                rejected = sum(document.status is DocumentStatus.REJECTED for document in documents)
                cli.say(cli.text("indexed", n=len(documents) - rejected, rejected=rejected))
            cli.leave_if_stopped()
        if documents and all(document.status is DocumentStatus.REJECTED for document in documents):
            raise SystemExit(int(ExitCode.ERROR))


def _register_library(group: click.Group, cli: Cli) -> None:
    @group.command("documents", help=cli.text("help.documents"))
    @json_option(cli)
    def documents_command(as_json: bool) -> None:
        with cli.guarded(as_json):
            documents = cli.services.library.documents()
            if as_json:
                cli.emit(index_json(documents))
                return
            for document in documents:
                cli.say(document_line(cli, document))
            if not documents:
                cli.say(cli.text("no_documents"))

    @group.command("remove", help=cli.text("help.remove"))
    @click.argument("document")
    def remove(document: str) -> None:
        with cli.guarded():
            found = cli.services.library.find(document)
            cli.services.library.remove(found.document_id)
            cli.say(cli.text("removed", name=found.name))


def _register_pages(group: click.Group, cli: Cli) -> None:
    @group.command("pages", help=cli.text("help.pages"))
    @click.argument("document")
    @click.argument("number", type=click.IntRange(min=1))
    @click.option("--png", type=click.Path(path_type=Path, dir_okay=False), help=cli.text("help.png"))
    @click.option("--box", "boxes", multiple=True, help=cli.text("help.box"))
    def pages(document: str, number: int, png: Path | None, boxes: tuple[str, ...]) -> None:
        marks = [_parse_box(value) for value in boxes]
        with cli.guarded():
            found = cli.services.library.find(document)
            if png is None:
                cli.say(cli.services.library.page_text(found.document_id, number))
                return
            rendered = cli.services.pages.render(found.document_id, number, PNG_SCALE)
            try:
                png.write_bytes(to_png(rendered, marks))
            except OSError as error:
                raise KnownError("E-FILE-WRITE", path=str(png)) from error
            cli.say(cli.text("png_written", path=str(png), width=rendered.width, height=rendered.height))


def _register_search(group: click.Group, cli: Cli) -> None:
    @group.command("search", help=cli.text("help.search"))
    @click.argument("query")
    @click.option("-k", default=8, type=click.IntRange(1, 100), help=cli.text("help.k"))
    @json_option(cli)
    def search(query: str, k: int, as_json: bool) -> None:
        with cli.guarded(as_json):
            passages = cli.services.library.search(query, k)
            if as_json:
                cli.emit(search_json(passages))
            for number, passage in enumerate(passages, start=1):
                if not as_json:
                    where = cli.text("where", document=passage.document, page=passage.page)
                    cli.say(f"[{number}] {where}\n{passage.text}\n")
            if not passages and not as_json:
                cli.say(cli.text("no_passages"))
        if not passages:
            raise SystemExit(int(ExitCode.NOT_FOUND))

"""What people read of an exported log: a table for spreadsheets and one self-contained page. Derived, not signed."""

from __future__ import annotations

import csv
import html
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from muniment_app.audit.canonical import Json
from muniment_app.audit.reading import StoredEvent
from muniment_resources.i18n import Translator

__all__ = ["Summary", "csv_lines", "html_parts"]

Events = Callable[[], Iterable[StoredEvent]]
"""Reads the events anew: a log may be too long to be held in memory."""

_COLUMNS = ("seq", "ts", "type", "actor", "leaf", "data", "texts")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c1c1c}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{border-bottom:1px solid #d8d8d8;padding:.35rem .5rem;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}"
    "code{font-size:12px}dt{color:#555}dd{margin:0 0 .5rem}pre{white-space:pre-wrap;margin:0;font:inherit}"
    ".closed{color:#777;font-style:italic}"
)


@dataclass(frozen=True)
class Summary:
    """What stands at the head of the report.

    Attributes:
        log_id: Of the log.
        verifier_key: To be compared with the one that the sender gave another way.
        events: Number of events.
        checkpoints: Number of signed checkpoints.
        openings: ``all`` or ``none``: whether sensitive texts are included.
    """

    log_id: str
    verifier_key: str
    events: int
    checkpoints: int
    openings: str


def csv_lines(events: Events, with_texts: bool) -> Iterator[bytes]:
    """Yield the table, one row an event (RFC 4180, UTF-8)."""
    yield _csv_row(_COLUMNS)
    for event in events():
        value = event.value() or {}
        texts = event.texts() if with_texts else {}
        cells = (_plain(value.get(name)) for name in ("ts", "type", "actor"))
        row = (str(event.row.seq), *cells, event.row.leaf.hex(), _plain(value.get("data")), _plain(dict(texts)))
        yield _csv_row(row)


def _csv_row(cells: Iterable[str]) -> bytes:
    line = io.StringIO()
    # A spreadsheet would run what looks like a formula; the text of a document could be one.
    csv.writer(line).writerow([f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell for cell in cells])
    return line.getvalue().encode("utf-8")


def html_parts(events: Events, summary: Summary, translator: Translator) -> Iterator[bytes]:
    """Yield the page: what it is, how to check it, counts by type, and every event. Holds no script and no link."""

    def text(key: str, **params: object) -> str:
        return html.escape(translator.text(f"audit.report.{key}", **params))

    title = text("title")
    yield (
        f'<!DOCTYPE html>\n<html lang="{translator.language.replace("_", "-")}"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f"<p>{text('about')}</p><p>{text('check')}</p>\n<dl>"
    ).encode()
    facts = {
        "log": summary.log_id,
        "key": summary.verifier_key,
        "events": str(summary.events),
        "checkpoints": str(summary.checkpoints),
        "openings": translator.text(f"audit.report.openings.{summary.openings}"),
    }
    for name, fact in facts.items():
        yield f"<dt>{text(name)}</dt><dd><code>{html.escape(fact)}</code></dd>\n".encode()
    yield f"</dl>\n<h2>{text('kinds')}</h2>\n<table>\n".encode()
    kinds = Counter(_plain((event.value() or {}).get("type")) for event in events())
    for kind, count in sorted(kinds.items()):
        yield f"<tr><td>{html.escape(kind)}</td><td>{count}</td></tr>\n".encode()
    heads = "".join(f"<th>{text(f'column.{name}')}</th>" for name in ("seq", "time", "type", "fields", "leaf"))
    yield f"</table>\n<h2>{text('all')}</h2>\n<table>\n<tr>{heads}</tr>\n".encode()
    closed_text = text("closed")
    for event in events():
        yield _html_row(event, summary.openings == "all", closed_text)
    yield b"</table>\n</body></html>\n"


def _html_row(event: StoredEvent, with_texts: bool, closed_text: str) -> bytes:
    value = event.value() or {}
    data, commitments = value.get("data"), value.get("commit")
    texts = event.texts() if with_texts else {}
    fields = [
        f"<div><code>{html.escape(name)}</code> {html.escape(_plain(item))}</div>"
        for name, item in (data.items() if isinstance(data, dict) else ())
    ]
    for name in commitments if isinstance(commitments, dict) else ():
        shown = f"<pre>{html.escape(texts[name])}</pre>" if name in texts else f'<i class="closed">{closed_text}</i>'
        fields.append(f"<div><code>{html.escape(name)}</code> {shown}</div>")
    cells = (
        str(event.row.seq),
        html.escape(_plain(value.get("ts"))),
        html.escape(_plain(value.get("type"))),
        "".join(fields),
        f"<code>{event.row.leaf.hex()[:16]}</code>",
    )
    return ("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n").encode()


def _plain(value: Json | dict[str, str]) -> str:
    """Return strings as they are, everything else as JSON, nothing as an empty text."""
    if isinstance(value, str):
        return value
    return "" if value in (None, {}, []) else json.dumps(value, ensure_ascii=False, sort_keys=True)

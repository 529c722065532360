"""Writes the bundle that a stranger can verify without this program (``docs/audit-format.md``)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from muniment_app.audit.canonical import Json, canonicalize
from muniment_app.audit.events import Actor, EventType
from muniment_app.audit.log import AuditLog
from muniment_app.audit.note import origin, verifier_key
from muniment_app.audit.reading import StoredEvent, read_events
from muniment_app.audit.report import Summary, csv_lines, html_parts
from muniment_app.audit.store import Snapshot
from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import Translator
from muniment_resources.verify import bundle_texts

__all__ = ["OPENINGS", "export_bundle", "write_bundle"]

OPENINGS = ("none", "all")
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o644 << 16


def export_bundle(log: AuditLog, target: Path, openings: str, translator: Translator) -> Path:
    """Record the export, then write the bundle; an existing file of that name is replaced.

    Args:
        log: The log.
        target: A file, or a folder in which a name is made.
        openings: ``all`` includes the sensitive texts, ``none`` leaves them out.
        translator: Language of the readable report.

    Returns:
        The file written.

    Raises:
        KnownError: ``E-AUDIT-WRITE``: nothing was written. ``E-AUDIT-EXPORT``: the file cannot be written; what
            stood there before still does.
    """
    if openings not in OPENINGS:
        raise BugError("openings must be all or none")
    # First the record, then the effect: no copy leaves without an event that says so.
    receipt = log.append(EventType.AUDIT_EXPORTED, {"openings": openings}, actor=Actor.USER)
    path = target / f"muniment-audit-{log.log_id[:8]}-{receipt.seq}.zip" if target.is_dir() else target
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as stream:
                with log.snapshot() as view:
                    write_bundle(stream, view, log, openings, translator)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            # After the rename there is nothing under this name; before it, half a bundle.
            with contextlib.suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise KnownError("E-AUDIT-EXPORT", path=str(path)) from error
    return path


def write_bundle(stream: BinaryIO, view: Snapshot, log: AuditLog, openings: str, translator: Translator) -> None:
    """Write the bundle of all events up to the last checkpoint; the same bytes for the same log.

    Later events are left out: nothing is signed about them yet. Every redaction is followed by a checkpoint, so
    that the openings that the snapshot lacks are explained by events that the bundle holds.
    """
    checkpoints = view.checkpoints()
    size = checkpoints[-1][0]
    name = origin(log.log_id)
    with_texts = openings == "all"

    def events() -> Iterator[StoredEvent]:
        return read_events(view, 0, size)

    summary = Summary(log.log_id, verifier_key(name, log.public_key), size, len(checkpoints), openings)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        hashes: dict[str, Json] = {}

        def add(file: str, parts: Iterable[bytes]) -> None:
            hashes[file] = _add(archive, file, parts)

        add("events.jsonl", (row.body + b"\n" for row in view.rows(0, size)))
        for covered, note in checkpoints:
            add(f"checkpoints/{covered:012d}.note", [note])
        add("openings.jsonl", _opening_lines(events) if with_texts else [])
        add("keys.json", [_document({"v": 1, "log": log.log_id, "verifier": summary.verifier_key})])
        add("events.csv", csv_lines(events, with_texts))
        add("report.html", html_parts(events, summary, translator))
        for file, content in sorted(bundle_texts().items()):
            add(file, [content])
        manifest = _document({"v": 1, "log": log.log_id, "openings": openings, "files": hashes})
        _add(archive, "manifest.json", [manifest])
        statement = f"muniment audit bundle\n{log.log_id}\n{hashlib.sha256(manifest).hexdigest()}\n"
        _add(archive, "manifest.note", [log.sign_statement(statement)])


def _add(archive: zipfile.ZipFile, name: str, parts: Iterable[bytes]) -> str:
    """Write one file and return its SHA-256, hex."""
    entry = zipfile.ZipInfo(name, _DATE)
    # Whatever would differ between systems is fixed, so that equal logs give equal bundles.
    entry.create_system, entry.external_attr = _UNIX, _MODE
    digest = hashlib.sha256()
    with archive.open(entry, "w", force_zip64=True) as file:
        for part in parts:
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def _opening_lines(events: Callable[[], Iterator[StoredEvent]]) -> Iterator[bytes]:
    for event in events():
        texts = event.texts()
        for opening in event.openings:
            salt, text = opening.salt.hex(), texts[opening.field]
            yield _document({"event": opening.seq, "field": opening.field, "salt": salt, "text": text})


def _document(value: Json) -> bytes:
    return canonicalize(value) + b"\n"

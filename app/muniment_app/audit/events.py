"""The closed set of event types, and what may stand in an event in the clear.

Clear fields are numbers, codes and ids. Whatever a person or a document said goes in as a commitment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from muniment_app.audit.canonical import INT_MAX, Json
from muniment_resources.errors import BugError

__all__ = ["SEALING", "Actor", "EventType", "FieldValue", "Receipt", "clear_fields", "fixed", "secret_path"]

FieldValue: TypeAlias = bool | int | str | Sequence["FieldValue"] | Mapping[str, "FieldValue"] | None

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+=%,-]{0,127}|-?[0-9]+(\.[0-9]+)?|")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PATH = re.compile(r"[a-z][a-z0-9_]{0,39}(\.[a-z0-9_]{1,40}){0,3}")
_MAX_DEPTH = 6
_MAX_ITEMS = 2048


class EventType(StrEnum):
    """Everything that the log can say. New types are added at the end; none is ever renamed."""

    APP_STARTED = "app.started"
    APP_STOPPED = "app.stopped"
    WORKSPACE_CREATED = "workspace.created"
    WORKSPACE_OPENED = "workspace.opened"
    DOCUMENT_ADDED = "document.added"
    DOCUMENT_REJECTED = "document.rejected"
    DOCUMENT_REMOVED = "document.removed"
    INDEX_BUILT = "index.built"
    RUNTIME_DECISION = "runtime.decision"
    RUNTIME_DEGRADED = "runtime.degraded"
    RUNTIME_RESTORED = "runtime.restored"
    MODEL_INSTALLED = "model.installed"
    MODEL_IMPORTED = "model.imported"
    MODEL_VERIFIED = "model.verified"
    MODEL_REMOVED = "model.removed"
    MODEL_REFUSED = "model.refused"
    MODEL_LOADED = "model.loaded"
    WORKER_STARTED = "worker.started"
    WORKER_EXITED = "worker.exited"
    RETRIEVAL_DONE = "retrieval.done"
    QUESTION_ASKED = "question.asked"
    ANSWER_STARTED = "answer.started"
    ANSWER_COMPLETED = "answer.completed"
    ANSWER_NOT_FOUND = "answer.not_found"
    ANSWER_REFUSED = "answer.refused"
    ANSWER_CANCELLED = "answer.cancelled"
    ANSWER_FAILED = "answer.failed"
    AUDIT_CHECKPOINT = "audit.checkpoint"
    AUDIT_EXPORTED = "audit.exported"
    REDACTION_DONE = "redaction.done"
    SETTINGS_CHANGED = "settings.changed"
    MODEL_REQUANTIZED = "model.requantized"
    MODEL_REQUANTIZE_FAILED = "model.requantize_failed"


SEALING = frozenset(
    {
        EventType.APP_STARTED,
        EventType.APP_STOPPED,
        EventType.AUDIT_CHECKPOINT,
        EventType.AUDIT_EXPORTED,
        EventType.REDACTION_DONE,
    }
)
"""Types after which a checkpoint is signed in the same transaction."""


class Actor(StrEnum):
    """Who caused the event."""

    USER = "user"
    APP = "app"
    WORKER = "worker"


@dataclass(frozen=True)
class Receipt:
    """Where an event stands in the audit log: sequence number (from 0) and leaf hash (hex)."""

    seq: int
    leaf: str


def fixed(value: float, digits: int = 4) -> str:
    """Return a number as a fixed-point string, the only form in which fractions stand in events."""
    return f"{value:.{digits}f}"


def secret_path(path: str) -> str:
    """Return the path of a committed field if it is well formed (``answer``, ``passages.3``).

    Raises:
        BugError: It is not.
    """
    if not _PATH.fullmatch(path):
        raise BugError("malformed path of a committed field")
    return path


def clear_fields(fields: Mapping[str, FieldValue]) -> dict[str, Json]:
    """Return fields that may stand in the clear, as plain JSON values.

    Raises:
        BugError: A name or value that is not a number, flag, id or code. The message names the field, never its
            value.
    """
    return {_name(key): _clear(key, value, _MAX_DEPTH) for key, value in fields.items()}


def _name(key: object) -> str:
    if not isinstance(key, str) or not _NAME.fullmatch(key):
        raise BugError("malformed field name in an event")
    return key


def _clear(key: str, value: object, depth: int) -> Json:
    if depth == 0:
        raise BugError(f"field {key} is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > INT_MAX:
            raise BugError(f"field {key} is beyond 2^53-1; write it as a string")
        return value
    if isinstance(value, str):
        # Neither spaces nor separators of paths: sentences, names of people and places of files do not pass.
        if not _WORD.fullmatch(value):
            raise BugError(f"field {key} is not a code; text must be committed, not written")
        return str(value)
    if isinstance(value, Mapping) and len(value) <= _MAX_ITEMS:
        return {_name(name): _clear(f"{key}.{_name(name)}", item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple) and len(value) <= _MAX_ITEMS:
        return [_clear(key, item, depth - 1) for item in value]
    raise BugError(f"field {key} has a type or size that events do not hold")

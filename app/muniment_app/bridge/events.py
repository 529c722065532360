"""Events of the audit log as people read them: names, the few fields that matter first, readable values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from muniment_app.bridge.formats import count, optional_text, seconds, sentence, size
from muniment_app.services.api import AuditEvent
from muniment_resources.i18n import Translator

__all__ = ["event_name", "field_lines", "summary"]

_Show: TypeAlias = Callable[[Translator, int], str]

_FIRST = (
    "code", "intact", "cause", "model", "document", "pages", "readable_pages", "passages", "found", "context",
    "sequences", "completion_tokens", "ttft_micros", "load_ms", "left_out", "missing_mib", "characters", "profile",
    "role", "bytes", "micros", "version",
)  # fmt: skip
"""Fields that a summary shows, most telling first."""
_HASH_CHARACTERS = 12
_SUMMARY_FIELDS = 4
_UNITS: tuple[tuple[str, _Show], ...] = (
    ("bytes", lambda _translator, value: size(value)),
    ("missing_mib", lambda _translator, value: size(value << 20)),
    ("micros", lambda translator, value: seconds(translator, value / 1e6)),
    ("_us", lambda translator, value: seconds(translator, value / 1e6)),
    ("_ms", lambda translator, value: seconds(translator, value / 1e3)),
)
"""Endings of field names that carry a unit."""


def event_name(translator: Translator, type_: str) -> str:
    """Return the name of an event type; the type itself when a newer version of the program wrote it."""
    return optional_text(translator, f"ui.event_{type_}", type_)


def summary(translator: Translator, event: AuditEvent) -> str:
    """Return the most telling simple fields of an event as one line. Zeros and empty values say nothing."""
    fields = {**event.fields, **_chosen(event.fields)}
    shown = [(key, fields[key]) for key in _FIRST if _says_something(fields.get(key))]
    return " · ".join(f"{_label(translator, key)} {_value(translator, key, value)}"
                      for key, value in shown[:_SUMMARY_FIELDS])  # fmt: skip


def field_lines(translator: Translator, event: AuditEvent) -> list[str]:
    """Return every field of an event, one a line; records inside a field get a line each."""
    lines: list[str] = []
    for key, value in event.fields.items():
        label = _label(translator, key)
        if isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value):
            lines.append(f"{label}:")
            lines += [f"    {position}: {_value(translator, key, item)}" for position, item in enumerate(value)]
        else:
            lines.append(f"{label}: {_value(translator, key, value, whole=True)}")
            if key == "code" and isinstance(value, str) and value:
                lines.append(f"    {sentence(translator, value, {})}")
    return lines


def _says_something(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, int | str) and value not in (0, ""))


def _chosen(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields of the candidate that a decision chose: they tell more than its number."""
    candidates, chosen = fields.get("candidates"), fields.get("chosen")
    if isinstance(candidates, list) and isinstance(chosen, int) and 0 <= chosen < len(candidates):
        item = candidates[chosen]
        return item if isinstance(item, Mapping) else {}
    return {}


def _label(translator: Translator, key: str) -> str:
    return optional_text(translator, f"ui.field_{key}", key)


def _value(translator: Translator, key: str, value: object, whole: bool = False) -> str:
    """Return a value with its unit. Hashes are shortened in lines that hold more than one value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return translator.text("ui.yes" if value else "ui.no")
    if isinstance(value, int):
        return next((show(translator, value) for ending, show in _UNITS if key.endswith(ending)), count(value))
    if isinstance(value, str):
        return value[:_HASH_CHARACTERS] if key.endswith("sha256") and not whole else value
    if isinstance(value, Mapping):
        parts = (f"{_label(translator, name)} {_value(translator, name, item)}" for name, item in value.items())
        return " · ".join(parts)
    if isinstance(value, Sequence):
        return ", ".join(_value(translator, key, item) for item in value) or "–"
    return str(value)

"""Numbers, times and reasons as people read them. Pure functions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import Translator
from muniment_resources.units import format_bytes as size

__all__ = ["clock_time", "count", "failure", "optional_text", "plan_reason", "seconds", "sentence", "size", "time_left"]


def count(number: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{number:,}"


def seconds(translator: Translator, value_s: float) -> str:
    """Return a duration: ``85 ms``, ``0.9 s`` or ``12 s``."""
    if value_s < 0.1:
        return translator.text("ui.milliseconds", value=f"{value_s * 1000:.0f}")
    return translator.text("ui.seconds", value=f"{value_s:.1f}" if value_s < 10 else f"{value_s:.0f}")


def time_left(translator: Translator, seconds_left: float | None) -> str:
    """Return the remaining time in the unit that people would say, or that it is not known yet."""
    if seconds_left is None:
        return translator.text("ui.left_unknown")
    if seconds_left < 60:
        return translator.text("ui.left_seconds", n=max(1, round(seconds_left)))
    if seconds_left < 5400:
        return translator.text("ui.left_minutes", n=round(seconds_left / 60))
    return translator.text("ui.left_hours", n=round(seconds_left / 3600))


def clock_time(timestamp: str, with_date: bool = True) -> str:
    """Return an ISO 8601 time in local time; the text itself when it is not one."""
    try:
        moment = dt.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).astimezone()
    except ValueError:
        return timestamp
    return moment.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M")


def optional_text(translator: Translator, key: str, fallback: str) -> str:
    """Return the text of a key that another part may or may not have put into the catalogue."""
    try:
        return translator.text(key)
    except BugError:
        return fallback


def sentence(translator: Translator, code: str, params: Mapping[str, object]) -> str:
    """Return the sentence of an error or reason code; the code itself when the catalogue has none."""
    try:
        return translator.text(f"errors.{code}", **params)
    except BugError:
        return translator.text("ui.reason_code", code=code)


def plan_reason(translator: Translator, reason: str, params: Mapping[str, object]) -> str:
    """Return why a candidate was chosen or rejected; byte values are made readable first."""
    shown = {
        key: size(value) if key.endswith("_bytes") and isinstance(value, int) else value
        for key, value in params.items()
    }
    try:
        return translator.text(f"plan.{reason}", **shown)
    except BugError:
        return reason


def failure(translator: Translator, error: Exception) -> tuple[str, str]:
    """Return (sentence, code) of what a service raised."""
    if isinstance(error, KnownError):
        return sentence(translator, error.code, error.params), error.code
    return translator.text("ui.bug", type=type(error).__name__), "E-BUG"

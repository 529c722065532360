"""The table of limits and waiting times says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muniment_app.audit import log
from muniment_app.services import ask
from muniment_retrieval.pdf import limits
from muniment_runtime.worker import framing, host
from muniment_runtime.worker.child import Timing

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
_ROW = re.compile(r"^\| [^|]+ \| ([^|]+) \| `[^`]+` `([^`]+)`(?:, `([^`]+)`)? \|$", re.MULTILINE)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
VALUES: dict[str, float] = {
    "MAX_QUESTION_CHARACTERS": ask.MAX_QUESTION_CHARACTERS,
    "SEARCH_K": ask.SEARCH_K,
    "MAX_FILE_BYTES": limits.MAX_FILE_BYTES,
    "MAX_PAGES": limits.MAX_PAGES,
    "MAX_PAGE_CHARS": limits.MAX_PAGE_CHARS,
    "MAX_PIXELS": limits.MAX_PIXELS,
    "JSON_LIMIT_BYTES": framing.JSON_LIMIT_BYTES,
    "RAW_LIMIT_BYTES": framing.RAW_LIMIT_BYTES,
    "HEARTBEAT_S": host.HEARTBEAT_S,
    "Timing.hang_s": Timing.hang_s,
    "Timing.cancel_grace_s": Timing.cancel_grace_s,
    "Timing.stop_grace_s": Timing.stop_grace_s,
    "terminate_s": Timing.terminate_s,
    "CHECKPOINT_EVENTS": log.CHECKPOINT_EVENTS,
}


def _documented() -> dict[str, float]:
    found: dict[str, float] = {}
    for value, first, second in _ROW.findall(ARCHITECTURE.read_text("utf-8")):
        numbers = [float(number.replace(",", "")) for number in _NUMBER.findall(value)]
        found.update(zip([name for name in (first, second) if name], numbers, strict=True))
    return found


def test_every_limit_is_documented() -> None:
    assert set(_documented()) == set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_documented_value_is_the_real_one(name: str) -> None:
    assert _documented()[name] == VALUES[name]

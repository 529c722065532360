"""Every error code has its sentence, and every sentence is used."""

from __future__ import annotations

import re
from pathlib import Path

from muniment_resources.i18n import catalogue

ROOT = Path(__file__).parents[2]
_CODE = re.compile(r'"(E-[A-Z0-9]+(?:-[A-Z0-9]+)*)"')
PACKAGES = ("app", "runtime", "retrieval", "resources")


def _codes_in_source() -> set[str]:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {code for path in sources for code in _CODE.findall(path.read_text("utf-8"))}


def _codes_with_sentence() -> set[str]:
    keys = {key.removeprefix("errors.") for key in catalogue("en") if key.startswith("errors.E-")}
    return {key.partition(".")[0] for key in keys}


def test_every_code_has_a_sentence() -> None:
    assert _codes_in_source() - _codes_with_sentence() == set()


def test_every_sentence_has_a_code_that_uses_it() -> None:
    assert _codes_with_sentence() - _codes_in_source() == set()

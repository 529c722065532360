"""The shipped sample documents (invented companies) and questions with known answers about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

__all__ = ["SampleFact", "facts", "sample_paths"]

_FILES = ("aldermoor-annual-report-2025.pdf", "supply-contract-zh.pdf", "ledger-2025.pdf")


@dataclass(frozen=True)
class SampleFact:
    """A question with its known answer.

    Attributes:
        language: ``en`` or ``zh``.
        document: File name; ``None`` when none of the samples holds the answer.
        answer: As it stands on the page, or ``None``.
        accepted: Other spellings of the same answer.
        page: Physical page, 1-based, or ``None``.
        quote: Words on that page that prove the answer, or ``None``.
    """

    question: str
    language: str
    document: str | None
    answer: str | None
    accepted: tuple[str, ...]
    page: int | None
    quote: str | None


def sample_paths() -> list[Path]:
    """Return the sample PDFs. The package is installed as plain files, so these are real paths."""
    folder = Path(str(resources.files("muniment_resources.samples")))
    return [folder / name for name in _FILES]


def facts() -> list[SampleFact]:
    """Return the questions, answerable ones first."""
    text = (resources.files("muniment_resources.samples") / "facts.json").read_text("utf-8")
    return [SampleFact(**{**row, "accepted": tuple(row["accepted"])}) for row in json.loads(text)]

"""Marks each test with its tier by the folder it lies in, so that no tier is forgotten."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

# No test asserts a time, and machines are shared: an example may take as long as it takes.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

TIERS = {
    "unit": "fast",
    "property": "fast",
    "contract": "fast",
    "architecture": "fast",
    "docs": "fast",
    "process": "process",
    "ui": "ui",
    "e2e": "ui",
    "model": "model",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0]
        tier = TIERS[folder]
        # A contract suite may mark single parameters as model or process; then the folder's tier does not apply.
        if not any(item.get_closest_marker(name) for name in ("fast", "process", "ui", "model")):
            item.add_marker(getattr(pytest.mark, tier))

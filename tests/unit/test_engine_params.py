"""Configurations that the library would bend silently never reach it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from muniment_resources.errors import BugError
from muniment_runtime.contracts import RunConfig
from muniment_runtime.engine.params import context_params

_LIBRARY = SimpleNamespace(
    llama_context_default_params=lambda: pytest.fail("the library was asked"),
)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig("m", 0),
        RunConfig("m", 512, sequences=0),
        RunConfig("m", 512, batch=0),
        RunConfig("m", 512, ubatch=-1),
        RunConfig("m", 512, threads=0),
        RunConfig("m", 2**32),
        RunConfig("m", 2**20, sequences=2**12),
    ],
)
def test_a_number_that_would_become_another_one_is_our_mistake(config: RunConfig) -> None:
    with pytest.raises(BugError):
        context_params(_LIBRARY, config)

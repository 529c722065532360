"""Model files for this tier: from the user's cache, fetched into it when missing. Never skipped.

The cache folder is ``MUNIMENT_MODEL_CACHE``, or ``models`` in the user's cache folder. Its store notes size and time of
each verified file, so that a file is hashed once and again only after it has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muniment_app.workspace.paths import model_cache_folders, resolve_home
from muniment_runtime.model.catalogue import load_catalogue
from muniment_runtime.model.fetch import ModelFetcher
from muniment_runtime.model.store import ModelStore

ModelFile = Callable[[str], Path]

# What this tier reads; the larger models of the catalogue are not needed to prove the code.
NEEDED = ("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m", "qwen2.5-coder-0.5b-instruct-q4_k_m")


@pytest.fixture(scope="session")
def model_file() -> ModelFile:
    """Return a function from a catalogue id to its verified file."""
    catalogue = load_catalogue()
    store = ModelStore(model_cache_folders(os.environ)[0], catalogue)
    # A model that the demo has installed is linked, not fetched a second time.
    fetcher = ModelFetcher(store, catalogue, cache_folders=(resolve_home(None, os.environ).models,))

    def find(model_id: str) -> Path:
        fetcher.add(model_id, lambda *_: None, lambda: False, lambda *_: None)
        return store.path(model_id)

    return find


@pytest.fixture(scope="session", autouse=True)
def model_cache(model_file: ModelFile) -> Path:
    """Have every needed file in the cache folder, and name that folder in the environment of the tests."""
    folders = {model_file(model_id).parent for model_id in NEEDED}
    assert len(folders) == 1
    folder = folders.pop()
    os.environ["MUNIMENT_MODEL_CACHE"] = str(folder)
    return folder

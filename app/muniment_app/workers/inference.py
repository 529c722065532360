"""Entry point of the inference child: guard first, then heavy imports, then serve."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from muniment_app.workers.start import USAGE, greeting, guarded
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.serving import InferenceHandler
from muniment_runtime.worker.guard import INFERENCE_POLICY
from muniment_runtime.worker.host import claim_pipes, serve

__all__ = ["main"]


def _llama_cpp() -> Backend:
    library = importlib.import_module("muniment_runtime.engine.library")
    backend = importlib.import_module("muniment_runtime.backends.llama_cpp")
    made: Backend = backend.LlamaCppBackend(library.open_library())
    return made


def _fake(script: Path) -> Backend:
    fake = importlib.import_module("muniment_runtime.backends.fake")
    made: Backend = fake.FakeBackend(fake.read_script(script), enabled=True)
    return made


def main(role: str, arguments: Sequence[str]) -> int:
    """Serve inference until the parent is gone.

    Args:
        role: ``inference``, or ``inference-fake``, which needs its script as the only argument.
        arguments: What follows the role on the command line.
    """
    fake = role == "inference-fake"
    if len(arguments) != (1 if fake else 0):
        return USAGE
    stdin, stdout = claim_pipes()
    capabilities = guarded(INFERENCE_POLICY)
    backend = _fake(Path(arguments[0])) if fake else _llama_cpp()
    serve(InferenceHandler(backend), stdin, stdout, hello=greeting(role, capabilities))
    return 0

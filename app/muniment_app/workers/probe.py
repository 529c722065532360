"""Entry point of the probe child: guard first, then the native library, then serve dry runs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from muniment_app.workers.start import USAGE, greeting, guarded
from muniment_runtime.backends.probing import PROBE_ROLE, DryModel, ProbeHandler
from muniment_runtime.worker.guard import INFERENCE_POLICY
from muniment_runtime.worker.host import claim_pipes, serve

__all__ = ["main"]


def main(role: str, arguments: Sequence[str]) -> int:
    """Serve dry runs until the parent is gone.

    Args:
        role: ``probe``.
        arguments: What follows the role on the command line: nothing.
    """
    if arguments or role != PROBE_ROLE:
        return USAGE
    stdin, stdout = claim_pipes()
    capabilities = guarded(INFERENCE_POLICY)
    oracle = importlib.import_module("muniment_runtime.engine.oracle")
    library = importlib.import_module("muniment_runtime.engine.library").open_library()

    def open_dry(path: Path, model_id: str) -> DryModel:
        dry: DryModel = oracle.DryRun(library, path, model_id)
        return dry

    serve(ProbeHandler(open_dry), stdin, stdout, hello=greeting(role, capabilities))
    return 0

"""Entry point of the quantizing child: guard first, then heavy imports, then serve."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from muniment_app.workers.start import USAGE, greeting, guarded
from muniment_runtime.worker.guard import QUANTIZE_POLICY
from muniment_runtime.worker.host import claim_pipes, serve

__all__ = ["main"]

ROLE = "quantize"


def main(role: str, arguments: Sequence[str]) -> int:
    """Quantize a model for the parent until it is gone.

    Args:
        role: ``quantize``.
        arguments: The one file that may be written, which exists already, and the most bytes that it may reach.
    """
    if role != ROLE or len(arguments) != 2 or not arguments[1].isdecimal():
        return USAGE
    target = Path(arguments[0])
    stdin, stdout = claim_pipes()
    policy = replace(QUANTIZE_POLICY, writable_files=(str(target),), file_size_bytes=int(arguments[1]))
    capabilities = guarded(policy)
    quantize = importlib.import_module("muniment_runtime.engine.quantize")
    handler = quantize.QuantizeHandler(quantize.open_quantizer(), target)
    serve(handler, stdin, stdout, hello=greeting(role, capabilities))
    return 0

"""Entry point of the quantizing child: guard first, then heavy imports, then serve."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from muniment_runtime.worker.guard import QUANTIZE_POLICY, apply_guard
from muniment_runtime.worker.host import claim_pipes, serve
from muniment_runtime.worker.spawn import PARENT_PID_VARIABLE

__all__ = ["main"]

ROLE = "quantize"
_USAGE = 2


def main(role: str, arguments: Sequence[str]) -> int:
    """Quantize a model for the parent until it is gone.

    Args:
        role: ``quantize``.
        arguments: The one file that may be written, which exists already, and the most bytes that it may reach.
    """
    if role != ROLE or len(arguments) != 2 or not arguments[1].isdecimal():
        return _USAGE
    target = Path(arguments[0])
    stdin, stdout = claim_pipes()
    parent = os.environ.get(PARENT_PID_VARIABLE, "")
    policy = replace(QUANTIZE_POLICY, writable_files=(str(target),), file_size_bytes=int(arguments[1]))
    capabilities = apply_guard(policy, int(parent) if parent.isdigit() else None)
    quantize = importlib.import_module("muniment_runtime.engine.quantize")
    handler = quantize.QuantizeHandler(quantize.open_quantizer(), target)
    serve(handler, stdin, stdout, hello={"role": role, "capabilities": capabilities.to_json()})
    return 0

"""Entry point of the document child: guard first, then PDFium, then serve."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from muniment_retrieval.pdf.handler import DocumentHandler
from muniment_runtime.worker.guard import DOCUMENT_POLICY, apply_guard
from muniment_runtime.worker.host import claim_pipes, serve
from muniment_runtime.worker.spawn import PARENT_PID_VARIABLE

__all__ = ["ROLE", "main"]

ROLE = "document"
_USAGE = 2


def main(role: str, arguments: Sequence[str]) -> int:
    """Read documents for the parent until it is gone.

    Args:
        role: ``document``.
        arguments: What follows the role on the command line: nothing.
    """
    if arguments or role != ROLE:
        return _USAGE
    stdin, stdout = claim_pipes()
    parent = os.environ.get(PARENT_PID_VARIABLE, "")
    # Loaded before the fence goes up (shared libraries are mapped from files), initialised behind it.
    reader = importlib.import_module("muniment_retrieval.pdf.reader")
    capabilities = apply_guard(DOCUMENT_POLICY, int(parent) if parent.isdigit() else None)
    serve(
        DocumentHandler(reader.PdfReader()),
        stdin,
        stdout,
        hello={"role": role, "capabilities": capabilities.to_json()},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(ROLE, sys.argv[1:]))

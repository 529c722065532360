"""Entry point of the document child: guard first, then PDFium, then serve."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from muniment_app.workers.start import USAGE, greeting, guarded
from muniment_retrieval.pdf.handler import DocumentHandler
from muniment_runtime.worker.guard import DOCUMENT_POLICY
from muniment_runtime.worker.host import claim_pipes, serve

__all__ = ["ROLE", "main"]

ROLE = "document"


def main(role: str, arguments: Sequence[str]) -> int:
    """Read documents for the parent until it is gone.

    Args:
        role: ``document``.
        arguments: What follows the role on the command line: nothing.
    """
    if arguments or role != ROLE:
        return USAGE
    stdin, stdout = claim_pipes()
    # Loaded before the fence goes up (shared libraries are mapped from files), initialised behind it.
    reader = importlib.import_module("muniment_retrieval.pdf.reader")
    capabilities = guarded(DOCUMENT_POLICY)
    serve(
        DocumentHandler(reader.PdfReader()),
        stdin,
        stdout,
        hello=greeting(role, capabilities),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(ROLE, sys.argv[1:]))

"""The one entry of the program. Child roles branch off before anything heavy is imported."""

from __future__ import annotations

import importlib
import os
import sys

__all__ = ["main"]

_ROLES = {
    "inference": "muniment_app.workers.inference",
    "inference-fake": "muniment_app.workers.inference",
    "document": "muniment_app.workers.document",
    "probe": "muniment_app.workers.probe",
}
_USAGE = 2


def main() -> int:
    """Run a child role (``--role NAME ...``) or the program itself; return the exit status."""
    # Everything this program writes is private, from the first file on.
    os.umask(0o077)
    arguments = sys.argv[1:]
    if arguments[:1] == ["--role"]:
        role = arguments[1] if len(arguments) > 1 else ""
        if role not in _ROLES:
            return _USAGE
        return int(importlib.import_module(_ROLES[role]).main(role, arguments[2:]))
    return int(importlib.import_module("muniment_app.entry").main(arguments))


if __name__ == "__main__":
    sys.exit(main())

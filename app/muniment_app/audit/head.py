"""The newest head (size and root) of a log, kept outside its database so that a shortened database is noticed.

Order: commit the event, then write the head. The head may lag behind the database after a crash; it never leads.
A head that leads, or whose root the log cannot reproduce, means that events were removed or replaced.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from muniment_app.audit.canonical import NotCanonicalError, canonicalize, parse

__all__ = ["Head", "HeadDamagedError", "HeadFile"]

_HASH = re.compile(r"[0-9a-f]{64}")


class HeadDamagedError(Exception):
    """The head file exists but is not what this program writes."""


@dataclass(frozen=True)
class Head:
    """Size and root of the log ``log_id`` at some moment."""

    log_id: str
    size: int
    root: bytes


class HeadFile:
    """Reads and atomically replaces one head file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Head | None:
        """Return the head, ``None`` when there is no file.

        Raises:
            HeadDamagedError: The file cannot be read or was changed by hand.
        """
        try:
            value = parse(self._path.read_bytes().removesuffix(b"\n"))
        except FileNotFoundError:
            return None
        except (OSError, NotCanonicalError) as error:
            raise HeadDamagedError from error
        match value:
            case {"v": 1, "log": str(log_id), "size": int(size), "root": str(root)} if size >= 0 and _HASH.fullmatch(
                root
            ):
                return Head(log_id, size, bytes.fromhex(root))
            case _:
                raise HeadDamagedError

    def write(self, head: Head) -> None:
        """Replace the file; after a power cut the old or the new head stands, never half of one.

        Raises:
            OSError: It cannot be written; the old head stands.
        """
        body = canonicalize({"v": 1, "log": head.log_id, "size": head.size, "root": head.root.hex()}) + b"\n"
        # A name of its own per write: several processes may write heads of one log.
        temporary = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

"""Finds the files that a user means, without following anything that is not a plain file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from muniment_resources.errors import KnownError

__all__ = ["Found", "discover", "hash_file"]

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Found:
    """A file to try, or one to report as left out with the code ``skip``."""

    path: Path
    size_bytes: int
    skip: str | None = None


def _looks_like_pdf(name: str) -> bool:
    return name.lower().endswith(".pdf")


def _classify(path: Path, *, follow: bool) -> Found:
    try:
        status = path.stat() if follow else path.lstat()
    except OSError:
        return Found(path, 0, "E-DOC-UNREADABLE")
    if not stat.S_ISREG(status.st_mode):
        return Found(path, 0, "E-DOC-NOT-A-FILE")
    return Found(path, status.st_size)


def _walk(folder: Path) -> Iterator[Found]:
    for root, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if _looks_like_pdf(name):
                yield _classify(Path(root) / name, follow=False)


def discover(paths: Sequence[Path]) -> list[Found]:
    """Return the files under some paths, each once, in a stable order.

    In folders, only names ending in ``.pdf`` count, and links, pipes and devices are reported, not opened. A file
    that is named itself is tried whatever its name, and a link that is named is followed: the user meant it.

    Raises:
        KnownError: ``E-INDEX-MISSING`` when a path does not exist, ``E-INDEX-NO-PDF`` when nothing was found.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise KnownError("E-INDEX-MISSING", name=str(path))
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        items = _walk(absolute) if path.is_dir() else iter([_classify(absolute, follow=True)])
        for item in items:
            found.setdefault(item.path, item)
    if not found:
        raise KnownError("E-INDEX-NO-PDF", name=", ".join(str(path) for path in paths))
    return list(found.values())


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a regular file.

    Raises:
        KnownError: ``E-DOC-UNREADABLE``; ``E-DOC-NOT-A-FILE`` when something else took the file's place.
    """
    digest = hashlib.sha256()
    try:
        # Not blocking, so that a pipe put in the file's place cannot hang the program.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KnownError("E-DOC-NOT-A-FILE", name=path.name)
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise KnownError("E-DOC-UNREADABLE", name=path.name) from error
    return digest.hexdigest()

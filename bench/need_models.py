"""The catalogue's models as the planner knows them, from a folder of files; and measured children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.common import Report
from muniment_runtime.contracts import ModelSpec
from muniment_runtime.model.catalogue import load_catalogue
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.spec import model_spec
from muniment_runtime.worker.spawn import child_environment

__all__ = ["CACHE_VARIABLE", "THREADS", "ChildFailed", "catalogue_specs", "run_child"]

CACHE_VARIABLE = "MUNIMENT_MODEL_CACHE"
THREADS = 2
_CHILD_LIMIT_S = 3600


class ChildFailed(Exception):
    """A measured child ended without its report; the text says how."""


def catalogue_specs(report: Report) -> list[ModelSpec]:
    """Return the catalogue's models that lie in the folder of ``MUNIMENT_MODEL_CACHE``, smallest first.

    A file of another size than the catalogue states is missing, like one that is not there: noted, never replaced.
    """
    named = os.environ.get(CACHE_VARIABLE)
    if not named:
        report.notes.append(f"real loads need the model files: {CACHE_VARIABLE} names no folder")
        return []
    found: list[ModelSpec] = []
    for entry in load_catalogue():
        path = Path(named) / f"{entry.model_id}.gguf"
        if not path.is_file() or path.stat().st_size != entry.size_bytes:
            report.notes.append(f"{entry.model_id}: no such file in {CACHE_VARIABLE}, not measured")
            continue
        found.append(
            model_spec(
                read_header(path),
                model_id=entry.model_id,
                path=path,
                sha256=entry.sha256,
                template=entry.template,
                languages=entry.languages,
            )
        )
    return sorted(found, key=lambda spec: spec.file_bytes)


def run_child(module: str, *arguments: object) -> dict[str, Any]:
    """Run a module of this bench in a fresh process with a worker's environment; return its one line of JSON.

    Raises:
        ChildFailed: It died, told nothing, or took over an hour.
    """
    command = [sys.executable, "-B", "-m", module, *map(str, arguments)]
    environment = child_environment(os.environ)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHILD_LIMIT_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed("took too long") from None
    if done.returncode != 0 or not done.stdout.strip():
        raise ChildFailed(f"exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result

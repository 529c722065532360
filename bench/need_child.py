"""Loads one model as the inference worker does, fills its context, and prints what the process holds then, as JSON.

A process of its own for each load, so that its resident memory is that of one model. Arguments: model file, context per
sequence, cache type, sequences, memory-mapped (0/1), threads, tokens of the beginning, and how to reach full depth
(``restored``; ``evaluated``: every token; ``loaded``: not at all).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import muniment_app.workers.inference  # noqa: F401 - what the real worker holds before it loads anything
from muniment_runtime.contracts import KvType, RunConfig
from muniment_runtime.engine.memory import resident

__all__ = ["main"]


def _held() -> list[int]:
    now = resident()
    return [now.anonymous_bytes, now.file_bytes]


def main(arguments: list[str]) -> None:
    """Load, fill, print one object."""
    path, context, kv_type, sequences, mapped, threads, beginning, method = arguments
    report: dict[str, Any] = {"started": _held()}
    # Late, as in the worker: these import the native library.
    backend = importlib.import_module("muniment_runtime.backends.llama_cpp")
    depth = importlib.import_module("bench.need_depth")
    library = importlib.import_module("muniment_runtime.engine.library").open_library()
    report["library"] = _held()
    config = RunConfig(
        model_id=Path(path).stem,
        context=int(context),
        kv_type=KvType(kv_type),
        sequences=int(sequences),
        mmap=mapped == "1",
        threads=int(threads),
    )
    model = backend.LlamaModel(library, Path(path), config)
    report["loaded"] = _held()
    report["context"], report["sequences"] = model.facts.context, model.facts.sequences
    started = time.perf_counter()
    if method == "restored":
        try:
            depth.restore_depth(library.api, model, int(beginning))
        except depth.RestoreRefused:
            method = "refused"
    elif method == "evaluated":
        depth.evaluate_depth(library.api, model)
    report["depth_s"] = time.perf_counter() - started
    report["method"] = method
    report["deep"] = _held()
    print(json.dumps(report))
    model.close()


if __name__ == "__main__":
    main(sys.argv[1:])

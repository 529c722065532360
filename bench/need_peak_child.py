"""Runs one prompt through our engine or through the high-level class at its defaults, and prints the memory it took.

Arguments: ``ours`` or ``default``, model file, context, tokens of the prompt, threads. Both get the same tokens and
sample one. The peak is the system's own record of this process (``VmHWM``: private and file-backed together).
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from bench.need_depth import ordinary_token
from muniment_runtime.contracts import RunConfig
from muniment_runtime.engine.memory import resident

__all__ = ["main"]


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system keeps no peak")


def _ours(path: str, context: int, count: int, threads: int) -> tuple[Any, int]:
    importlib.import_module("muniment_app.workers.inference")
    library = importlib.import_module("muniment_runtime.engine.library").open_library()
    engine = importlib.import_module("muniment_runtime.engine.llama")
    model = engine.LlamaModel(library, Path(path), RunConfig(Path(path).stem, context, threads=threads))
    tokens = [ordinary_token(position, model.tokenizer.size) for position in range(count)]
    for start in range(0, count, model.chunk):
        chunk = tokens[start : start + model.chunk]
        model.evaluate(chunk, want_logits=start + model.chunk >= count, cancelled=lambda: False)
    sampler = library.api.llama_sampler_init_greedy()
    library.api.llama_sampler_sample(sampler, model.context, -1)
    return model, int(model.facts.context)


def _default(path: str, context: int, count: int, threads: int) -> tuple[Any, int]:
    high = importlib.import_module("llama_cpp")
    model = high.Llama(model_path=path, n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)
    tokens = [ordinary_token(position, model.n_vocab()) for position in range(count)]
    model.create_completion(tokens, max_tokens=1, temperature=0.0)
    if model.n_tokens < count:
        raise RuntimeError(f"evaluated {model.n_tokens} of {count} tokens")
    return model, int(model.n_ctx())


def main(arguments: list[str]) -> None:
    """Run, print one object."""
    side, path, context, count, threads = arguments
    run = _ours if side == "ours" else _default
    # Held until the process has been measured: the high-level class frees its memory with the last reference.
    model, effective = run(path, int(context), int(count), int(threads))
    now = resident()
    report = {
        "context": effective,
        "peak_bytes": _peak_bytes(),
        "anonymous_bytes": now.anonymous_bytes,
        "file_bytes": now.file_bytes,
    }
    print(json.dumps(report))
    del model


if __name__ == "__main__":
    main(sys.argv[1:])

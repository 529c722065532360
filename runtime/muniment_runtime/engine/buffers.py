"""Reads the sizes that llama.cpp logs for a model and a context. The one place that knows those lines.

The library has no call in C that returns these figures, but it logs every buffer (``LLAMA_LOG_INFO``), one line each:

    load_tensors:   CPU_Mapped model buffer size =    93.77 MiB          (src/llama-model.cpp, load_tensors)
    llama_context:        CPU  output buffer size =     0.19 MiB         (src/llama-context.cpp, constructor)
    llama_kv_cache: size =   11.25 MiB (   512 cells,  30 layers,  1/1 seqs), K (f16):    5.62 MiB, V (f16): ...
                                                                         (src/llama-kv-cache.cpp, constructor)
    llama_memory_recurrent: size =   50.25 MiB (     1 cells,  32 layers,  1 seqs  0 rs_seq), R (f32): ...
                                                                         (src/llama-memory-recurrent.cpp, constructor)
    llama_context:  CPU DSV4 csa state buffer size =     1.00 MiB        (src/llama-kv-cache-dsv4.cpp)
    sched_reserve:        CPU compute buffer size =    33.01 MiB         (src/llama-context.cpp, sched_reserve)

A model may have several caches and several devices: lines of one kind add up. The line ``KV buffer size`` is not used,
because it says 0 in a dry run. The function's name in front is not looked at, nor is any line that fits none of these.
Each figure is rounded to 0.01 MiB by the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Buffers", "read_buffers"]

_MIB = 1 << 20
# Anchored, and names without spaces: free text of a model file, which is logged as well, cannot pass for a size.
_BUFFER = re.compile(r"\w+:\s+\S+\s+(?:DSV4 \S+ )?(model|output|compute|state) buffer size =\s*([0-9]+\.[0-9]+) MiB\s*")
_MEMORY = re.compile(r"\w+:\s+size =\s*([0-9]+\.[0-9]+) MiB \(.*seqs[^()]*\), ([KR]) \(\w+\):.*", re.DOTALL)


@dataclass(frozen=True)
class Buffers:
    """Bytes per kind of buffer; ``None`` where no line told it."""

    model_bytes: int | None = None
    kv_bytes: int | None = None
    recurrent_bytes: int | None = None
    compute_bytes: int | None = None
    output_bytes: int | None = None


def read_buffers(lines: Iterable[str]) -> Buffers:
    """Return the sizes that these log lines tell, in whole bytes."""
    sums: dict[str, float] = {}
    for line in lines:
        if found := _BUFFER.fullmatch(line):
            kind, size = found[1], found[2]
        elif found := _MEMORY.fullmatch(line):
            kind, size = ("kv" if found[2] == "K" else "state"), found[1]
        else:
            continue
        sums[kind] = sums.get(kind, 0.0) + float(size)
    told = {kind: round(size * _MIB) for kind, size in sums.items()}
    return Buffers(
        model_bytes=told.get("model"),
        kv_bytes=told.get("kv"),
        recurrent_bytes=told.get("state"),
        compute_bytes=told.get("compute"),
        output_bytes=told.get("output"),
    )

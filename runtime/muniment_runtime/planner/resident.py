"""What a load should change in the worker's memory: private bytes and bytes of mapped files apart.

A need says how much memory a model takes; the system counts it in two kinds. Anonymous memory can only be swapped
out, pages of a mapped file can be dropped and read again. After each load the worker measures how both have grown
since before it; this module says how much that should be.

Linux only tells them apart as used here (``Anonymous`` and the rest of ``Rss`` in ``smaps_rollup``).
"""

from __future__ import annotations

from typing import NamedTuple

from muniment_runtime.contracts import ModelSpec, Need, RunConfig
from muniment_runtime.planner.need import vocabulary_bytes

__all__ = ["Growth", "after_load", "after_prefill", "resident_split"]

# Measured on x86-64 Linux: code of the libraries that a load and a first evaluation touch, and what the graph, the
# threads and the allocator keep beside the buffers.
_LOAD_CODE_BYTES = 7 << 18
_RUN_CODE_BYTES = 3 << 18
_RUN_SLACK_BYTES = 3 << 19


class Growth(NamedTuple):
    """Growth of resident memory since before the load, in bytes."""

    anonymous_bytes: int
    file_bytes: int


def resident_split(spec: ModelSpec, config: RunConfig, need: Need) -> tuple[int, int]:
    """Return the growth after a load as anonymous and file-backed bytes; see ``after_load``."""
    grown = after_load(spec, config, need)
    return grown.anonymous_bytes, grown.file_bytes


def after_load(spec: ModelSpec, config: RunConfig, need: Need) -> Growth:
    """Return the growth right after a load, before anything is evaluated.

    Resident at once: the weights (a map is read ahead, ``src/llama-mmap.cpp``), copies of weights in another layout,
    the cache and the states (cleared on creation), the output buffer (cleared in ``output_reserve``), and the
    vocabulary. Not yet: the temporary tensors. Interpreter and libraries were there before.

    Args:
        spec: The model.
        config: How it was loaded.
        need: Its need, from the closed form or the library's dry run.
    """
    mapped = spec.weights_bytes if config.mmap else 0
    private = need.weights_bytes - mapped + need.kv_bytes + need.recurrent_bytes + need.output_bytes
    return Growth(private + vocabulary_bytes(spec), mapped + _LOAD_CODE_BYTES)


def after_prefill(spec: ModelSpec, config: RunConfig, need: Need) -> Growth:
    """Return the growth once a prompt in full batches has touched every temporary tensor."""
    loaded = after_load(spec, config, need)
    return Growth(
        loaded.anonymous_bytes + need.compute_bytes + _RUN_SLACK_BYTES,
        loaded.file_bytes + _RUN_CODE_BYTES,
    )

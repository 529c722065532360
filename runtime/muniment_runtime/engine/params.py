"""From a run configuration to the library's parameters: one place, so that a dry run asks for what a real load asks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from muniment_resources.errors import BugError
from muniment_runtime.contracts import KvType, RunConfig

__all__ = ["context_params", "model_params"]

# enum ggml_type in ggml/include/ggml.h; the binding's own constants lack BF16.
_GGML_TYPES: Mapping[KvType, int] = MappingProxyType(
    {
        KvType.F32: 0,
        KvType.F16: 1,
        KvType.Q4_0: 2,
        KvType.Q4_1: 3,
        KvType.Q5_0: 6,
        KvType.Q5_1: 7,
        KvType.Q8_0: 8,
        KvType.IQ4_NL: 20,
        KvType.BF16: 30,
    }
)

_MAX_CELLS = 2**31 - 1
"""``n_ctx`` is an unsigned number of 32 bits, rounded up and multiplied inside the library."""


def model_params(api: Any, config: RunConfig, *, extra_buffers: bool = True) -> Any:
    """Return the parameters of a real load.

    Args:
        api: The module ``llama_cpp.llama_cpp``.
        config: How to run the model.
        extra_buffers: Off where the faster layouts of weights crash, whatever the configuration says.
    """
    params = api.llama_model_default_params()
    params.n_gpu_layers = config.device_layers
    params.load_mode = api.LLAMA_LOAD_MODE_MMAP if config.mmap else api.LLAMA_LOAD_MODE_NONE
    params.use_extra_bufts = extra_buffers and config.repack
    return params


def context_params(api: Any, config: RunConfig) -> Any:
    """Return the parameters of a context; the abort callback is the caller's.

    Raises:
        BugError: A number that the library would replace by a default of its own, or wrap around.
    """
    if min(config.context, config.sequences, config.batch, config.ubatch, config.threads) < 1:
        raise BugError("context, sequences, batches and threads must be positive")
    if config.context * config.sequences > _MAX_CELLS:
        raise BugError(f"{config.sequences} x {config.context} tokens are more than the library can count")
    params = api.llama_context_default_params()
    # Not unified: every sequence has its own cells, so that one long request cannot starve the others.
    params.kv_unified = config.unified
    params.n_seq_max = config.sequences
    params.n_ctx = config.context * config.sequences
    params.n_batch = min(config.batch, params.n_ctx)
    params.n_ubatch = min(config.ubatch, params.n_batch)
    # One row of logits per sequence. The default reserves a row per token of a batch: hundreds of MB.
    params.n_outputs_max = config.sequences
    # The default keeps the full context for layers that look at a window only.
    params.swa_full = False
    params.flash_attn_type = (
        api.LLAMA_FLASH_ATTN_TYPE_ENABLED if config.flash_attention else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    params.type_k = _GGML_TYPES[config.kv_type]
    params.type_v = _GGML_TYPES[config.kv_type]
    params.n_threads = config.threads
    params.n_threads_batch = config.threads
    params.no_perf = True
    return params

"""Closed-form memory need of one model under one configuration, for the CPU backend of llama.cpp.

Sources are files of llama.cpp as built into llama-cpp-python 0.3.36; sizes are bytes. The cache formula is exact. The
compute formula follows the largest tensors alive at once in the worst-case graph and is within a few MiB.
``tests/model/test_need.py`` holds both against what the library prints and what the process really takes.

The settings behind the numbers: one unified cache for all sequences, ``swa_full`` off, ``n_outputs_max`` equal to the
number of sequences, K and V of the same type.
"""

from __future__ import annotations

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import KvType, ModelSpec, Need, RunConfig

__all__ = [
    "CONTEXT_STEP",
    "base_bytes",
    "compute_bytes",
    "context_cells",
    "estimate",
    "kv_bytes",
    "kv_fits_type",
    "kv_row_bytes",
    "output_bytes",
    "padded",
    "ubatch_tokens",
]

CONTEXT_STEP = 256
"""Cache cells come in steps of 256 (``src/llama-context.cpp``, constructor)."""

_BLOCK = 32
_BLOCK_BYTES = {KvType.F16: 64, KvType.Q8_0: 34}

# Measured on x86-64 Linux with Python 3.11: interpreter, bindings and shared libraries take 40 MiB resident before a
# model is loaded; the graph, the thread pool and the allocator's slack add 4 to 7 MiB once a prompt was read.
_PROCESS_BYTES = 47 << 20
# The vocabulary in memory, measured on load: 326 bytes a token for byte-pair vocabularies with their merge table
# (151,936 tokens), 367 for a small one (49,152), 168 for sentence-piece vocabularies without merges (262,144).
_VOCABULARY_BYTES = 330
_VOCABULARY_FIXED_BYTES = 2 << 20
_SENTENCE_PIECE_BYTES = 170
_SENTENCE_PIECE_FAMILIES = ("gemma",)


def padded(value: int, step: int) -> int:
    """Return ``value`` rounded up to a multiple of ``step``."""
    return -(-value // step) * step


def context_cells(config: RunConfig) -> int:
    """Return the cache cells of the whole context: every sequence gets the configured context.

    All sequences share the cells of a unified cache, so the backend must ask for context x sequences in all;
    llama.cpp rounds up to 256 (``src/llama-context.cpp``, constructor: ``n_ctx``, ``n_ctx_seq``).
    """
    return padded(config.context * config.sequences, CONTEXT_STEP)


def ubatch_tokens(config: RunConfig) -> int:
    """Return the tokens of one physical batch: neither the context nor the logical batch can be exceeded."""
    return min(context_cells(config), config.batch, config.ubatch)


def kv_row_bytes(kv_type: KvType, elements: int) -> int:
    """Return the bytes of one cache row (``ggml/src/ggml.c``, ``ggml_row_size``).

    Raises:
        BugError: A quantized row that is no whole number of blocks; ``kv_fits_type`` tells beforehand.
    """
    if kv_type is KvType.F16:
        return 2 * elements
    if elements % _BLOCK:
        raise BugError(f"a row of {elements} elements cannot be stored as {kv_type}")
    return elements // _BLOCK * _BLOCK_BYTES[kv_type]


def kv_fits_type(spec: ModelSpec, kv_type: KvType) -> bool:
    """Return whether every cache row of the model can be stored in this type."""
    if kv_type is KvType.F16:
        return True
    return all(layer.k_elements % _BLOCK == 0 and layer.v_elements % _BLOCK == 0 for layer in spec.layers)


def _window_cells(window: int, config: RunConfig) -> int:
    """Return the cells of a sliding-window layer (``src/llama-kv-cache-iswa.cpp``, constructor, ``swa_full`` off)."""
    return padded(min(context_cells(config), window * config.sequences + ubatch_tokens(config)), CONTEXT_STEP)


def kv_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of the KV cache; resident at once, because the library clears the buffer.

    Source: ``src/llama-kv-cache.cpp``, constructor. Without flash attention V is stored transposed and every layer is
    padded to the widest V.

    Raises:
        BugError: Quantized V without flash attention, which the library refuses.
    """
    if not config.flash_attention and config.kv_type is not KvType.F16:
        raise BugError("a quantized V cache needs flash attention")
    widest = max((layer.v_elements for layer in spec.layers), default=0)
    total = 0
    for layer in spec.layers:
        cells = _window_cells(layer.window, config) if layer.window else context_cells(config)
        v_elements = layer.v_elements if config.flash_attention else widest
        total += cells * (kv_row_bytes(config.kv_type, layer.k_elements) + kv_row_bytes(config.kv_type, v_elements))
    return total


def compute_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of temporary tensors: the larger of the logits and the attention or feed-forward stage.

    Source: ``src/llama-context.cpp``, ``sched_reserve`` and ``graph_reserve``, which plan the worst prompt batch with
    ``min(ubatch, n_outputs_max)`` rows of logits. Per token of a physical batch the graph keeps, in float32 elements:
    3 x feed-forward + 4 x embedding, or the attention inputs and outputs; the attention mask is float16 with flash
    attention and float32 without (then the scores of all heads come on top). Models with sliding windows have a second
    mask. It becomes resident with the first full prompt.
    """
    tokens, cells = ubatch_tokens(config), context_cells(config)
    embedding = spec.embedding_length
    query = spec.head_count * spec.head_dim
    key_value = spec.head_count_kv * spec.head_dim
    outputs = min(tokens, config.sequences)
    logits = outputs * spec.vocabulary + 2 * embedding * tokens
    mask = cells + max((_window_cells(layer.window, config) for layer in spec.layers if layer.window), default=0)
    if config.flash_attention:
        feed_forward = 3 * spec.feed_forward_length + 4 * embedding
        plain = query == embedding
        attention = 5 * embedding + 2 * key_value if plain else 8 * query + 3 * key_value + 2 * embedding
        stage = tokens * max(feed_forward, attention) + tokens * mask // 2
    else:
        scores = cells * spec.head_count
        stage = tokens * (scores + mask + 3 * embedding + 2 * query + 2 * key_value)
    return 4 * max(logits, stage)


def output_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of the output buffer: float32 logits, a row a sequence (``output_reserve``)."""
    return 4 * spec.vocabulary * config.sequences


def base_bytes(spec: ModelSpec) -> int:
    """Return the bytes of the worker process itself and of the vocabulary: measured constants."""
    if spec.architecture.startswith(_SENTENCE_PIECE_FAMILIES):
        return _PROCESS_BYTES + _SENTENCE_PIECE_BYTES * spec.vocabulary
    return _PROCESS_BYTES + _VOCABULARY_FIXED_BYTES + _VOCABULARY_BYTES * spec.vocabulary


def estimate(spec: ModelSpec, config: RunConfig, residual_bytes: int = 0) -> Need:
    """Return the need of a model under a configuration, line by line.

    Weights are counted whole also when they are mapped: they must stay in memory for decoding to keep its speed.
    Tensors that the CPU backend copies into another layout are counted twice, since the mapped source stays
    (``ggml/src/ggml-cpu/repack.cpp``).

    Args:
        spec: The model.
        config: The configuration; threads and device layers do not matter here.
        residual_bytes: Correction learned from earlier loads.

    Raises:
        KnownError: ``E-MODEL-UNSUPPORTED`` when the closed form does not cover the architecture; never guessed.
        BugError: The configuration is impossible.
    """
    if not spec.supported:
        raise KnownError("E-MODEL-UNSUPPORTED", model=spec.model_id, architecture=spec.architecture)
    if min(config.context, config.sequences, config.batch, config.ubatch) < 1:
        raise BugError("context, sequences and batches must be positive")
    return Need(
        weights_bytes=spec.weights_bytes + spec.repack_bytes,
        kv_bytes=kv_bytes(spec, config),
        recurrent_bytes=0,
        compute_bytes=compute_bytes(spec, config),
        output_bytes=output_bytes(spec, config),
        base_bytes=base_bytes(spec),
        residual_bytes=residual_bytes,
    )

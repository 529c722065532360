"""Closed-form memory need of one model under one configuration, for the CPU backend of llama.cpp.

Sources are files of llama.cpp as built into llama-cpp-python 0.3.36; sizes are bytes. Cache and states are exact; the
temporary tensors are placed as the library places them (``graph``, ``arena``), once per model, and their peak is kept
as sums that a configuration is put into. ``tests/model/test_need.py`` holds all of it against what the library
prints and what the process really takes.

The settings behind the numbers: ``swa_full`` off, ``n_outputs_max`` equal to the number of sequences, K and V of the
same type, context x sequences cells asked of the library.
"""

from __future__ import annotations

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import GraphShape, KvType, LayerShape, ModelSpec, Need, RunConfig
from muniment_runtime.planner.arena import unpacked
from muniment_runtime.planner.graph import ARCHITECTURES, Mode, record

__all__ = [
    "CONTEXT_STEP",
    "NeedModel",
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
    "vocabulary_bytes",
    "weights_bytes",
]

CONTEXT_STEP = 256
"""Cache cells come in steps of 256 (``src/llama-context.cpp``, constructor)."""

_BLOCK = 32
# Bytes of 32 elements (``ggml/src/ggml-common.h``, the block types).
_BLOCK_BYTES = {
    KvType.F32: 128,
    KvType.F16: 64,
    KvType.BF16: 64,
    KvType.Q8_0: 34,
    KvType.Q5_1: 24,
    KvType.Q5_0: 22,
    KvType.Q4_1: 20,
    KvType.Q4_0: 18,
    KvType.IQ4_NL: 18,
}
_FLOAT = 4

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
    """Return the cells of one stream of the cache.

    The backend asks for context x sequences. A unified cache is one stream of them all; otherwise every sequence has
    a stream of its own share (``src/llama-context.cpp``, constructor: ``n_ctx``, ``n_ctx_seq``).
    """
    cells = padded(config.context * config.sequences, CONTEXT_STEP)
    return cells if config.unified else padded(cells // config.sequences, CONTEXT_STEP)


def ubatch_tokens(config: RunConfig) -> int:
    """Return the tokens of one physical batch: neither the context nor the logical batch can be exceeded."""
    return min(config.context * config.sequences, config.batch, config.ubatch)


def kv_row_bytes(kv_type: KvType, elements: int) -> int:
    """Return the bytes of one cache row (``ggml/src/ggml.c``, ``ggml_row_size``).

    Raises:
        BugError: A quantized row that is no whole number of blocks; ``kv_fits_type`` tells beforehand.
    """
    if kv_type.quantized and elements % _BLOCK:
        raise BugError(f"a row of {elements} elements cannot be stored as {kv_type}")
    return elements * _BLOCK_BYTES[kv_type] // _BLOCK


def kv_fits_type(spec: ModelSpec, kv_type: KvType) -> bool:
    """Return whether every cache row of the model can be stored in this type."""
    if not kv_type.quantized:
        return True
    return all(layer.k_elements % _BLOCK == 0 and layer.v_elements % _BLOCK == 0 for layer in spec.layers)


def kv_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of the KV cache; see ``NeedModel.need``."""
    return NeedModel(spec).need(config).kv_bytes


def compute_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of temporary tensors; see ``NeedModel.need``."""
    return NeedModel(spec).need(config).compute_bytes


def output_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of the output buffer: float32 logits, a row a sequence (``output_reserve``)."""
    return _FLOAT * spec.vocabulary * config.sequences


def weights_bytes(spec: ModelSpec, config: RunConfig) -> int:
    """Return the bytes of all weights in memory.

    A mapped file counts whole: it must stay for decoding to keep its speed, and tensors that the backend copies into
    another layout come on top. Read instead of mapped, each tensor lives in one layout only; a tied output matrix in
    another layout than the embedding's is a tensor of its own (``src/llama-model-loader.cpp``, ``create_tensor``).
    """
    if not config.repack:
        return spec.weights_bytes
    return spec.weights_bytes + (spec.repack_bytes if config.mmap else spec.tied_copy_bytes)


def base_bytes(spec: ModelSpec) -> int:
    """Return the bytes of the worker process itself and of the vocabulary: measured constants."""
    return _PROCESS_BYTES + vocabulary_bytes(spec)


def vocabulary_bytes(spec: ModelSpec) -> int:
    """Return the bytes of the vocabulary in memory."""
    if spec.architecture.startswith(_SENTENCE_PIECE_FAMILIES):
        return _SENTENCE_PIECE_BYTES * spec.vocabulary
    return _VOCABULARY_FIXED_BYTES + _VOCABULARY_BYTES * spec.vocabulary


def estimate(spec: ModelSpec, config: RunConfig, residual_bytes: int = 0) -> Need:
    """Return the need of a model under one configuration; for many configurations keep a ``NeedModel``.

    Args:
        spec: The model.
        config: The configuration; threads and device layers do not matter here.
        residual_bytes: Correction learned from earlier loads.

    Raises:
        KnownError: ``E-MODEL-UNSUPPORTED`` when the closed form does not cover the architecture; never guessed.
        BugError: The configuration is impossible.
    """
    return NeedModel(spec, residual_bytes).need(config)


# Settings at which the temporary tensors are placed: tokens, cells of one stream, sequences. Between them the order
# of sizes, and with it the placement, hardly changes; the largest of the sums found is taken. Several sequences may
# move states and logits above other tensors, so one sequence is judged by the first points alone.
_POINTS = ((512, 512, 1), (512, 2048, 1), (512, 8192, 1), (512, 32768, 1), (512, 131072, 1), (64, 4096, 1))
_MANY_POINTS = ((512, 1024, 4), (512, 8192, 4), (64, 2048, 8))


class NeedModel:
    """One model, prepared for the need of many configurations.

    Preparing sums up the layers; the temporary tensors are placed when a kind of configuration is first asked for.

    Args:
        spec: The model.
        residual_bytes: Correction learned from earlier loads.

    Raises:
        KnownError: ``E-MODEL-UNSUPPORTED`` when the closed form does not cover the architecture; never guessed.
    """

    def __init__(self, spec: ModelSpec, residual_bytes: int = 0) -> None:
        if not spec.supported:
            raise KnownError("E-MODEL-UNSUPPORTED", model=spec.model_id, architecture=spec.architecture)
        self._spec = spec
        self._residual_bytes = residual_bytes
        self._base_bytes = base_bytes(spec)
        self._shape = spec.shape or _plain_shape(spec)
        self._row_bytes: dict[tuple[KvType, bool], tuple[tuple[int, int], ...]] = {}
        self._peaks: dict[tuple[KvType, bool, bool], tuple[tuple[int, ...], ...]] = {}
        self._window = max((layer.window for layer in spec.layers), default=0)

    def need(self, config: RunConfig) -> Need:
        """Return the need, line by line.

        Cache (``src/llama-kv-cache.cpp``, constructor): resident at once, because the library clears the buffer.
        Without flash attention V is stored transposed and every layer is padded to the widest V. A layer with a
        sliding window keeps window + physical batch cells a stream; one stream for all sequences keeps a window for
        each (``src/llama-kv-cache-iswa.cpp``). Recurrent states are float32 and do not grow with the context
        (``src/llama-memory-recurrent.cpp``). Temporary tensors become resident with the first full prompt.

        Raises:
            BugError: The configuration is impossible.
        """
        context, sequences, batch, ubatch = config.context, config.sequences, config.batch, config.ubatch
        if context < 1 or sequences < 1 or batch < 1 or ubatch < 1:
            raise BugError("context, sequences and batches must be positive")
        spec, unified = self._spec, config.unified
        asked = context * sequences
        tokens = min(asked, batch, ubatch)
        cells = -(-asked // CONTEXT_STEP) * CONTEXT_STEP
        streams = 1
        if not unified:
            cells = -(-(cells // sequences) // CONTEXT_STEP) * CONTEXT_STEP
            streams = sequences
        window_cells = 0
        if self._window:
            window_cells = self._window * (sequences if unified else 1) + tokens
            window_cells = -(-min(cells, window_cells) // CONTEXT_STEP) * CONTEXT_STEP
        kv_type, flash = config.kv_type, config.flash_attention
        peaks = self._peaks.get((kv_type, flash, sequences > 1))
        if peaks is None:
            peaks = self._prepare(kv_type, flash, many=sequences > 1)
        kv_bytes = 0
        for window, row_bytes in self._row_bytes[kv_type, flash]:
            kv_bytes += row_bytes * (window_cells if window else cells)
        rows = tokens if tokens < sequences else sequences
        # A batch is split evenly over the sequences (graph_reserve).
        tokens = -(-tokens // sequences) * sequences
        compute_bytes = 0
        for one, per_token, per_cell, per_window_cell, per_sequence, per_row, per_stored_cell in peaks:
            peak = (
                one
                + tokens * (per_token + per_cell * cells + per_window_cell * window_cells)
                + per_sequence * sequences
                + per_row * rows
                + per_stored_cell * cells * streams
            )
            compute_bytes = max(compute_bytes, peak)
        weights = spec.weights_bytes
        if config.repack:
            weights += spec.repack_bytes if config.mmap else spec.tied_copy_bytes
        return Need(
            weights,
            kv_bytes * streams,
            _FLOAT * spec.recurrent_elements * sequences,
            compute_bytes,
            _FLOAT * spec.vocabulary * sequences,
            self._base_bytes,
            self._residual_bytes,
        )

    def _prepare(self, kv_type: KvType, flash: bool, *, many: bool) -> tuple[tuple[int, ...], ...]:
        """Sum up cache rows by window, and find the peaks of the temporary tensors."""
        if kv_type.quantized and not flash:
            raise BugError("a quantized V cache needs flash attention")
        spec, shape = self._spec, self._shape
        rows: dict[int, int] = {}
        for layer in spec.layers:
            values = layer.v_elements if flash or spec.latent else shape.widest_values
            row = kv_row_bytes(kv_type, layer.k_elements) + kv_row_bytes(kv_type, values)
            rows[layer.window] = rows.get(layer.window, 0) + row
        self._row_bytes[kv_type, flash] = tuple(rows.items())
        mode = Mode(flash, kv_type.quantized, _BLOCK_BYTES[kv_type] // _BLOCK)
        tape = record(spec.architecture, shape, spec.embedding_length, spec.vocabulary, mode)
        found = set()
        for tokens, cells, sequences in _POINTS + _MANY_POINTS if many else _POINTS:
            window_cells = min(cells, padded(self._window + tokens, CONTEXT_STEP)) if self._window else 0
            point = (1, tokens, tokens * cells, tokens * window_cells, sequences, sequences, cells * sequences)
            found.add(unpacked(tape.peak(point)))
        peaks = tuple(one for one in found if not any(_covers(other, one) for other in found if other != one))
        self._peaks[kv_type, flash, many] = peaks
        return peaks


def _covers(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    return all(a >= b for a, b in zip(large, small, strict=True))


def _plain_shape(spec: ModelSpec) -> GraphShape:
    """The shape of a plain transformer, for a model of which nothing more is known."""
    if spec.architecture not in ARCHITECTURES:
        raise KnownError("E-MODEL-UNSUPPORTED", model=spec.model_id, architecture=spec.architecture)
    layers = tuple(
        LayerShape(
            heads=spec.head_count,
            queries=spec.head_count * spec.head_dim,
            keys=layer.k_elements,
            values=layer.v_elements,
            attended=spec.head_count * spec.head_dim,
            window=layer.window,
            feed_forward=spec.feed_forward_length,
        )
        for layer in spec.layers
    )
    return GraphShape(layers, max((layer.v_elements for layer in spec.layers), default=0))

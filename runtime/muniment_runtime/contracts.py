"""Frozen values that cross seams inside the runtime and towards the app.

Sizes are bytes, times are seconds. Everything here is plain data: it can be written to the audit log and read
back, which is what makes a decision replayable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

__all__ = [
    "Candidate",
    "Clock",
    "FinishReason",
    "GenerateRequest",
    "GenerateResult",
    "GraphShape",
    "Headroom",
    "HeadroomProbe",
    "KvType",
    "LayerKv",
    "LayerShape",
    "Limit",
    "LoadedModel",
    "ModelSpec",
    "Need",
    "NeedBasis",
    "NextField",
    "OracleSizes",
    "Pins",
    "Plan",
    "Prediction",
    "Pressure",
    "Profile",
    "RunConfig",
    "Segment",
    "Signal",
]

Clock = Callable[[], float]
"""Monotonic seconds."""


class Pressure(StrEnum):
    """How hard the machine is reclaiming memory now."""

    OK = "ok"
    TIGHT = "tight"
    CRITICAL = "critical"


class Profile(StrEnum):
    """What the task protects: latency, throughput or precision."""

    REALTIME = "realtime"
    BATCH = "batch"
    EXTRACTION = "extraction"


class KvType(StrEnum):
    """Element type of the KV cache; K and V always share it."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q5_1 = "q5_1"
    Q5_0 = "q5_0"
    Q4_1 = "q4_1"
    Q4_0 = "q4_0"
    IQ4_NL = "iq4_nl"

    @property
    def quantized(self) -> bool:
        """Whether elements are stored in blocks; V then needs flash attention."""
        return self not in _PLAIN_KV


_PLAIN_KV = frozenset({KvType.F32, KvType.F16, KvType.BF16})


@dataclass(frozen=True)
class Limit:
    """One link of the limit chain: what this limit alone would still allow, in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Signal:
    """One reading behind the pressure level, such as a stall average or a swap rate.

    ``name`` selects the text ``plan.signal.<name>``; the unit stands in the name (``_percent``, ``_bytes_per_s``).
    """

    name: str
    value: float


@dataclass(frozen=True)
class Headroom:
    """Memory that this process tree may still take, with every limit that was looked at.

    Attributes:
        available_bytes: Minimum over ``limits``.
        limits: The whole chain, outermost first.
        total_bytes: Physical memory, or the smallest hard limit when one is lower.
        pressure: Reclaim pressure now.
        binding: Name of the limit that gave the minimum.
        signals: What the pressure level was read from, as far as the system tells.
        device_limits: Free memory of each graphics device that a backend reports, not part of ``limits``.
    """

    available_bytes: int
    limits: tuple[Limit, ...]
    total_bytes: int
    pressure: Pressure
    binding: str
    signals: tuple[Signal, ...] = ()
    device_limits: tuple[Limit, ...] = ()


class HeadroomProbe(Protocol):
    """Measures headroom now. One implementation per operating system, plus fixed ones for what-if."""

    def measure(self) -> Headroom:
        """Return the current headroom; never raises for a limit that cannot be read (it is left out)."""
        ...


@dataclass(frozen=True)
class LayerKv:
    """KV shape of one attention layer: elements per token of K and V, and its sliding window (0: global).

    Latent attention keeps K only: ``v_elements`` is 0.
    """

    k_elements: int
    v_elements: int
    window: int = 0


@dataclass(frozen=True)
class LayerShape:
    """Widths of one layer's temporary tensors in elements per token; 0 for what the layer lacks.

    Attributes:
        heads: Attention heads.
        queries: Q of all heads.
        keys: K of all heads, 0 where the layer reads the cache of an earlier one.
        values: V of all heads, likewise.
        attended: Output of the attention of all heads, before its projection.
        window: Sliding window, 0 for a global layer.
        recurrent: The layer keeps a state of fixed size in place of a cache.
        rotary: Positions are applied to Q and K.
        values_from_keys: One product gives K and V.
        feed_forward: Inner width of the dense part.
        experts_used: Experts that one token passes, 0 in a dense layer.
        expert_feed_forward: Inner width of one expert.
        shared_feed_forward: Inner width of the experts that every token passes.
    """

    heads: int = 0
    queries: int = 0
    keys: int = 0
    values: int = 0
    attended: int = 0
    window: int = 0
    recurrent: bool = False
    rotary: bool = True
    values_from_keys: bool = False
    feed_forward: int = 0
    experts_used: int = 0
    expert_feed_forward: int = 0
    shared_feed_forward: int = 0


@dataclass(frozen=True)
class GraphShape:
    """What the temporary memory of a model follows from, read from its header.

    Attributes:
        layers: In order.
        widest_values: Widest V of all layers: without flash attention every V is stored that wide.
        experts: Width of the router.
        fused_gate: One matrix holds gate and up of the experts.
        per_layer_input: Width of the extra embedding that each layer gets.
        convolution: Length of the convolution of recurrent layers.
        state_inner, state_size, state_groups, state_heads: Of recurrent layers.
        query_rank, latent_rank, latent_rotary, latent_head: Of latent attention: compressed Q, compressed KV, the
            part of a head with positions, and V per head after decompression.
    """

    layers: tuple[LayerShape, ...]
    widest_values: int = 0
    experts: int = 0
    fused_gate: bool = False
    per_layer_input: int = 0
    convolution: int = 0
    state_inner: int = 0
    state_size: int = 0
    state_groups: int = 0
    state_heads: int = 0
    query_rank: int = 0
    latent_rank: int = 0
    latent_rotary: int = 0
    latent_head: int = 0


@dataclass(frozen=True)
class ModelSpec:
    """What the planner knows about one model file, read from its GGUF header.

    Attributes:
        model_id: Catalogue id, or the file's stem for an imported file.
        path: The GGUF file.
        sha256: Of the whole file, lower-case hex.
        architecture: ``general.architecture``.
        quantization: Human name of the dominant tensor type, such as ``Q4_K_M``.
        file_bytes: Size of the file.
        weights_bytes: Sum of tensor sizes.
        repack_bytes: Weights that the CPU backend copies into another layout.
        layers: KV shape per attention layer that owns KV.
        layer_count, embedding_length, feed_forward_length, head_count, head_count_kv, head_dim: shapes.
        vocabulary: Number of tokens.
        context_train: Context length the model was trained for.
        parameters: Number of weights.
        template: Key of a reviewed chat template, or ``None`` when the file may not chat.
        languages: Language tags from the catalogue, possibly empty.
        supported: ``False`` when the closed form does not cover the architecture: then its need is never guessed,
            only asked of the library.
        recurrent_elements: Float32 elements of recurrent state per sequence, over all recurrent layers.
        experts_used, expert_feed_forward_length: Of a mixture of experts, else 0.
        latent: Latent attention (MLA): the cache holds compressed K only.
        single_sequence: More than one sequence is unsafe (recurrent and hybrid models).
        base_model: Id of the model that this file was made from by quantizing again, else ``None``.
        tied_copy_bytes: Part of ``repack_bytes`` for an output matrix that the file does not hold: the token
            embedding once more, also where the file is not mapped.
        shape: What the temporary memory follows from; ``None``: a plain transformer of the figures above.
    """

    model_id: str
    path: Path
    sha256: str
    architecture: str
    quantization: str
    file_bytes: int
    weights_bytes: int
    repack_bytes: int
    layers: tuple[LayerKv, ...]
    layer_count: int
    embedding_length: int
    feed_forward_length: int
    head_count: int
    head_count_kv: int
    head_dim: int
    vocabulary: int
    context_train: int
    parameters: int
    template: str | None
    languages: tuple[str, ...] = ()
    supported: bool = True
    recurrent_elements: int = 0
    experts_used: int = 0
    expert_feed_forward_length: int = 0
    latent: bool = False
    single_sequence: bool = False
    base_model: str | None = None
    tied_copy_bytes: int = 0
    shape: GraphShape | None = None


class RunConfig(NamedTuple):
    """One complete runtime configuration of one model.

    A named tuple, as are ``Need``, ``Prediction`` and ``Candidate``: a plan makes hundreds of each.

    Attributes:
        context: Tokens per sequence.
        unified: All sequences share the cells of one cache; otherwise each has its own.
        repack: The processor backend may copy weights into a faster layout.
    """

    model_id: str
    context: int
    kv_type: KvType = KvType.F16
    sequences: int = 1
    batch: int = 512
    ubatch: int = 512
    flash_attention: bool = True
    mmap: bool = True
    device_layers: int = 0
    threads: int = 2
    unified: bool = False
    repack: bool = True


class NeedBasis(StrEnum):
    """Where the figures of a need come from."""

    FORMULA = "formula"
    ORACLE = "oracle"
    MEASURED = "measured"


class Need(NamedTuple):
    """Memory of a candidate, line by line, in bytes. ``total_bytes`` is their sum.

    Attributes:
        basis: The closed form, the library's own dry run, or what it reported for a real load.
    """

    weights_bytes: int
    kv_bytes: int
    recurrent_bytes: int
    compute_bytes: int
    output_bytes: int
    base_bytes: int
    residual_bytes: int
    basis: NeedBasis = NeedBasis.FORMULA

    @property
    def total_bytes(self) -> int:
        """Sum of all lines."""
        weights, kv, recurrent, compute, output, base, residual, _ = self
        return weights + kv + recurrent + compute + output + base + residual


class OracleSizes(NamedTuple):
    """What the library itself computes for one configuration in a dry run, in bytes.

    Attributes:
        kv_bytes: Of all caches; log lines give it to 0.01 MiB each, as all but the weights.
        weights_bytes: Sum of the tensors, exact. Copies in a faster layout are not part of it.
        context: Effective tokens per sequence.
        sequences: Effective number of sequences.
    """

    kv_bytes: int
    recurrent_bytes: int
    compute_bytes: int
    output_bytes: int
    weights_bytes: int
    context: int
    sequences: int


class Prediction(NamedTuple):
    """Predicted figures; ``None`` where nothing is known. ``basis`` is ``hypothesis`` until measured here."""

    ttft_s: float | None
    tpot_s: float | None
    tokens_per_s: float | None
    quality: float | None
    basis: str = "hypothesis"


_NOTHING: Mapping[str, str | int | float] = MappingProxyType({})


class Candidate(NamedTuple):
    """A configuration with its need, prediction and verdict.

    Attributes:
        need: The figures that decide: those of the library's dry run where there are any, else the closed form.
        reason: Code of the first rule that rejects it, or of why it was chosen; texts live in the catalogue
            under ``plan.<reason>``.
        reason_params: Values for that text.
        formula: The closed form beside ``need``, ``None`` when it does not cover the architecture.
    """

    config: RunConfig
    quantization: str
    need: Need
    prediction: Prediction
    fits: bool
    reason: str
    reason_params: Mapping[str, str | int | float] = _NOTHING
    formula: Need | None = None


@dataclass(frozen=True)
class Pins:
    """What the user fixed. ``None`` means free. A pin is never overridden.

    Attributes:
        override: The user insists on the pinned configuration although it eats into the reserve. Recorded.
    """

    model_id: str | None = None
    context: int | None = None
    sequences: int | None = None
    kv_type: KvType | None = None
    override: bool = False


@dataclass(frozen=True)
class Plan:
    """The planner's answer: everything that went in and came out.

    Attributes:
        chosen: Index into ``candidates``, or ``None`` when nothing fits.
        unblock_bytes: When nothing fits: bytes missing for the cheapest candidate, else 0.
        ladder: Indices of the fitting candidates to step down to from the choice, next rung first.
        needed_context: Tokens that the task needs, prompt and answer together: why the context is what it is.
    """

    profile: Profile
    headroom: Headroom
    margin_bytes: int
    pins: Pins
    candidates: tuple[Candidate, ...]
    chosen: int | None
    unblock_bytes: int = 0
    ladder: tuple[int, ...] = ()
    needed_context: int = 0

    @property
    def choice(self) -> Candidate | None:
        """The chosen candidate, if any."""
        return None if self.chosen is None else self.candidates[self.chosen]


@dataclass(frozen=True)
class Segment:
    """A piece of a prompt. Only ``trusted`` text may contain control tokens of the chat template.

    Document text and the user's question are ``trusted=False``: they are tokenised with special tokens off.
    """

    text: str
    trusted: bool = False


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class NextField:
    """A further field of a reply: ``text`` is put into the model's mouth, then it goes on.

    Small models forget the label of the second field; written for them, they fill it in.

    Attributes:
        text: Label of the field, not trusted: it may hold no control tokens.
        max_tokens: Upper bound of new tokens of this field.
        stop: Strings that end this field; not part of the text.
    """

    text: str
    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class GenerateRequest:
    """One generation.

    Attributes:
        segments: The rendered prompt, in order.
        max_tokens: Upper bound of new tokens.
        temperature: 0 means greedy.
        seed: For a temperature above 0.
        stop: Strings that end the generation, or its first field; not part of the text.
        fields: Further fields, each begun when the one before has ended by itself, by a stop string or by its
            limit. Their labels are part of the text.
    """

    segments: tuple[Segment, ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    fields: tuple[NextField, ...] = ()


@dataclass(frozen=True)
class GenerateResult:
    """What one generation gave and cost.

    Attributes:
        untrusted_text: The model's words: checked before they are shown as an answer.
        prefill_s: Time inside prompt evaluation alone.
        ttft_s: From the start of the request in the worker to the first sampled token.
        tpot_s: Mean time of each further token; 0 with fewer than two tokens.
    """

    untrusted_text: str
    finish: FinishReason
    prompt_tokens: int
    completion_tokens: int
    prefill_s: float
    ttft_s: float
    tpot_s: float


@dataclass(frozen=True)
class LoadedModel:
    """Read back from the backend after a load: what really runs, not what was asked.

    Attributes:
        context: Effective context per sequence in tokens.
        load_s: Duration of the load.
        anonymous_bytes: Growth of private memory measured in the worker, 0 where it cannot be read.
        file_bytes: Growth of file-backed memory.
        reported: Sizes of the buffers that the library itself reported for this load, ``None`` when it told none.
    """

    model_id: str
    context: int
    sequences: int
    vocabulary: int
    load_s: float
    anonymous_bytes: int
    file_bytes: int
    reported: Need | None = None

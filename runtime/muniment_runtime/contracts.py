"""Frozen values that cross seams inside the runtime and towards the app.

Sizes are bytes, times are seconds. Everything here is plain data: it can be written to the audit log and read
back, which is what makes a decision replayable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

__all__ = [
    "Candidate",
    "Clock",
    "FinishReason",
    "GenerateRequest",
    "GenerateResult",
    "Headroom",
    "HeadroomProbe",
    "KvType",
    "LayerKv",
    "Limit",
    "LoadedModel",
    "ModelSpec",
    "Need",
    "NextField",
    "Pins",
    "Plan",
    "Prediction",
    "Pressure",
    "Profile",
    "RunConfig",
    "Segment",
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

    F16 = "f16"
    Q8_0 = "q8_0"


@dataclass(frozen=True)
class Limit:
    """One link of the limit chain: what this limit alone would still allow, in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Headroom:
    """Memory that this process tree may still take, with every limit that was looked at.

    Attributes:
        available_bytes: Minimum over ``limits``.
        limits: The whole chain, outermost first.
        total_bytes: Physical memory, or the smallest hard limit when one is lower.
        pressure: Reclaim pressure now.
        binding: Name of the limit that gave the minimum.
    """

    available_bytes: int
    limits: tuple[Limit, ...]
    total_bytes: int
    pressure: Pressure
    binding: str


class HeadroomProbe(Protocol):
    """Measures headroom now. One implementation per operating system, plus fixed ones for what-if."""

    def measure(self) -> Headroom:
        """Return the current headroom; never raises for a limit that cannot be read (it is left out)."""
        ...


@dataclass(frozen=True)
class LayerKv:
    """KV shape of one attention layer: elements per token of K and V, and its sliding window (0: global)."""

    k_elements: int
    v_elements: int
    window: int = 0


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
        repack_bytes: Upper bound of weights that the CPU backend copies into another layout.
        layers: KV shape per attention layer that owns KV.
        layer_count, embedding_length, feed_forward_length, head_count, head_count_kv, head_dim: shapes.
        vocabulary: Number of tokens.
        context_train: Context length the model was trained for.
        parameters: Number of weights.
        template: Key of a reviewed chat template, or ``None`` when the file may not chat.
        languages: Language tags from the catalogue, possibly empty.
        supported: ``False`` when the closed form does not cover the architecture: then it is never guessed.
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


@dataclass(frozen=True)
class RunConfig:
    """One complete runtime configuration of one model."""

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


@dataclass(frozen=True)
class Need:
    """Memory of a candidate, line by line, in bytes. ``total_bytes`` is their sum."""

    weights_bytes: int
    kv_bytes: int
    recurrent_bytes: int
    compute_bytes: int
    output_bytes: int
    base_bytes: int
    residual_bytes: int

    @property
    def total_bytes(self) -> int:
        """Sum of all lines."""
        return (
            self.weights_bytes
            + self.kv_bytes
            + self.recurrent_bytes
            + self.compute_bytes
            + self.output_bytes
            + self.base_bytes
            + self.residual_bytes
        )


@dataclass(frozen=True)
class Prediction:
    """Predicted figures; ``None`` where nothing is known. ``basis`` is ``hypothesis`` until measured here."""

    ttft_s: float | None
    tpot_s: float | None
    tokens_per_s: float | None
    quality: float | None
    basis: str = "hypothesis"


@dataclass(frozen=True)
class Candidate:
    """A configuration with its need, prediction and verdict.

    Attributes:
        reason: Code of the first rule that rejects it, or of why it was chosen; texts live in the catalogue
            under ``plan.<reason>``.
        reason_params: Values for that text.
    """

    config: RunConfig
    quantization: str
    need: Need
    prediction: Prediction
    fits: bool
    reason: str
    reason_params: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pins:
    """What the user fixed. ``None`` means free. A pin is never overridden."""

    model_id: str | None = None
    context: int | None = None
    sequences: int | None = None
    kv_type: KvType | None = None


@dataclass(frozen=True)
class Plan:
    """The planner's answer: everything that went in and came out.

    Attributes:
        chosen: Index into ``candidates``, or ``None`` when nothing fits.
        unblock_bytes: When nothing fits: bytes missing for the cheapest candidate, else 0.
        ladder: Indices of the fitting candidates to step down to from the choice, next rung first.
    """

    profile: Profile
    headroom: Headroom
    margin_bytes: int
    pins: Pins
    candidates: tuple[Candidate, ...]
    chosen: int | None
    unblock_bytes: int = 0
    ladder: tuple[int, ...] = ()

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
    """

    model_id: str
    context: int
    sequences: int
    vocabulary: int
    load_s: float
    anonymous_bytes: int
    file_bytes: int

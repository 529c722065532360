"""From a checked GGUF header to what the planner knows about a model. Pure: no file is touched.

Facts and where they stand in llama.cpp: per-layer keys and their defaults in ``src/llama-model.cpp``
(``load_hparams``), sliding windows in ``src/models/gemma2.cpp``, ``gemma3.cpp`` and ``phi3.cpp`` with
``llama_hparams::set_swa_pattern``, KV widths in ``llama_hparams::n_embd_k_gqa``, copied weights in
``ggml/src/ggml-cpu/repack.cpp`` (``ggml_repack_get_optimal_repack_type``).

An architecture outside ``SUPPORTED``, or a feature that the closed form does not cover, gives
``supported=False``: its memory is never guessed.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import LayerKv, ModelSpec
from muniment_runtime.model.ggml_types import FILE_TYPES, base_type
from muniment_runtime.model.gguf import GgufArray, GgufHeader

__all__ = ["SUPPORTED", "Cpu", "host_cpu", "model_spec", "quantization_name", "repack_bytes"]

SUPPORTED = frozenset({"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"})

# Any of these, above zero, means a feature that the closed form of this version leaves out: mixture of experts,
# latent attention, recurrent layers, layers that share KV, other widths inside the window, prediction layers.
_UNCOVERED = (
    "expert_count",
    "attention.kv_lora_rank",
    "attention.key_length_mla",
    "attention.shared_kv_layers",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "ssm.conv_kernel",
    "shortconv.l_cache",
    "wkv.head_size",
    "nextn_predict_layers",
    "full_attention_interval",
)

MAX_LAYERS = 1024

_PATTERN_DEFAULT = {"gemma2": 2, "gemma3": 6}
_WINDOW_DEFAULT = {"gemma2": 4096}
_CHATML_FAMILIES = frozenset({"llama", "qwen2", "qwen3"})
_CHATML_MARK = "<|im_start|>"

# Tensors that are only ever looked up by row are not matrix products, hence never copied (see the tied case below).
_LOOKUP_ONLY = frozenset({"token_embd.weight", "position_embd.weight", "token_types.weight"})


class Cpu(StrEnum):
    """Processor family, as far as the copied weights depend on it."""

    X86 = "x86"
    ARM = "arm"


# Tensor type -> the number that the count of rows must divide by.
_REPACKED: Mapping[Cpu, Mapping[str, int]] = {
    Cpu.X86: {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8, "Q2_K": 8},
    Cpu.ARM: {"Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "IQ4_NL": 4, "MXFP4": 4, "Q8_0": 4, "Q1_0": 4},
}


def host_cpu(machine: str | None = None) -> Cpu:
    """Return the family of this machine's processor (``machine`` as in ``platform.machine()``)."""
    name = (machine or platform.machine()).lower()
    return Cpu.ARM if name.startswith(("arm", "aarch")) else Cpu.X86


def repack_bytes(header: GgufHeader, cpu: Cpu) -> int:
    """Return an upper bound of the weights that the CPU backend may copy into another layout, in bytes.

    With ``use_extra_bufts`` on, llama.cpp copies matrices of some types into anonymous memory while the mapped
    source pages stay: those bytes come on top of the weights. With it off nothing is copied and the real figure
    is 0; whoever sets that option decides which applies, so this number is never part of ``weights_bytes``.
    The bound assumes the widest instruction set of the family that the portable or tuned builds use (x86 with
    AVX-512 but without AMX; ARM with dot product and int8 matrix instructions). A tied output matrix is the token
    embedding once more when its type is copied.
    """
    rules = _REPACKED[cpu]
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    total = 0
    for tensor in header.tensors:
        divisor = rules.get(tensor.type.name)
        # Two dimensions: a matrix; three: a stack of expert matrices.
        if divisor is None or len(tensor.shape) not in (2, 3) or tensor.shape[1] % divisor:
            continue
        if tensor.name not in _LOOKUP_ONLY or (tied and tensor.name == "token_embd.weight"):
            total += tensor.size_bytes
    return total


def quantization_name(header: GgufHeader) -> str:
    """Return the human name of the quantization, such as ``Q4_K_M``.

    ``general.file_type`` is only a hint: it is believed when the type it is built on really occurs, else the type
    that holds most bytes is named. (Small models of type ``Q4_K_M`` hold mostly ``Q5_0``, because their rows do not
    divide into blocks of 256.)
    """
    held: Counter[str] = Counter()
    for tensor in header.tensors:
        if len(tensor.shape) > 1:
            held[tensor.type.name] += tensor.size_bytes
    number = header.metadata.get("general.file_type")
    hint = FILE_TYPES.get(number) if isinstance(number, int) else None
    if hint is not None and base_type(hint) in held:
        return hint
    return held.most_common(1)[0][0] if held else "F32"


def model_spec(
    header: GgufHeader,
    *,
    model_id: str,
    path: Path,
    sha256: str,
    template: str | None = None,
    languages: tuple[str, ...] = (),
    cpu: Cpu | None = None,
) -> ModelSpec:
    """Describe a model.

    Args:
        header: The checked header.
        model_id: Catalogue id, or a safe name for an imported file.
        path: The file.
        sha256: Of the whole file.
        template: Key of the reviewed template from the catalogue. Without one, a family whose reviewed template is
            known gets it when the file's own template uses the same markers; the file's template is never run.
        languages: From the catalogue.
        cpu: Whose rule ``repack_bytes`` follows; this machine's by default.

    Raises:
        KnownError: ``E-MODEL-SPLIT`` for one part of a split model; ``E-MODEL-MALFORMED`` when a supported
            architecture lacks a key or holds an impossible value (``what``: the key).
    """
    keys = _Keys(header, path.name)
    if keys.number("split.count", 0, prefixed=False) > 1:
        raise KnownError("E-MODEL-SPLIT", name=path.name)
    supported = keys.strict
    layers = _layers(keys) if supported else ()
    count = keys.number("block_count")
    heads = keys.per_layer("attention.head_count", count)
    heads_kv = keys.per_layer("attention.head_count_kv", count, fallback=heads)
    embedding = keys.number("embedding_length")
    head_dim = keys.number("attention.key_length", embedding // max(heads[0], 1) if heads else 0)
    feed_forward = keys.per_layer("feed_forward_length", count)
    return ModelSpec(
        model_id=model_id,
        path=path,
        sha256=sha256,
        architecture=keys.architecture,
        quantization=quantization_name(header),
        file_bytes=header.file_bytes,
        weights_bytes=sum(tensor.size_bytes for tensor in header.tensors),
        repack_bytes=repack_bytes(header, cpu or host_cpu()),
        layers=layers,
        layer_count=count,
        embedding_length=embedding,
        feed_forward_length=max(feed_forward, default=0),
        head_count=max(heads, default=0),
        head_count_kv=max(heads_kv, default=0),
        head_dim=head_dim,
        vocabulary=keys.vocabulary(),
        context_train=keys.number("context_length"),
        parameters=sum(tensor.elements for tensor in header.tensors),
        template=template or _family_template(keys.architecture, header),
        languages=languages,
        supported=supported,
    )


def _layers(keys: _Keys) -> tuple[LayerKv, ...]:
    """KV shape of every layer of a supported architecture."""
    count = keys.number("block_count")
    if not 0 < count <= MAX_LAYERS:
        raise keys.refused("block_count")
    heads = keys.per_layer("attention.head_count", count)
    heads_kv = keys.per_layer("attention.head_count_kv", count, fallback=heads)
    if min(heads) <= 0 or min(heads_kv) <= 0:
        raise keys.refused("attention.head_count")
    default = keys.number("embedding_length") // heads[0]
    k_dim = keys.number("attention.key_length", default)
    v_dim = keys.number("attention.value_length", default)
    if k_dim <= 0 or v_dim <= 0:
        raise keys.refused("attention.key_length")
    windows = _windows(keys, count)
    return tuple(
        LayerKv(k_elements=k_dim * kv, v_elements=v_dim * kv, window=window)
        for kv, window in zip(heads_kv, windows, strict=True)
    )


def _windows(keys: _Keys, count: int) -> tuple[int, ...]:
    """Sliding window per layer, 0 for global ones.

    Only gemma2 and gemma3 use the key: llama and qwen never read it, phi3 reads and then ignores it.
    """
    if keys.architecture not in _PATTERN_DEFAULT:
        return (0,) * count
    window = keys.number("attention.sliding_window", _WINDOW_DEFAULT.get(keys.architecture, 0))
    if window == 0:
        return (0,) * count
    flags = keys.array("attention.sliding_window_pattern")
    if flags is not None:
        if len(flags) != count:
            raise keys.refused("attention.sliding_window_pattern")
        return tuple(window if flag else 0 for flag in flags)
    period = keys.number("attention.sliding_window_pattern", _PATTERN_DEFAULT[keys.architecture])
    if period == 0:
        return (window,) * count
    return tuple(window if layer % period < period - 1 else 0 for layer in range(count))


def _family_template(architecture: str, header: GgufHeader) -> str | None:
    untrusted_template = header.metadata.get("tokenizer.chat_template")
    if architecture in _CHATML_FAMILIES and isinstance(untrusted_template, str) and _CHATML_MARK in untrusted_template:
        return "chatml"
    return None


class _Keys:
    """Typed access to the metadata of one architecture.

    ``strict`` is on for a supported architecture: a missing or impossible value is then refused. Otherwise it is
    read as 0, because nothing is computed from it.
    """

    def __init__(self, header: GgufHeader, name: str) -> None:
        self._metadata = header.metadata
        self._name = name
        architecture = header.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise self.refused("general.architecture")
        self.architecture = architecture
        self.strict = architecture in SUPPORTED and not self._uncovered()

    def number(self, key: str, default: int | None = None, *, prefixed: bool = True) -> int:
        """Return a whole number that is not negative; without a default the key must be there."""
        value = self._metadata.get(f"{self.architecture}.{key}" if prefixed else key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            if self.strict:
                raise self.refused(key)
            return default or 0
        return value

    def array(self, key: str) -> tuple[bool | int | float | str, ...] | None:
        """Return an array's elements, or ``None`` when the key is missing, not an array or too large."""
        value = self._metadata.get(f"{self.architecture}.{key}")
        return value.values if isinstance(value, GgufArray) else None

    def per_layer(self, key: str, count: int, *, fallback: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return one number per layer from a scalar or an array; ``fallback`` stands in for a missing key."""
        if fallback is not None and f"{self.architecture}.{key}" not in self._metadata:
            return fallback
        values = self.array(key)
        if values is None:
            return (self.number(key),) * min(count, MAX_LAYERS)
        numbers = tuple(value for value in values if isinstance(value, int) and value >= 0)
        if self.strict and (len(numbers) != len(values) or len(numbers) != count):
            raise self.refused(key)
        return numbers

    def vocabulary(self) -> int:
        """Return the number of tokens: the tokenizer's list counts, as in llama.cpp, else ``vocab_size``."""
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, GgufArray) else self.number("vocab_size")

    def refused(self, key: str) -> KnownError:
        return KnownError("E-MODEL-MALFORMED", name=self._name, what=key)

    def _uncovered(self) -> bool:
        """Whether a feature is used that the closed form leaves out."""
        if self._metadata.get(f"{self.architecture}.attention.causal") is False:
            return True
        values = (self._metadata.get(f"{self.architecture}.{key}") for key in _UNCOVERED)
        return any(value not in (None, 0, False) for value in values)

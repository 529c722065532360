"""From a checked GGUF header to what the planner knows about a model. Pure: no file is touched.

The widths behind the memory figures come from ``shape``, the copied weights from ``repack``. A model that the closed
form does not cover gives ``supported=False``: its memory is never guessed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import ModelSpec
from muniment_runtime.model.ggml_types import FILE_TYPES, base_type
from muniment_runtime.model.gguf import GgufHeader
from muniment_runtime.model.keys import Keys
from muniment_runtime.model.repack import Cpu, host_cpu, repack_bytes, tied_copy_bytes
from muniment_runtime.model.shape import ModelShape, covered, model_shape

__all__ = ["model_spec", "quantization_name"]

_CHATML_FAMILIES = frozenset({"llama", "qwen2", "qwen3"})
_CHATML_MARK = "<|im_start|>"


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
        cpu: The processor that decides which weights are copied; this machine's by default.

    Raises:
        KnownError: ``E-MODEL-SPLIT`` for one part of a split model; ``E-MODEL-MALFORMED`` when a supported
            architecture lacks a key or holds an impossible value (``what``: the key).
    """
    keys = Keys(header, path.name)
    if keys.number("split.count", 0, prefixed=False) > 1:
        raise KnownError("E-MODEL-SPLIT", name=path.name)
    keys.strict = supported = covered(keys, header)
    shape = model_shape(keys, header) if supported else None
    count = keys.number("block_count")
    optional = None if shape is None or shape.cache else 0
    heads = keys.per_layer("attention.head_count", count, default=optional)
    heads_kv = keys.per_layer("attention.head_count_kv", count, fallback=heads)
    embedding = keys.number("embedding_length")
    layers = shape.graph.layers if shape else ()
    feed_forward = keys.per_layer("feed_forward_length", count, default=0)
    processor = cpu or host_cpu()
    return ModelSpec(
        model_id=model_id,
        path=path,
        sha256=sha256,
        architecture=keys.architecture,
        quantization=quantization_name(header),
        file_bytes=header.file_bytes,
        weights_bytes=sum(tensor.size_bytes for tensor in header.tensors),
        repack_bytes=repack_bytes(header, processor),
        layers=shape.cache if shape else (),
        layer_count=count,
        embedding_length=embedding,
        feed_forward_length=max(feed_forward, default=0),
        head_count=max(heads, default=0),
        head_count_kv=max(heads_kv, default=0),
        head_dim=keys.number("attention.key_length", embedding // max(*heads, 1) if heads else 0),
        vocabulary=keys.vocabulary(),
        context_train=keys.number("context_length"),
        parameters=sum(tensor.elements for tensor in header.tensors),
        template=template or _family_template(keys.architecture, header),
        languages=languages,
        supported=supported,
        recurrent_elements=shape.state_elements if shape else 0,
        experts_used=max((layer.experts_used for layer in layers), default=0),
        expert_feed_forward_length=max((layer.expert_feed_forward for layer in layers), default=0),
        latent=shape is not None and shape.graph.latent_rank > 0,
        single_sequence=_keeps_state(keys, shape),
        tied_copy_bytes=tied_copy_bytes(header, processor),
        shape=shape.graph if shape else None,
    )


def _keeps_state(keys: Keys, shape: ModelShape | None) -> bool:
    """Whether some layer keeps a recurrent state; known by its keys also where nothing else is."""
    if shape is not None:
        return shape.state_elements > 0
    return any(keys.holds(key) for key in ("ssm.conv_kernel", "shortconv.l_cache", "wkv.head_size", "kda.head_dim"))


def _family_template(architecture: str, header: GgufHeader) -> str | None:
    untrusted_template = header.metadata.get("tokenizer.chat_template")
    if architecture in _CHATML_FAMILIES and isinstance(untrusted_template, str) and _CHATML_MARK in untrusted_template:
        return "chatml"
    return None

"""What a model becomes when it is quantized again: offered types, name, label, size and memory. Pure.

Facts and where they stand in llama.cpp: which types need an importance matrix in ``src/llama-quant.cpp``
(``tensor_requires_imatrix``; ``IQ3_XS`` uses ``IQ3_XXS`` for some tensors), the type of each tensor in
``llama_tensor_get_type`` and ``tensor_type_fallback`` (rows that do not divide into blocks of 256 take a type with
blocks of 32). Those rules are not repeated here: the library tells the type of every tensor in a dry run, and this
module counts the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from muniment_resources.errors import KnownError
from muniment_runtime.model.ggml_types import FILE_TYPES, TENSOR_TYPES, TensorType, base_type
from muniment_runtime.model.gguf import GgufHeader
from muniment_runtime.model.store import safe_model_id

__all__ = [
    "BUFFER_BYTES",
    "OFFERED",
    "estimated_bytes",
    "file_type_number",
    "is_smaller",
    "made_type",
    "memory_bytes",
    "offered_type",
    "requantized_id",
    "requantized_label",
]

MIB = 1 << 20

OFFERED = (
    "Q2_K",
    "Q3_K_S",
    "Q3_K_M",
    "Q3_K_L",
    "IQ4_XS",
    "Q4_0",
    "Q4_K_S",
    "Q4_K_M",
    "Q5_K_S",
    "Q5_K_M",
    "Q6_K",
    "Q8_0",
)
"""File types that can be made without an importance matrix and serve a purpose, smallest first."""

_NEED_IMATRIX = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S"})

_LARGEST_PERCENT = 97
"""A file that is smaller by less than this is not worth the quality that each pass costs."""

BUFFER_BYTES = 32 * MIB
"""Rows that the library may hold at a time (``max_buf_size``).

Measured with llama-cpp-python 0.3.36 on two cores, ``Q2_K``: the 0.5B model took 93 MiB of private memory and 5.7 s
with this bound, 659 MiB and 8.6 s without; the file has the same size.
"""

_PROCESS_BYTES = 64 * MIB
_HEADER_FACTOR = 8
_ROW_FACTOR = 12

_LAYER_PREFIX = "blk."
_SUFFIX = "-requantized"
_MAX_ID_CHARACTERS = 80


def offered_type(text: str) -> str:
    """Return the file type that the user means, whatever the case of its letters.

    Raises:
        KnownError: ``E-QUANTIZE-TYPE`` (``type``, ``reason``: ``unknown`` or ``imatrix``, ``types``).
    """
    name = text.strip().upper()
    if name in OFFERED:
        return name
    reason = "imatrix" if name in _NEED_IMATRIX else "unknown"
    raise KnownError("E-QUANTIZE-TYPE", type=text, reason=reason, types=", ".join(OFFERED))


def file_type_number(name: str) -> int:
    """Return the number of an offered file type, as in ``general.file_type``."""
    return next(number for number, known in FILE_TYPES.items() if known == name)


def requantized_id(base_id: str, file_type: str, distinct: str = "") -> str:
    """Return the id of the model that is made: the base's id without its own type, the new type, and what it is.

    Args:
        base_id: Id of the base, such as ``qwen2.5-coder-1.5b-instruct-q4_k_m``.
        file_type: The type that was asked for.
        distinct: Start of the base's hash, for a base whose plain name is taken by a model of another base.
    """
    stem = base_id
    for known in sorted({*FILE_TYPES.values(), *(kind.name for kind in TENSOR_TYPES.values())}, key=len, reverse=True):
        short = base_id.removesuffix(known.lower()).rstrip("-._")
        if short and short != base_id and base_id[len(short)] in "-._":
            stem = short
            break
    ending = f"{'-' if distinct else ''}{distinct}-{file_type.lower()}{_SUFFIX}"
    return safe_model_id(stem[: _MAX_ID_CHARACTERS - len(ending)] + ending)


def estimated_bytes(header: GgufHeader, types: Mapping[str, TensorType]) -> int:
    """Return the size of the file when each tensor has the given type.

    Every tensor is padded, the last one too. The metadata keep their size, but for two numbers that are added where
    they are missing.
    """
    total = header.data_offset
    for tensor in header.tensors:
        kind = types[tensor.name]
        size = tensor.elements // kind.block_elements * kind.block_bytes
        total += -(-size // header.alignment) * header.alignment
    return total


def is_smaller(result_bytes: int, source_bytes: int) -> bool:
    """Whether the result is smaller by at least 3 %."""
    return result_bytes * 100 <= source_bytes * _LARGEST_PERCENT


def memory_bytes(header: GgufHeader) -> int:
    """Return an upper bound of the private memory that the child takes.

    The process with the library, its copies of the metadata, and the bounded buffers; one row is always held whole, in
    both types and as numbers of four bytes. The source is mapped and the output goes through the page cache: both give
    way when memory is short.

    Measured with llama-cpp-python 0.3.36 (peak of private memory, against this bound): smollm2-135m 38 of 110 MiB,
    qwen2.5-coder 0.5B 93 of 142 MiB, 1.5B 97 of 142 MiB.
    """
    longest_row = max((tensor.shape[0] for tensor in header.tensors), default=0)
    buffers = max(BUFFER_BYTES, longest_row * _ROW_FACTOR)
    return _PROCESS_BYTES + _HEADER_FACTOR * header.data_offset + buffers


def made_type(header: GgufHeader, file_type: str) -> str:
    """Return what a finished file is: the type that was asked for when most weights of its layers are built on it.

    Otherwise the tensor type of most weights: rows that do not fit the asked type fell back to another one. Embeddings
    do not count; in a small model they weigh as much as all layers, and the library always gives them more bits.
    """
    matrices = [tensor for tensor in header.tensors if len(tensor.shape) > 1]
    layers = [tensor for tensor in matrices if tensor.name.startswith(_LAYER_PREFIX)]
    held: Counter[str] = Counter()
    for tensor in layers or matrices:
        held[tensor.type.name] += tensor.elements
    most = held.most_common(1)[0][0] if held else file_type
    return file_type if base_type(file_type) == most else most


def requantized_label(header: GgufHeader, file_type: str, base_quantization: str) -> str:
    """Return the label of a finished file, such as ``Q2_K-from-Q4_K_M``: it is worse than ``Q2_K`` made from originals.

    One word without spaces, so that it may stand in the audit log as it is.
    """
    return f"{made_type(header, file_type)}-from-{base_quantization}"

"""Weightless twins of model files: the real header over a hole where the weights would be.

llama.cpp's dry run reads the header and checks that every tensor lies inside the file, but touches no weight. A file
with the same shapes and no data therefore gives the same sizes, takes some kilobytes of disk, and loads without the
time that a real tokenizer takes.

Facts used, in llama.cpp: scalars must have the exact type that is asked for, which is ``uint32`` for every whole
number of a model's shape (``src/llama-model-loader.cpp``, ``GGUFMeta::GKV``); a file without a tokenizer says
``no_vocab`` and states its size (``src/llama-vocab.cpp``, ``llama_vocab::impl::load``).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.model.ggml_types import TENSOR_TYPES
from muniment_runtime.model.gguf import GgufArray, GgufHeader, MetadataValue

__all__ = ["Shape", "ShapeTensor", "ShapeValue", "write_shape", "write_skeleton"]

_VERSION = 3
_ALIGNMENT = 32
_ALIGNMENT_KEY = "general.alignment"
_ARCHITECTURE_KEY = "general.architecture"
_TOKENIZER = "tokenizer."
_TOKENIZER_MODEL = "tokenizer.ggml.model"
_TOKENS = "tokenizer.ggml.tokens"
_NO_VOCABULARY = "no_vocab"
_UINT32_LIMIT = 1 << 32
_FLOAT32_MAX = 3.4028234e38

# enum gguf_type: number and struct code
_ARRAY = 9
_CODES: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "uint8": (0, "B"),
        "int8": (1, "b"),
        "uint16": (2, "H"),
        "int16": (3, "h"),
        "uint32": (4, "I"),
        "int32": (5, "i"),
        "float32": (6, "f"),
        "bool": (7, "?"),
        "string": (8, ""),
        "uint64": (10, "Q"),
        "int64": (11, "q"),
        "float64": (12, "d"),
    }
)
_TYPE_NUMBERS: Mapping[str, int] = MappingProxyType({kind.name: kind.number for kind in TENSOR_TYPES.values()})

# A hole costs nothing; the header and the file system's own bookkeeping stay far below this.
_SLACK_BYTES = 1 << 20
_BLOCK_BYTES = 512  # unit of st_blocks (POSIX)

ShapeValue = bool | int | float | str | Sequence[int] | Sequence[bool]
"""A metadata value of a shape: whole numbers are ``uint32``, fractions ``float32``, sequences arrays."""


@dataclass(frozen=True)
class ShapeTensor:
    """One tensor of a shape: ``shape`` innermost first, ``type_name`` such as ``Q4_K``."""

    name: str
    shape: tuple[int, ...]
    type_name: str


@dataclass(frozen=True)
class Shape:
    """A model without weights, described in full.

    Attributes:
        architecture: ``general.architecture``.
        vocabulary: Number of tokens.
        keys: Metadata without the architecture's prefix, such as ``block_count``.
        tensors: In file order.
    """

    architecture: str
    vocabulary: int
    keys: Mapping[str, ShapeValue]
    tensors: tuple[ShapeTensor, ...]

    @property
    def weights_bytes(self) -> int:
        """Sum of tensor sizes, without padding."""
        return sum(_tensor_bytes(tensor.shape, _TYPE_NUMBERS[tensor.type_name]) for tensor in self.tensors)


def write_shape(shape: Shape, path: Path) -> Path | None:
    """Write a described model as a weightless file.

    Args:
        shape: The description.
        path: A file that does not exist yet.

    Returns:
        The path, or ``None`` when the file system keeps no holes: then nothing is left behind.

    Raises:
        OSError: The file cannot be written.
    """
    prefix = shape.architecture + "."
    pairs = [
        _pair(_ARCHITECTURE_KEY, "string", shape.architecture),
        _pair(_TOKENIZER_MODEL, "string", _NO_VOCABULARY),
        _pair(prefix + "vocab_size", "uint32", shape.vocabulary),
        *(_any_pair(prefix + key, value) for key, value in shape.keys.items()),
    ]
    infos = [(tensor.name, tensor.shape, _TYPE_NUMBERS[tensor.type_name]) for tensor in shape.tensors]
    return _write(path, pairs, infos, _ALIGNMENT)


def write_skeleton(header: GgufHeader, path: Path) -> Path | None:
    """Write the weightless twin of a real file.

    Metadata and tensors are the same, but for the tokenizer: it is replaced by the statement of its size. The need of
    the vocabulary itself is not part of what a dry run reports.

    Args:
        header: The checked header of the real file.
        path: A file that does not exist yet.

    Returns:
        The path, or ``None`` when no twin is possible and the real file must be used: the file system keeps no holes,
        or the header holds a large array outside the tokenizer, whose elements were not kept.

    Raises:
        KnownError: ``E-MODEL-MALFORMED`` (``what``: the key) when the file states no architecture.
        OSError: The file cannot be written.
    """
    architecture = header.metadata.get(_ARCHITECTURE_KEY)
    if not isinstance(architecture, str) or not architecture:
        raise KnownError("E-MODEL-MALFORMED", name=path.name, what=_ARCHITECTURE_KEY)
    size_key = f"{architecture}.vocab_size"
    # The tokenizer's list counts, as it does for llama.cpp; only a file without one states the size itself.
    tokens = header.metadata.get(_TOKENS)
    size = tokens.length if isinstance(tokens, GgufArray) else header.metadata.get(size_key)
    pairs = [_pair(_TOKENIZER_MODEL, "string", _NO_VOCABULARY)]
    if isinstance(size, int):
        pairs.append(_pair(size_key, "uint32", size))
    for key, value in header.metadata.items():
        if key == size_key or (key.startswith(_TOKENIZER) and isinstance(value, str | GgufArray)):
            continue
        if isinstance(value, GgufArray):
            if value.values is None:
                return None
            pairs.append(_array(key, value.element_type, value.values))
        else:
            pairs.append(_any_pair(key, value))
    infos = [(tensor.name, tensor.shape, tensor.type.number) for tensor in header.tensors]
    return _write(path, pairs, infos, header.alignment)


def _write(
    path: Path, pairs: Sequence[bytes], infos: Sequence[tuple[str, tuple[int, ...], int]], alignment: int
) -> Path | None:
    """Write the header and stretch the file over the weights; see ``write_skeleton`` for what comes back."""
    described: list[bytes] = []
    offset = 0
    for name, shape, number in infos:
        described.append(
            _text(name)
            + struct.pack(f"<I{len(shape)}q", len(shape), *shape)
            + struct.pack("<iQ", number, offset)  # layout of gguf_init_from_file in ggml/src/gguf.cpp
        )
        offset += _padded(_tensor_bytes(shape, number), alignment)
    counts = struct.pack("<Iqq", _VERSION, len(described), len(pairs))
    header = b"GGUF" + counts + b"".join(pairs) + b"".join(described)
    sparse = False
    with path.open("xb") as file:
        try:
            file.write(header)
            file.truncate(_padded(len(header), alignment) + offset)
            file.flush()
            sparse = _is_sparse(file.fileno(), len(header))
        finally:
            # Also when it failed, for lack of space or by a limit on file sizes: no half file stays.
            file.close()
            if not sparse:
                path.unlink(missing_ok=True)
    return path if sparse else None


def _is_sparse(descriptor: int, header_bytes: int) -> bool:
    """Return whether only the header takes room on the disk; unknown (Windows tells no blocks) counts as no."""
    blocks = getattr(os.fstat(descriptor), "st_blocks", None)
    return isinstance(blocks, int) and blocks * _BLOCK_BYTES <= header_bytes + _SLACK_BYTES


def _tensor_bytes(shape: Sequence[int], number: int) -> int:
    kind = TENSOR_TYPES[number]
    if shape[0] % kind.block_elements:
        raise BugError(f"a row of {shape[0]} elements cannot be stored as {kind.name}")
    return math.prod(shape) // kind.block_elements * kind.block_bytes


def _padded(value: int, step: int) -> int:
    return -(-value // step) * step


def _any_pair(key: str, value: MetadataValue | ShapeValue) -> bytes:
    # bool first: it is a whole number for Python.
    if isinstance(value, bool):
        return _pair(key, "bool", value)
    if isinstance(value, int):
        if value < 0:
            return _pair(key, "int32" if value >= -(1 << 31) else "int64", value)
        return _pair(key, "uint32" if value < _UINT32_LIMIT else "uint64", value)
    if isinstance(value, float):
        return _pair(key, "float64" if math.isfinite(value) and abs(value) > _FLOAT32_MAX else "float32", value)
    if isinstance(value, str):
        return _pair(key, "string", value)
    if isinstance(value, GgufArray):
        raise BugError("arrays are written with their element type")
    flags = all(isinstance(item, bool) for item in value)
    return _array(key, "bool" if flags else "int32", value)


def _pair(key: str, kind: str, value: bool | int | float | str) -> bytes:
    return _text(key) + struct.pack("<i", _CODES[kind][0]) + _scalar(kind, value)


def _array(key: str, kind: str, values: Sequence[bool | int | float | str]) -> bytes:
    head = struct.pack("<iiQ", _ARRAY, _CODES[kind][0], len(values))
    return _text(key) + head + b"".join(_scalar(kind, value) for value in values)


def _scalar(kind: str, value: bool | int | float | str) -> bytes:
    if isinstance(value, str):
        return _text(value)
    return struct.pack("<" + _CODES[kind][1], value)


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw

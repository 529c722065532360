"""Strict reader of GGUF headers, in pure Python: a file that fails here never reaches native code.

The layout is that of ``ggml/include/gguf.h`` (versions 2 and 3, little endian). Everything that llama.cpp's
``ggml/src/gguf.cpp`` and its handcrafted files in ``tests/test-gguf.cpp`` refuse is refused here too, and this
reader is stricter where leniency has led to memory errors: counts and lengths have hard caps, a dimension of zero
is refused, and the last tensor must end inside the file.

Only the header is read, through a sliding window with plain reads: a memory map would turn a file that shrinks
meanwhile into a fatal signal.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from muniment_resources.errors import KnownError
from muniment_runtime.model.ggml_types import TENSOR_TYPES, TensorType

__all__ = ["GgufArray", "GgufHeader", "GgufTensor", "MetadataValue", "read_header"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"

MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
MAX_TENSOR_NAME_BYTES = 63  # GGML_MAX_NAME - 1
MAX_KEY_BYTES = 65_535  # docs/gguf.md of ggml
# The caps below are ours: far above every published model, far below what could exhaust memory or time.
MAX_TENSORS = 65_536
MAX_PAIRS = 65_536
MAX_STRING_BYTES = 16 * 2**20
MAX_ARRAY_ELEMENTS = 4 * 2**20
MAX_HEADER_BYTES = 256 * 2**20
KEPT_NUMBERS = 4_096
KEPT_STRINGS = 64
KEPT_STRING_BYTES = 4_096

_WINDOW_BYTES = 2**20
_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1
_LENGTH = struct.Struct("<Q")

_STRING, _ARRAY, _BOOL, _UINT32 = 8, 9, 7, 4
# enum gguf_type -> (name, struct code, bytes)
_SCALARS: Mapping[int, tuple[str, str, int]] = MappingProxyType(
    {
        0: ("uint8", "B", 1),
        1: ("int8", "b", 1),
        2: ("uint16", "H", 2),
        3: ("int16", "h", 2),
        4: ("uint32", "I", 4),
        5: ("int32", "i", 4),
        6: ("float32", "f", 4),
        7: ("bool", "B", 1),
        10: ("uint64", "Q", 8),
        11: ("int64", "q", 8),
        12: ("float64", "d", 8),
    }
)


@dataclass(frozen=True)
class GgufArray:
    """An array of the metadata.

    Attributes:
        element_type: ``uint32``, ``bool``, ``string`` and so on.
        length: Number of elements.
        values: The elements, or ``None`` when the array is large (a tokenizer's tokens): then only its length
            and well-formedness are known.
    """

    element_type: str
    length: int
    values: tuple[bool | int | float | str, ...] | None


MetadataValue = bool | int | float | str | GgufArray


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: ``shape`` innermost first, ``offset`` from the start of the data section, size without padding."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    size_bytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        product = 1
        for dimension in self.shape:
            product *= dimension
        return product


@dataclass(frozen=True)
class GgufHeader:
    """Everything before the tensor data, checked. ``data_offset`` and ``file_bytes`` are in bytes."""

    version: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[GgufTensor, ...]
    alignment: int
    data_offset: int
    file_bytes: int


def read_header(path: Path) -> GgufHeader:
    """Read and check the header of a GGUF file.

    Raises:
        KnownError: ``E-MODEL-FILE`` (``name``) when there is no readable regular file;
            ``E-MODEL-MALFORMED`` (``name``, ``what``: stable reason key) when any check fails.
    """
    try:
        # Opening a pipe or a device could block for ever, so the kind is checked first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise KnownError("E-MODEL-FILE", name=path.name)
        with path.open("rb") as file:
            return _Reader(file, path.name).header()
    except OSError as error:
        raise KnownError("E-MODEL-FILE", name=path.name) from error


class _Reader:
    """Cursor over the file. Every read is checked against the real size first."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._size = file.seek(0, 2)
        self._position = 0
        self._window = b""
        self._window_start = 0

    def header(self) -> GgufHeader:
        if self._size < len(MAGIC) or self._take(len(MAGIC)) != MAGIC:
            raise self._refused("magic")
        version = self._uint32()
        if version and version & 0xFFFF == 0:
            raise self._refused("byte-order")
        if version not in VERSIONS:
            raise self._refused("version")
        tensor_count = self._int64()
        # A tensor takes at least 32 bytes (name length, dimensions, one dimension, type, offset).
        if not 0 <= tensor_count <= min(MAX_TENSORS, self._left // 32):
            raise self._refused("tensor-count")
        pair_count = self._int64()
        # A pair takes at least 14 bytes (key length, one character, type, one byte).
        if not 0 <= pair_count <= min(MAX_PAIRS, self._left // 14):
            raise self._refused("pair-count")
        metadata: dict[str, MetadataValue] = {}
        alignment = DEFAULT_ALIGNMENT
        for _ in range(pair_count):
            key = self._key(metadata)
            value_type = self._int32()
            value = self._value(value_type)
            if key == ALIGNMENT_KEY:
                alignment = self._alignment(value_type, value)
            metadata[key] = value
        tensors = self._tensors(tensor_count, alignment)
        # Without tensors there is no data section, so nothing is padded (gguf.cpp does the same).
        data_offset = _padded(self._position, alignment) if tensors else self._position
        self._check_layout(tensors, alignment, data_offset)
        return GgufHeader(version, MappingProxyType(metadata), tensors, alignment, data_offset, self._size)

    # --- metadata ---------------------------------------------------------------------------------------------

    def _key(self, seen: Mapping[str, MetadataValue]) -> str:
        length = self._uint64()
        if not 0 < length <= MAX_KEY_BYTES:
            raise self._refused("key-size")
        try:
            key = self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._refused("key-text") from error
        if key in seen:
            raise self._refused("key-duplicate")
        return key

    def _value(self, value_type: int) -> MetadataValue:
        if value_type == _ARRAY:
            return self._array()
        if value_type == _STRING:
            length = self._uint64()
            if length > MAX_STRING_BYTES:
                raise self._refused("string-size")
            # Published files carry stray bytes in free text; the text is data only, never trusted.
            return self._take(length).decode("utf-8", "replace")
        if value_type not in _SCALARS:
            raise self._refused("value-type")
        return self._numbers(value_type, 1)[0]

    def _array(self) -> GgufArray:
        element_type = self._int32()
        length = self._uint64()
        if element_type == _ARRAY:
            raise self._refused("array-nested")
        if element_type != _STRING and element_type not in _SCALARS:
            raise self._refused("array-type")
        if length > MAX_ARRAY_ELEMENTS:
            raise self._refused("array-size")
        if element_type == _STRING:
            return self._strings(length)
        name, _, width = _SCALARS[element_type]
        if length > KEPT_NUMBERS:
            self._skip(length * width)
            return GgufArray(name, length, None)
        return GgufArray(name, length, self._numbers(element_type, length))

    def _numbers(self, value_type: int, count: int) -> tuple[bool | int | float, ...]:
        _, code, width = _SCALARS[value_type]
        numbers = struct.unpack(f"<{count}{code}", self._take(count * width))
        if value_type != _BOOL:
            return numbers
        if any(number > 1 for number in numbers):
            raise self._refused("bool-value")
        return tuple(number == 1 for number in numbers)

    def _strings(self, length: int) -> GgufArray:
        if length * _LENGTH.size > self._left:
            raise self._refused("truncated")
        if length > KEPT_STRINGS:
            self._skip_strings(length)
            return GgufArray("string", length, None)
        kept: list[str] | None = []
        for _ in range(length):
            size = self._uint64()
            if size > MAX_STRING_BYTES:
                raise self._refused("string-size")
            if kept is not None and size <= KEPT_STRING_BYTES:
                kept.append(self._take(size).decode("utf-8", "replace"))
            else:
                kept = None
                self._skip(size)
        return GgufArray("string", length, None if kept is None else tuple(kept))

    def _skip_strings(self, length: int) -> None:
        """Walk over a tokenizer's strings: a tight loop, because there are hundreds of thousands."""
        unpack = _LENGTH.unpack_from
        for _ in range(length):
            start = self._position - self._window_start
            if start < 0 or start + _LENGTH.size > len(self._window):
                size = self._uint64()
            else:
                (size,) = unpack(self._window, start)
                self._position += _LENGTH.size
            if size > MAX_STRING_BYTES:
                raise self._refused("string-size")
            self._position += size
            if self._position > self._size:
                raise self._refused("truncated")

    def _alignment(self, value_type: int, value: MetadataValue) -> int:
        if value_type != _UINT32 or not isinstance(value, int):
            raise self._refused("alignment-type")
        if value == 0 or value & (value - 1):
            raise self._refused("alignment")
        return value

    # --- tensors ----------------------------------------------------------------------------------------------

    def _tensors(self, count: int, alignment: int) -> tuple[GgufTensor, ...]:
        seen: set[str] = set()
        tensors: list[GgufTensor] = []
        for _ in range(count):
            tensor = self._tensor(alignment)
            if tensor.name in seen:
                raise self._refused("tensor-duplicate")
            seen.add(tensor.name)
            tensors.append(tensor)
        return tuple(tensors)

    def _tensor(self, alignment: int) -> GgufTensor:
        length = self._uint64()
        if not 0 < length <= MAX_TENSOR_NAME_BYTES:
            raise self._refused("tensor-name-size")
        try:
            name = self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._refused("tensor-name-text") from error
        dimensions = self._uint32()
        if not 0 < dimensions <= MAX_DIMENSIONS:
            raise self._refused("tensor-dimensions")
        shape = tuple(self._int64() for _ in range(dimensions))
        if min(shape) <= 0:
            raise self._refused("tensor-shape")
        elements = 1
        for dimension in shape:
            elements *= dimension
        if elements > _INT64_MAX:
            raise self._refused("tensor-elements")
        kind = TENSOR_TYPES.get(self._int32())
        if kind is None:
            raise self._refused("tensor-type")
        if shape[0] % kind.block_elements:
            raise self._refused("tensor-block")
        size_bytes = elements // kind.block_elements * kind.block_bytes
        if size_bytes > _UINT64_MAX - (alignment - 1):
            raise self._refused("tensor-bytes")
        offset = self._uint64()
        if offset % alignment:
            raise self._refused("offset-alignment")
        return GgufTensor(name, shape, kind, offset, size_bytes)

    def _check_layout(self, tensors: tuple[GgufTensor, ...], alignment: int, data_offset: int) -> None:
        """Tensors follow one another without gap or overlap, as gguf.cpp demands, and end inside the file."""
        expected = 0
        for tensor in tensors:
            if tensor.offset != expected:
                raise self._refused("offset-order")
            if data_offset + tensor.offset + tensor.size_bytes > self._size:
                raise self._refused("data-truncated")
            expected += _padded(tensor.size_bytes, alignment)

    # --- bytes ------------------------------------------------------------------------------------------------

    @property
    def _left(self) -> int:
        return self._size - self._position

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise self._refused("truncated")
        if self._position + count > MAX_HEADER_BYTES:
            raise self._refused("header-size")
        start = self._position - self._window_start
        if start < 0 or start + count > len(self._window):
            self._file.seek(self._position)
            self._window = self._file.read(max(count, _WINDOW_BYTES))
            self._window_start = self._position
            start = 0
            if len(self._window) < count:  # the file shrank meanwhile
                raise self._refused("truncated")
        self._position += count
        return self._window[start : start + count]

    def _skip(self, count: int) -> None:
        if count > self._left:
            raise self._refused("truncated")
        self._position += count

    def _uint32(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def _int32(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def _uint64(self) -> int:
        return int.from_bytes(self._take(8), "little")

    def _int64(self) -> int:
        return int.from_bytes(self._take(8), "little", signed=True)

    def _refused(self, what: str) -> KnownError:
        return KnownError("E-MODEL-MALFORMED", name=self._name, what=what)


def _padded(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment

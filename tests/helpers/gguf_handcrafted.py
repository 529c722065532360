"""Random but valid GGUF files, and every fault of llama.cpp's handcrafted test files, applied to them.

The kinds carry the names of ``enum handcrafted_file_type`` in llama.cpp's ``tests/test-gguf.cpp``. Each fault changes
one thing of a file that is valid without it, and varies what it sets, where, and what stands around it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from muniment_runtime.model.ggml_types import TENSOR_TYPES
from tests.helpers import gguf_writer as gw

ALIGNMENT_KEY = "general.alignment"
ALIGNMENTS = (None, None, None, 1, 2, 8, 16, 32, 64, 4096)
F32, I8, I32, I64, F64 = 0, 24, 26, 27, 28
WIDTHS = {F32: 4, I32: 4, I64: 8, F64: 8}
INT64, UINT64 = 2**63, 2**64


@dataclass(frozen=True)
class Info:
    """One tensor. What the file says about it may differ from what it is: then a field below is set.

    Attributes:
        size_bytes: Its data, from which the next offset follows.
        said_name_bytes, said_dimensions, said_offset: Written instead of the right value.
    """

    name: bytes
    shape: tuple[int, ...]
    type_number: int
    size_bytes: int
    said_name_bytes: int | None = None
    said_dimensions: int | None = None
    said_offset: int | None = None

    def with_shape(self, shape: tuple[int, ...]) -> Info:
        return replace(self, shape=shape)

    def encoded(self, offset: int) -> bytes:
        name_bytes = len(self.name) if self.said_name_bytes is None else self.said_name_bytes
        dimensions = len(self.shape) if self.said_dimensions is None else self.said_dimensions
        at = offset if self.said_offset is None else self.said_offset
        shape = b"".join(struct.pack("<q", dimension) for dimension in self.shape)
        head = struct.pack("<Q", name_bytes) + self.name + struct.pack("<I", dimensions)
        return head + shape + struct.pack("<iQ", self.type_number, at % UINT64)


@dataclass
class Draft:
    """A file under construction.

    Attributes:
        alignment: Value of its key, ``None`` for the default without a key.
        laid_out: Alignment that the offsets follow, ``None`` for the right one.
        pairs: Encoded pairs, the one of the alignment not among them.
        alignment_at: Where among the pairs that one stands.
        tensor_count, pair_count: Written instead of the right value.
        padded: The last tensor is padded like the others, as most writers do.
        cut_bytes: How much of the last tensors' data is missing.
    """

    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int | None = None
    laid_out: int | None = None
    pairs: list[bytes] = field(default_factory=list)
    alignment_at: int = 0
    tensors: list[Info] = field(default_factory=list)
    tensor_count: int | None = None
    pair_count: int | None = None
    padded: bool = True
    cut_bytes: int = 0

    @property
    def pad(self) -> int:
        """The alignment; of one that is not valid, and may be huge, the default."""
        return self.alignment if self.alignment is not None and self.alignment in ALIGNMENTS else 32

    def all_pairs(self) -> list[bytes]:
        if self.alignment is None:
            return self.pairs
        pairs = list(self.pairs)
        pairs.insert(self.alignment_at, gw.pair(ALIGNMENT_KEY, "uint32", self.alignment))
        return pairs

    def header(self) -> tuple[bytes, int]:
        """Return everything before the data, padded, and how many bytes of data follow."""
        step = self.pad if self.laid_out is None else self.laid_out
        infos, offset, end = [], 0, 0
        for info in self.tensors:
            infos.append(info.encoded(offset))
            end = offset + info.size_bytes
            offset = gw.padded(end, step)
        pairs = self.all_pairs()
        counts = struct.pack(
            "<qq",
            len(infos) if self.tensor_count is None else self.tensor_count,
            len(pairs) if self.pair_count is None else self.pair_count,
        )
        head = self.magic + struct.pack("<I", self.version) + counts + b"".join(pairs) + b"".join(infos)
        if infos:
            head += bytes(gw.padded(len(head), self.pad) - len(head))
        return head, end

    def write(self, path: Path) -> bytes:
        """Write the file, its data as a hole; return the header and the length, which tell files apart."""
        head, end = self.header()
        if self.padded and not self.cut_bytes:
            end = gw.padded(end, self.pad)
        size = len(head) + end - self.cut_bytes
        # A new file each time: emptying an old one makes some file systems write it to the disk at once.
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            file.write(head[:size])
            file.truncate(size)
        return head + struct.pack("<q", size)


# --- valid content ------------------------------------------------------------------------------------------------


def _word(source: random.Random, longest: int = 24) -> str:
    return "".join(source.choices("abcdefghijk._-é你", k=source.randint(1, longest)))


def value(source: random.Random, kind: str) -> object:
    """Return a random value of a scalar type of the metadata."""
    if kind == "string":
        return source.randbytes(source.randint(0, 40))
    if kind == "bool":
        return source.randint(0, 1)
    code = gw.TYPES[kind][1]
    if kind.startswith("float"):
        return source.uniform(-1e6, 1e6)
    return struct.unpack("<" + code, source.randbytes(struct.calcsize(code)))[0]


def random_pair(source: random.Random, key: str) -> bytes:
    """Return a pair of any type, arrays of every type among them."""
    kind = source.choice(list(gw.TYPES))
    if source.random() < 0.4:
        return gw.array(key, kind, [value(source, kind) for _ in range(source.choice((0, 1, 3, 17, 80)))])
    return gw.pair(key, kind, value(source, kind))


def random_tensor(source: random.Random, name: str) -> Info:
    """Return a small tensor of any type with one to four dimensions."""
    kind = source.choice(list(TENSOR_TYPES.values()))
    shape = [kind.block_elements * source.randint(1, 3)]
    shape += [source.randint(1, 4) for _ in range(source.randint(0, 3))]
    elements = 1
    for dimension in shape:
        elements *= dimension
    size = elements // kind.block_elements * kind.block_bytes
    return Info(name.encode(), tuple(shape), kind.number, size)


def random_draft(source: random.Random) -> Draft:
    """Return a valid file with at least one pair and at least two tensors."""
    pairs = [random_pair(source, f"{number}.{_word(source)}") for number in range(source.randint(1, 8))]
    tensors = [random_tensor(source, f"{number}.{_word(source, 12)}") for number in range(source.randint(2, 7))]
    return Draft(
        version=source.choice((2, 3)),
        alignment=source.choice(ALIGNMENTS),
        pairs=pairs,
        alignment_at=source.randint(0, len(pairs)),
        tensors=tensors,
    )


# --- faults -------------------------------------------------------------------------------------------------------


def _any_size(source: random.Random, low: int, high: int) -> int:
    """Return a number in [low, high), small and huge ones alike; often one next to a border."""
    if source.random() < 0.3:
        return source.choice((low, low + 1, high - 1, high - 2))
    return min(high - 1, max(low, source.getrandbits(source.randint(low.bit_length(), (high - 1).bit_length()))))


def _other_number(source: random.Random) -> int:
    """Return a signed 32-bit number that no enumeration uses."""
    return source.choice((-1, -(2**31), 2**31 - 1, -source.randint(1, 2**31), source.randint(43, 2**31 - 1)))


def _bad_count(draft: Draft, source: random.Random) -> int:
    head, end = draft.header()
    return _any_size(source, len(head) + end, INT64) if source.random() < 0.5 else -_any_size(source, 1, INT64 + 1)


def _change(draft: Draft, source: random.Random, change: Callable[[Info], Info]) -> None:
    """Change one tensor, anywhere."""
    at = source.randrange(len(draft.tensors))
    draft.tensors[at] = change(draft.tensors[at])


def _put_pair(draft: Draft, source: random.Random, pair: bytes) -> None:
    draft.pairs.insert(source.randint(0, len(draft.pairs)), pair)


def _shape_of(source: random.Random, elements: int) -> tuple[int, ...]:
    """Return dimensions whose product is ``elements``, split at divisors where it has any."""
    shape = [elements]
    for _ in range(source.randint(0, 3)):
        divisors = [divisor for divisor in range(2, 40) if shape[0] % divisor == 0]
        if not divisors:
            break
        divisor = source.choice(divisors)
        shape = [shape[0] // divisor, divisor, *shape[1:]]
    source.shuffle(shape)
    return tuple(shape)


def _magic(draft: Draft, source: random.Random) -> None:
    flipped = bytearray(b"GGUF")
    flipped[source.randrange(4)] ^= 1 << source.randrange(8)
    known = (b"FUGG", b"GGML", b"ggjt", b"gguf", b"\0\0\0\0", b"PK\x03\x04")
    draft.magic = source.choice([*known, bytes(flipped), bytes(flipped), source.randbytes(3) + b"?"])


def _future(draft: Draft, source: random.Random) -> None:
    draft.version = source.choice((4, 0x03000000, 0x02000000, 2**32 - 1, _any_size(source, 4, 2**32)))


def _key_size(draft: Draft, source: random.Random) -> None:
    head, end = draft.header()
    size = source.choice((UINT64 - 1, _any_size(source, 65_536, UINT64), len(head) + end + source.randint(4096, 9999)))
    _put_pair(draft, source, struct.pack("<Q", size) + b"key" + struct.pack("<iI", 4, 1))


def _empty_key(draft: Draft, source: random.Random) -> None:
    _put_pair(draft, source, random_pair(source, ""))


def _value_type(draft: Draft, source: random.Random) -> None:
    number = source.choice((13, 14, 255, _other_number(source)))
    if source.random() < 0.5:
        number = source.choice((number, 9))
        kind = struct.pack("<iiQ", 9, number, source.choice((0, 1, 3, UINT64 - 1)))
    else:
        kind = struct.pack("<i", number)
    _put_pair(draft, source, gw.text(_word(source)) + kind + bytes(source.randint(0, 8)))


def _duplicate_key(draft: Draft, source: random.Random) -> None:
    if draft.alignment is not None and source.random() < 0.3:
        _put_pair(draft, source, gw.pair(ALIGNMENT_KEY, "uint32", draft.alignment))
        return
    pair = source.choice(draft.pairs)
    (length,) = struct.unpack_from("<Q", pair)
    key = pair[8 : 8 + length].decode()
    _put_pair(draft, source, pair if source.random() < 0.5 else random_pair(source, key))


def _alignment(draft: Draft, source: random.Random) -> None:
    odd = _any_size(source, 3, 2**32)
    draft.alignment = source.choice((0, 13, 33, odd if odd & (odd - 1) else odd ^ 1))


def _alignment_type(draft: Draft, source: random.Random) -> None:
    draft.alignment = None
    kind = source.choice([name for name in gw.TYPES if name != "uint32"])
    if source.random() < 0.3:
        pair = gw.array(ALIGNMENT_KEY, source.choice(("uint32", kind)), [])
    elif kind == "string":
        pair = gw.pair(ALIGNMENT_KEY, kind, "32")
    else:
        pair = gw.pair(ALIGNMENT_KEY, kind, 1 if kind == "bool" else 32)
    _put_pair(draft, source, pair)


def _name_size(draft: Draft, source: random.Random) -> None:
    name = b"n" * source.choice((64, 65, 127, 128, source.randint(64, 5000)))
    said = None if source.random() < 0.5 else _any_size(source, 64, UINT64)
    _change(draft, source, lambda info: replace(info, name=name if said is None else info.name, said_name_bytes=said))


def _dimensions(draft: Draft, source: random.Random) -> None:
    shape = (1,) * source.randint(5, 40)
    said = None if source.random() < 0.5 else _any_size(source, 5, 2**32)
    _change(
        draft, source, lambda info: replace(info, shape=shape if said is None else info.shape, said_dimensions=said)
    )


def _negative(draft: Draft, source: random.Random) -> None:
    def change(info: Info) -> Info:
        shape = list(info.shape)
        for place in source.sample(range(len(shape)), source.randint(1, len(shape))):
            shape[place] = -_any_size(source, 1, INT64 + 1)
        return replace(info, shape=tuple(shape))

    _change(draft, source, change)


def _too_many_elements(draft: Draft, source: random.Random) -> None:
    """A product of two to four dimensions above the largest signed 64-bit number, by one or by far."""
    count = source.randint(2, 4)
    # Numbers of n bits are at least 2^(n - 1), so the product of these is at least 2^63.
    bits = [source.randint(-(-63 // count) + 1, 62) for _ in range(count)]
    shape = tuple(source.getrandbits(bit - 1) | 1 << (bit - 1) for bit in bits)
    border = source.choice(((2**62, 2), (2**31, 2**32), (2**42 + 1, 2**42), (4 * (2**31 - 1),) * 2, (2**21,) * 3))
    _change(draft, source, lambda info: replace(info, shape=border if source.random() < 0.3 else shape))


def _too_many_bytes(draft: Draft, source: random.Random) -> None:
    number = source.choice(list(WIDTHS))
    shape = _shape_of(source, _any_size(source, UINT64 // WIDTHS[number], INT64))
    _change(draft, source, lambda info: replace(info, type_number=number, shape=shape))


def _pad_wraps(draft: Draft, source: random.Random) -> None:
    number = source.choice(list(WIDTHS))
    width = WIDTHS[number]
    draft.alignment = source.choice((None, 16, 32, 64, 4096))
    missing = source.randint(1, ((draft.alignment or 32) - 1) // width)
    shape = _shape_of(source, UINT64 // width - missing)
    _change(draft, source, lambda info: replace(info, type_number=number, shape=shape))


def _tensor_type(draft: Draft, source: random.Random) -> None:
    removed = [number for number in range(43) if number not in TENSOR_TYPES]
    number = source.choice((43, *removed, _other_number(source), _other_number(source)))
    _change(draft, source, lambda info: replace(info, type_number=number))


def _offset(draft: Draft, source: random.Random) -> None:
    at = source.randrange(len(draft.tensors))
    step = draft.alignment or 32
    right = 0
    for info in draft.tensors[:at]:
        right = gw.padded(right + info.size_bytes, step)
    wrong = source.choice((UINT64 - 1, right + step, right - step, right + 1, right - 1, _any_size(source, 1, UINT64)))
    draft.tensors[at] = replace(draft.tensors[at], said_offset=wrong + (wrong == right))


def _duplicate_name(draft: Draft, source: random.Random) -> None:
    first, second = source.sample(range(len(draft.tensors)), 2)
    draft.tensors[first] = replace(draft.tensors[first], name=draft.tensors[second].name)


def _inconsistent(draft: Draft, source: random.Random) -> None:
    """Offsets follow another alignment than the one the file names; the first tensor shows the difference."""
    said, laid_out = source.choice(((None, 1), (None, 8), (32, 16), (64, 1), (64, 32), (4096, 64), (1, 32), (8, 64)))
    draft.alignment, draft.laid_out = said, laid_out
    # 17 elements of four bytes end at no multiple of eight.
    draft.tensors[0] = replace(draft.tensors[0], shape=(17,), type_number=F32, size_bytes=68)


def _not_enough(draft: Draft, source: random.Random) -> None:
    last = draft.tensors[-1].size_bytes
    draft.cut_bytes = source.choice((1, last, source.randint(1, last), source.randint(1, draft.header()[1])))


def _sum_overflows(draft: Draft, source: random.Random) -> None:
    step = draft.alignment or 32
    for at in range(source.randint(2, len(draft.tensors))):
        size = (INT64 - step * source.randint(1, 99)) // step * step
        draft.tensors[at] = replace(draft.tensors[at], shape=(size,), type_number=I8, size_bytes=size)
    draft.cut_bytes = draft.header()[1] - source.choice((0, 32, 4096))


Fault = Callable[[Draft, random.Random], None]


def _fixed_version(number: int) -> Fault:
    def fault(draft: Draft, source: random.Random) -> None:
        draft.version = number

    return fault


def _tensor_count(draft: Draft, source: random.Random) -> None:
    draft.tensor_count = _bad_count(draft, source)


def _pair_count(draft: Draft, source: random.Random) -> None:
    draft.pair_count = _bad_count(draft, source)


_OFFSETS = frozenset({"offset-alignment", "offset-order"})

REFUSED: Mapping[str, tuple[Fault, frozenset[str]]] = {
    "HEADER_BAD_MAGIC": (_magic, frozenset({"magic"})),
    "HEADER_BAD_VERSION_0": (_fixed_version(0), frozenset({"version"})),
    "HEADER_BAD_VERSION_1": (_fixed_version(1), frozenset({"version"})),
    "HEADER_BAD_VERSION_FUTURE": (_future, frozenset({"version", "byte-order"})),
    "HEADER_BAD_N_KV": (_pair_count, frozenset({"pair-count"})),
    "HEADER_BAD_N_TENSORS": (_tensor_count, frozenset({"tensor-count"})),
    "KV_BAD_KEY_SIZE": (_key_size, frozenset({"key-size", "truncated"})),
    "KV_EMPTY_KEY": (_empty_key, frozenset({"key-size"})),
    "KV_BAD_TYPE": (_value_type, frozenset({"value-type", "array-type", "array-nested"})),
    "KV_DUPLICATE_KEY": (_duplicate_key, frozenset({"key-duplicate"})),
    "KV_BAD_ALIGN": (_alignment, frozenset({"alignment"})),
    "KV_WRONG_TYPE_ALIGN": (_alignment_type, frozenset({"alignment-type"})),
    "TENSORS_BAD_NAME_SIZE": (_name_size, frozenset({"tensor-name-size"})),
    "TENSORS_BAD_N_DIMS": (_dimensions, frozenset({"tensor-dimensions"})),
    "TENSORS_BAD_SHAPE": (_negative, frozenset({"tensor-shape"})),
    "TENSORS_NE_TOO_BIG": (_too_many_elements, frozenset({"tensor-elements"})),
    "TENSORS_NBYTES_TOO_BIG": (_too_many_bytes, frozenset({"tensor-bytes"})),
    "TENSORS_NBYTES_PAD_WRAP": (_pad_wraps, frozenset({"tensor-bytes"})),
    "TENSORS_BAD_TYPE": (_tensor_type, frozenset({"tensor-type"})),
    "TENSORS_BAD_OFFSET": (_offset, _OFFSETS),
    "TENSORS_DUPLICATE_NAME": (_duplicate_name, frozenset({"tensor-duplicate"})),
    "TENSORS_BAD_ALIGN": (_alignment, frozenset({"alignment"})),
    "TENSORS_INCONSISTENT_ALIGN": (_inconsistent, _OFFSETS),
    "DATA_NOT_ENOUGH_DATA": (_not_enough, frozenset({"data-truncated"})),
    "DATA_BAD_ALIGN": (_alignment, frozenset({"alignment"})),
    "DATA_INCONSISTENT_ALIGN": (_inconsistent, _OFFSETS),
    "DATA_MEM_SIZE_OVERFLOW": (_sum_overflows, frozenset({"data-truncated"})),
}
"""Every kind that llama.cpp refuses: the fault, and the reasons that the reader may give."""

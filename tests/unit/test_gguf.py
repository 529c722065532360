"""Every kind of malformed header is refused with its own reason; valid ones are read exactly."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.model.ggml_types import TENSOR_TYPES, base_type
from muniment_runtime.model.gguf import GgufArray, read_header
from tests.helpers import gguf_writer as gw


def _file(
    *, magic: bytes = b"GGUF", version: int = 3, tensors: int = 0, pairs: int = 0, body: bytes = b"", data: int = 0
) -> bytes:
    head = magic + struct.pack("<Iqq", version, tensors, pairs) + body
    return head + bytes(gw.padded(len(head)) - len(head)) + bytes(data) if tensors else head


def _tensors(*infos: bytes, data: int = 4096, pairs: bytes = b"", pair_count: int = 0) -> bytes:
    return _file(tensors=len(infos), pairs=pair_count, body=pairs + b"".join(infos), data=data)


F32, Q8_0 = 0, 8
ROW = gw.tensor("a", (32,), F32, 0)
KEY = gw.text("k")

MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "magic"),
    "short magic": (b"GG", "magic"),
    "bad magic": (_file(magic=b"FUGG"), "magic"),
    "version 0": (_file(version=0), "version"),
    "version 1": (_file(version=1), "version"),
    "future version": (_file(version=4), "version"),
    "big endian": (_file(version=0x03000000), "byte-order"),
    "no counts": (b"GGUF" + struct.pack("<I", 3), "truncated"),
    "negative tensor count": (_file(tensors=-1), "tensor-count"),
    "huge tensor count": (_file(tensors=2**62), "tensor-count"),
    "more tensors than fit": (_file(tensors=3, body=ROW), "tensor-count"),
    "negative pair count": (_file(pairs=-1), "pair-count"),
    "huge pair count": (_file(pairs=2**62), "pair-count"),
    "key size": (_file(pairs=1, body=struct.pack("<Q", 2**63) + bytes(20)), "key-size"),
    "empty key": (_file(pairs=1, body=gw.pair("", "uint32", 1) + bytes(8)), "key-size"),
    "key past the end": (_file(pairs=1, body=struct.pack("<Q", 99) + bytes(20)), "truncated"),
    "key text": (_file(pairs=1, body=gw.pair(b"\xff\xfe", "uint32", 1)), "key-text"),
    "duplicate key": (_file(pairs=2, body=gw.pair("k", "uint32", 1) * 2), "key-duplicate"),
    "value type": (_file(pairs=1, body=KEY + struct.pack("<iQ", 13, 0)), "value-type"),
    "negative value type": (_file(pairs=1, body=KEY + struct.pack("<iQ", -1, 0)), "value-type"),
    "value past the end": (_file(pairs=1, body=KEY + struct.pack("<iB", 10, 0)), "truncated"),
    "bool value": (_file(pairs=1, body=KEY + struct.pack("<iB", 7, 2)), "bool-value"),
    "bool in array": (_file(pairs=1, body=KEY + struct.pack("<iiQ2B", 9, 7, 2, 1, 9)), "bool-value"),
    "string size": (_file(pairs=1, body=KEY + struct.pack("<iQ", 8, 2**40)), "string-size"),
    "string past the end": (_file(pairs=1, body=KEY + struct.pack("<iQ", 8, 100)), "truncated"),
    "nested array": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 9, 1)), "array-nested"),
    "array type": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 99, 1)), "array-type"),
    "array size": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 4, 2**61)), "array-size"),
    "array past the end": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 4, 9)), "truncated"),
    "large array past the end": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 4, 10**6)), "truncated"),
    "string array count": (_file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 8, 10**6)), "truncated"),
    "string in large array": (
        _file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 8, 100) + gw.text("") * 99 + struct.pack("<Q", 5)),
        "truncated",
    ),
    "string size in array": (
        _file(pairs=1, body=KEY + struct.pack("<iiQ", 9, 8, 100) + struct.pack("<Q", 2**50) + bytes(800)),
        "string-size",
    ),
    "alignment zero": (_file(pairs=1, body=gw.pair("general.alignment", "uint32", 0)), "alignment"),
    "alignment 33": (_file(pairs=1, body=gw.pair("general.alignment", "uint32", 33)), "alignment"),
    "alignment type": (_file(pairs=1, body=gw.pair("general.alignment", "uint64", 32)), "alignment-type"),
    "tensor name size": (_tensors(gw.tensor("n" * 64, (32,), F32, 0)), "tensor-name-size"),
    "empty tensor name": (_tensors(gw.tensor("", (32,), F32, 0)), "tensor-name-size"),
    "tensor name text": (_tensors(gw.tensor(b"\xff", (32,), F32, 0)), "tensor-name-text"),
    "five dimensions": (_tensors(gw.tensor("a", (1, 1, 1, 1, 1), F32, 0)), "tensor-dimensions"),
    "no dimension": (_tensors(gw.tensor("a", (), F32, 0)), "tensor-dimensions"),
    "zero dimension": (_tensors(gw.tensor("a", (32, 0), F32, 0)), "tensor-shape"),
    "negative dimension": (_tensors(gw.tensor("a", (32, -1), F32, 0)), "tensor-shape"),
    "too many elements": (_tensors(gw.tensor("a", (2**42 + 1, 2**42), F32, 0)), "tensor-elements"),
    "too many bytes": (_tensors(gw.tensor("a", (2**62 + 2**61,), F32, 0)), "tensor-bytes"),
    "bytes wrap when padded": (_tensors(gw.tensor("a", (2**62 - 1,), F32, 0)), "tensor-bytes"),
    "tensor type": (_tensors(gw.tensor("a", (32,), 43, 0)), "tensor-type"),
    "negative tensor type": (_tensors(gw.tensor("a", (32,), -1, 0)), "tensor-type"),
    "removed tensor type": (_tensors(gw.tensor("a", (32,), 31, 0)), "tensor-type"),
    "block": (_tensors(gw.tensor("a", (33,), Q8_0, 0)), "tensor-block"),
    "offset alignment": (_tensors(gw.tensor("a", (32,), F32, 1)), "offset-alignment"),
    "gap": (_tensors(gw.tensor("a", (32,), F32, 32)), "offset-order"),
    "overlap": (_tensors(ROW, gw.tensor("b", (32,), F32, 0)), "offset-order"),
    "out of file": (_tensors(ROW, gw.tensor("b", (32,), F32, 2**40)), "offset-order"),
    "duplicate tensor": (_tensors(ROW, gw.tensor("a", (32,), F32, 128)), "tensor-duplicate"),
    "not enough data": (_tensors(ROW, data=127), "data-truncated"),
    "data overflow": (_tensors(gw.tensor("a", (2**61,), F32, 0)), "data-truncated"),
    "custom alignment not kept": (
        _tensors(
            ROW,
            gw.tensor("b", (8,), F32, 160),
            pairs=gw.pair("general.alignment", "uint32", 64),
            pair_count=1,
        ),
        "offset-alignment",
    ),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_file_is_refused_with_its_reason(kind: str, tmp_path: Path) -> None:
    data, reason = MALFORMED[kind]
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(KnownError) as caught:
        read_header(path)
    assert caught.value.code == "E-MODEL-MALFORMED"
    assert caught.value.params == {"name": "bad.gguf", "what": reason}


def test_no_prefix_of_a_valid_file_is_accepted(tmp_path: Path) -> None:
    data = gw.model(layers=1, vocabulary=4, embedding=32, feed_forward=32).data()
    path = tmp_path / "cut.gguf"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(KnownError):
            read_header(path)
    path.write_bytes(data)
    assert read_header(path).file_bytes == len(data)


def test_every_value_kind_is_read(tmp_path: Path) -> None:
    made = gw.GgufFile().add("s", "string", "héllo").add("t", "bool", 1).add("f", "float64", 0.5)
    made.add("u", "uint64", 2**64 - 1).add("i", "int8", -3)
    made.add_array("numbers", "int32", [1, -2]).add_array("flags", "bool", [1, 0]).add_array("words", "string", ["a"])
    made.add_array("many", "string", [str(n) for n in range(1000)]).add_array("floats", "float32", [0.0] * 5000)
    made.add_tensor("x", (32, 3), "Q8_0").add_tensor("y", (5,), "F32")
    header = read_header(made.write(tmp_path / "v.gguf"))
    assert header.metadata == {
        "s": "héllo",
        "t": True,
        "f": 0.5,
        "u": 2**64 - 1,
        "i": -3,
        "numbers": GgufArray("int32", 2, (1, -2)),
        "flags": GgufArray("bool", 2, (True, False)),
        "words": GgufArray("string", 1, ("a",)),
        "many": GgufArray("string", 1000, None),
        "floats": GgufArray("float32", 5000, None),
    }
    assert [(t.name, t.shape, t.type.name, t.offset, t.size_bytes) for t in header.tensors] == [
        ("x", (32, 3), "Q8_0", 0, 102),
        ("y", (5,), "F32", 128, 20),
    ]


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
@pytest.mark.parametrize("version", [2, 3])
def test_alignment_and_versions(alignment: int, version: int, tmp_path: Path) -> None:
    made = gw.GgufFile(version=version, alignment=alignment).add_tensor("x", (3,)).add_tensor("y", (3,))
    header = read_header(made.write(tmp_path / "v.gguf"))
    assert (header.version, header.alignment) == (version, alignment)
    assert header.data_offset % alignment == 0
    assert header.tensors[1].offset == gw.padded(12, alignment)


def test_header_without_tensors_is_valid(tmp_path: Path) -> None:
    assert read_header(gw.GgufFile().write(tmp_path / "v.gguf")).tensors == ()


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "missing.gguf"):
        with pytest.raises(KnownError) as caught:
            read_header(path)
        assert caught.value.code == "E-MODEL-FILE"


def test_type_table() -> None:
    names = [kind.name for kind in TENSOR_TYPES.values()]
    assert len(names) == len(set(names)) == 35
    assert max(TENSOR_TYPES) == 42
    assert not {4, 5, 31, 32, 33, 36, 37, 38} & set(TENSOR_TYPES)


@pytest.mark.parametrize(
    ("file_type", "expected"), [("Q4_K_M", "Q4_K"), ("Q6_K", "Q6_K"), ("Q4_0", "Q4_0"), ("IQ3_M", "IQ3_S")]
)
def test_base_type(file_type: str, expected: str) -> None:
    assert base_type(file_type) == expected

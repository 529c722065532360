"""Writes tiny GGUF files, valid ones and ones with a single chosen fault."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muniment_runtime.model.ggml_types import TENSOR_TYPES

NUMBER_OF_TYPE = {kind.name: number for number, kind in TENSOR_TYPES.items()}
TYPES = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "B"),
    "string": (8, ""),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: str, value: object) -> bytes:
    if kind == "string":
        assert isinstance(value, str | bytes)
        return text(value)
    return struct.pack("<" + TYPES[kind][1], value)


def pair(key: str | bytes, kind: str, value: object) -> bytes:
    return text(key) + struct.pack("<i", TYPES[kind][0]) + scalar(kind, value)


def array(key: str, kind: str, values: Sequence[object]) -> bytes:
    head = struct.pack("<iiQ", 9, TYPES[kind][0], len(values))
    return text(key) + head + b"".join(scalar(kind, value) for value in values)


def tensor(name: str | bytes, shape: Sequence[int], type_number: int, offset: int) -> bytes:
    dims = struct.pack(f"<I{len(shape)}q", len(shape), *shape)
    return text(name) + dims + struct.pack("<iQ", type_number, offset)


def padded(size: int, alignment: int = 32) -> int:
    return -(-size // alignment) * alignment


@dataclass
class GgufFile:
    """A file under construction; tensors get consecutive offsets and zero bytes as data."""

    version: int = 3
    alignment: int = 32
    pairs: list[bytes] = field(default_factory=list)
    tensors: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)

    def add(self, key: str, kind: str, value: object) -> GgufFile:
        self.pairs.append(pair(key, kind, value))
        return self

    def add_array(self, key: str, kind: str, values: Sequence[object]) -> GgufFile:
        self.pairs.append(array(key, kind, values))
        return self

    def add_tensor(self, name: str, shape: tuple[int, ...], type_name: str = "F32") -> GgufFile:
        self.tensors.append((name, shape, type_name))
        return self

    def data(self) -> bytes:
        pairs = list(self.pairs)
        if self.alignment != 32:
            pairs.append(pair("general.alignment", "uint32", self.alignment))
        infos, offset, end = [], 0, 0
        for name, shape, type_name in self.tensors:
            kind = TENSOR_TYPES[NUMBER_OF_TYPE[type_name]]
            elements = 1
            for dimension in shape:
                elements *= dimension
            infos.append(tensor(name, shape, kind.number, offset))
            end = offset + elements // kind.block_elements * kind.block_bytes
            offset = padded(end, self.alignment)
        head = b"GGUF" + struct.pack("<Iqq", self.version, len(infos), len(pairs))
        header = head + b"".join(pairs) + b"".join(infos)
        if not infos:
            return header
        return header + bytes(padded(len(header), self.alignment) - len(header)) + bytes(end)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data())
        return path


def model(
    architecture: str = "llama",
    *,
    layers: int = 2,
    embedding: int = 64,
    heads: int = 4,
    heads_kv: int | Sequence[int] | None = 2,
    feed_forward: int = 128,
    vocabulary: int = 96,
    context: int = 2048,
    tied: bool = True,
    type_name: str = "Q8_0",
    file_type: int | None = 7,
    template: str | None = None,
) -> GgufFile:
    """Return a small but complete model description of a supported family."""
    prefix = architecture + "."
    made = GgufFile().add("general.architecture", "string", architecture)
    made.add(prefix + "block_count", "uint32", layers)
    made.add(prefix + "context_length", "uint32", context)
    made.add(prefix + "embedding_length", "uint32", embedding)
    made.add(prefix + "feed_forward_length", "uint32", feed_forward)
    made.add(prefix + "attention.head_count", "uint32", heads)
    if isinstance(heads_kv, int):
        made.add(prefix + "attention.head_count_kv", "uint32", heads_kv)
    elif heads_kv is not None:
        made.add_array(prefix + "attention.head_count_kv", "int32", heads_kv)
    if file_type is not None:
        made.add("general.file_type", "uint32", file_type)
    if template is not None:
        made.add("tokenizer.chat_template", "string", template)
    made.add_array("tokenizer.ggml.tokens", "string", [f"t{number}" for number in range(vocabulary)])
    made.add_tensor("token_embd.weight", (embedding, vocabulary), type_name)
    if not tied:
        made.add_tensor("output.weight", (embedding, vocabulary), type_name)
    for layer in range(layers):
        made.add_tensor(f"blk.{layer}.ffn_up.weight", (embedding, feed_forward), type_name)
        made.add_tensor(f"blk.{layer}.attn_norm.weight", (embedding,), "F32")
    return made

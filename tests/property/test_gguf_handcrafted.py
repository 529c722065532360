"""Every kind of file that llama.cpp's own handcrafted tests refuse is refused before native code sees it.

A hundred seeded mutations of each kind; a quarter of the files is also read without its fault, so that it is the fault
which is refused.
"""

from __future__ import annotations

import random
import tracemalloc
import zlib
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.model.gguf import GgufHeader, read_header
from tests.helpers.gguf_handcrafted import REFUSED, Draft, random_draft

MUTATIONS = 100
TWINS = 4
MEMORY_BYTES = 8 * 2**20

LOADED = ("HEADER_EMPTY", "KV_SUCCESS", "TENSORS_SUCCESS", "TENSORS_CUSTOM_ALIGN", "DATA_SUCCESS", "DATA_CUSTOM_ALIGN")


def _source(kind: str, number: int) -> random.Random:
    return random.Random(zlib.crc32(f"{kind} {number}".encode()))


def _draft(kind: str, source: random.Random) -> Draft:
    """Return a valid file; kinds of the header and of the pairs also come without tensors, as upstream's do."""
    draft = random_draft(source)
    if kind.startswith(("HEADER_", "KV_")) and source.random() < 0.5:
        draft.tensors = []
    return draft


def _refusal(path: Path) -> str:
    """Return the reason why the file is refused."""
    with pytest.raises(KnownError) as caught:
        read_header(path)
    assert caught.value.code == "E-MODEL-MALFORMED"
    return str(caught.value.params["what"])


def _check(header: GgufHeader, draft: Draft) -> None:
    alignment = draft.alignment or 32
    assert (header.version, header.alignment) == (draft.version, alignment)
    assert len(header.metadata) == len(draft.all_pairs())
    assert [(tensor.name.encode(), tensor.shape, tensor.type.number) for tensor in header.tensors] == [
        (info.name, info.shape, info.type_number) for info in draft.tensors
    ]
    ends = 0
    for tensor, info in zip(header.tensors, draft.tensors, strict=True):
        assert (tensor.offset, tensor.size_bytes) == (-(-ends // alignment) * alignment, info.size_bytes)
        ends = tensor.offset + tensor.size_bytes
    assert header.data_offset + ends <= header.file_bytes


@pytest.mark.parametrize("kind", REFUSED)
def test_every_mutation_of_a_handcrafted_kind_is_refused(kind: str, tmp_path: Path) -> None:
    fault, reasons = REFUSED[kind]
    path = tmp_path / "m.gguf"
    different, seen = set(), set()
    for number in range(MUTATIONS):
        source = _source(kind, number)
        draft = _draft(kind, source)
        if number % TWINS == 0:
            draft.write(path)
            _check(read_header(path), draft)
        fault(draft, source)
        different.add(draft.write(path))
        seen.add(_refusal(path))
    assert len(different) == MUTATIONS
    assert seen <= reasons


@pytest.mark.parametrize("kind", REFUSED)
def test_refusing_takes_little_memory_whatever_the_file_claims(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for number in range(0, MUTATIONS, 20):
        source = _source(kind, number)
        draft = _draft(kind, source)
        REFUSED[kind][0](draft, source)
        draft.write(path)
        tracemalloc.start()
        _refusal(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEMORY_BYTES


@pytest.mark.parametrize("kind", LOADED)
def test_kinds_that_are_valid_are_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for number in range(MUTATIONS):
        source = _source(kind, number)
        draft = random_draft(source)
        if not kind.startswith(("TENSORS_", "DATA_")):
            draft.tensors = []
        if kind == "HEADER_EMPTY":
            draft.pairs, draft.alignment = [], None
        if kind.endswith("CUSTOM_ALIGN"):
            draft.alignment = source.choice((1, 1, 2, 4096))
        # The last padding holds nothing, so its absence is no fault, and nor are bytes after it.
        draft.padded = source.random() < 0.5
        draft.write(path)
        with path.open("ab") as file:
            file.write(bytes(source.choice((0, 8, 64))))
        _check(read_header(path), draft)


@pytest.mark.parametrize(("kind", "reason"), [("TENSORS_ZERO_DIM", "tensor-shape"), ("no data", "data-truncated")])
def test_stricter_than_upstream(kind: str, reason: str, tmp_path: Path) -> None:
    """A dimension of zero has led to divisions by zero; upstream reads a header whose tensors have no data at all."""
    path = tmp_path / "m.gguf"
    for number in range(MUTATIONS):
        source = _source(kind, number)
        draft = random_draft(source)
        if kind == "no data":
            draft.cut_bytes = draft.header()[1]
        else:
            at = source.randrange(len(draft.tensors))
            info = draft.tensors[at]
            draft.tensors[at] = info.with_shape((info.shape[0], 0))
        draft.write(path)
        assert _refusal(path) == reason

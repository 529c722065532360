"""No mutation of a valid file gets anything but a header or a known error out of the reader."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from muniment_resources.errors import KnownError
from muniment_runtime.model.gguf import GgufHeader, read_header
from muniment_runtime.model.spec import model_spec
from tests.helpers import gguf_writer as gw

VALID = gw.model("gemma3", layers=2, vocabulary=80, embedding=32, feed_forward=32, heads_kv=(1, 2)).data()
HEADER_END = VALID.index(b"attn_norm")


def _read(data: bytes) -> GgufHeader | KnownError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(data)
        try:
            header = read_header(path)
            model_spec(header, model_id="m", path=path, sha256="")
        except KnownError as error:
            return error
        return header


EDITS = st.lists(
    st.tuples(
        st.integers(0, HEADER_END + 300), st.binary(min_size=1, max_size=8), st.sampled_from(["set", "cut", "put"])
    ),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(EDITS, st.one_of(st.none(), st.integers(0, len(VALID) - 1)))
def test_mutated_file_gives_a_header_or_a_known_error(edits: list[tuple[int, bytes, str]], length: int | None) -> None:
    data = bytearray(VALID)
    for position, patch, kind in edits:
        if kind == "set":
            data[position : position + len(patch)] = patch
        elif kind == "cut":
            del data[position : position + len(patch)]
        else:
            data[position:position] = patch
    result = _read(bytes(data) if length is None else bytes(data[:length]))
    if bytes(data) == VALID and length is None:
        assert result == _read(VALID)
        assert isinstance(result, GgufHeader)
    elif isinstance(result, KnownError):
        assert result.code in {"E-MODEL-MALFORMED", "E-MODEL-SPLIT"}
    else:
        last = result.tensors[-1] if result.tensors else None
        assert last is None or result.data_offset + last.offset + last.size_bytes <= result.file_bytes


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_after_the_magic_never_crash_the_reader(tail: bytes) -> None:
    result = _read(b"GGUF\x03\x00\x00\x00" + tail)
    assert isinstance(result, GgufHeader | KnownError)

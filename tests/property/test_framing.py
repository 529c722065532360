"""Frames survive the round trip, and nothing that a broken or hostile peer sends ends in another error."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muniment_resources.errors import BugError
from muniment_runtime.worker.framing import FrameReader, FrameWriter, FramingError, encode_message

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_MESSAGES = st.dictionaries(st.text().filter(lambda key: key != "raw"), _VALUES, max_size=5)


class _Dribble(io.BytesIO):
    """A pipe gives what it has, one byte if it likes."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 1, 3) if size and size > 0 else size)


@given(st.lists(st.tuples(_MESSAGES, st.none() | st.binary(max_size=200)), max_size=4))
def test_messages_survive_the_round_trip(messages: list[tuple[dict[str, object], bytes | None]]) -> None:
    stream = io.BytesIO()
    writer = FrameWriter(stream)
    for message, raw in messages:
        writer.send(message, raw)
    reader = FrameReader(_Dribble(stream.getvalue()))
    assert [reader.read() for _ in messages] == messages
    assert reader.read() is None


def _drain(data: bytes) -> None:
    reader = FrameReader(io.BytesIO(data), json_limit_bytes=64, raw_limit_bytes=64)
    while reader.read() is not None:
        pass


@given(
    st.binary(max_size=300)
    | st.builds(
        lambda kind, length, rest: kind + struct.pack(">I", length) + rest,
        st.sampled_from([b"J", b"R", b"X"]),
        st.integers(0, 80) | st.just(0xFFFFFFFF),
        st.binary(max_size=80) | st.just(b'{"raw":true}') | st.just(b"[" * 64) | st.just(b"NaN"),
    )
)
def test_garbage_ends_in_a_message_an_end_or_a_framing_error(data: bytes) -> None:
    try:
        _drain(data)
    except FramingError:
        return
    # Without an error the bytes must have been whole frames.
    assert data == b"" or data[:1] == b"J"


@given(_MESSAGES, st.data())
def test_a_cut_stream_is_an_error_or_a_clean_end_at_a_frame_border(
    message: dict[str, object], data: st.DataObject
) -> None:
    whole = encode_message(message, b"pixels")
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(FramingError):
        FrameReader(io.BytesIO(whole[:cut])).read()


def test_oversize_is_refused_on_both_sides_before_the_payload_is_read() -> None:
    with pytest.raises(FramingError):
        encode_message({"text": "x" * (9 * 1024 * 1024)})
    stream = io.BytesIO(b"J" + struct.pack(">I", 65) + b" " * 65)
    with pytest.raises(FramingError):
        FrameReader(stream, json_limit_bytes=64).read()
    assert stream.tell() == 5


def test_what_json_cannot_say_is_our_bug() -> None:
    with pytest.raises(BugError):
        encode_message({"value": float("nan")})
    with pytest.raises(BugError):
        encode_message({"value": object()})


def test_lone_surrogates_of_damaged_documents_pass() -> None:
    reader = FrameReader(io.BytesIO(encode_message({"text": "a\ud800b"})))
    assert reader.read() == ({"text": "a\ud800b"}, None)

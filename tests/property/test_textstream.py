"""Streaming: whole characters only, nothing of a stop string, and the sum of the pieces is the result."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from muniment_runtime.engine.textstream import TextStream

_TEXT = st.text(alphabet=st.sampled_from("ab你😀é \n"), max_size=40)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in itertools.pairwise(borders)]


@given(_TEXT, st.lists(st.integers(0, 200)), st.lists(st.text(alphabet="ab你", min_size=1, max_size=3), max_size=3))
def test_any_cut_of_the_bytes_gives_the_text_before_the_first_stop(
    text: str, cuts: list[int], stops: list[str]
) -> None:
    stream = TextStream(stops)
    shown = [stream.feed(piece) for piece in _pieces(text.encode(), cuts)]
    shown.append(stream.finish())
    found = [text.find(stop) for stop in stops if stop in text]
    # Bytes arrive one token at a time, so the stop that is complete first wins; all ends lie before any full stop.
    assert "".join(shown) == stream.text
    assert "\ufffd" not in stream.text
    assert text.startswith(stream.text)
    assert not any(stop in stream.text for stop in stops)
    assert stream.stopped == bool(found)
    if not found:
        assert stream.text == text


@given(_TEXT, st.integers(1, 3))
def test_an_unfinished_last_character_is_dropped(text: str, cut: int) -> None:
    stream = TextStream(())
    stream.feed((text + "😀").encode()[:-cut])
    stream.finish()
    assert stream.text == text

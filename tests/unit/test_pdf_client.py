"""What a taken-over worker could send, and what must become of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from muniment_resources.errors import KnownError
from muniment_retrieval.pdf import limits
from muniment_retrieval.pdf.client import decode_opened, decode_page, decode_picture

GOOD: dict[str, Any] = {
    "n": 1, "label": "iv", "w": 600.0, "h": 800.0, "text": "one\ntwo", "boxes": [0, 0, 100, 100] * 2, "error": None,
}  # fmt: skip


def test_good_page() -> None:
    page = decode_page(GOOD, 1)
    assert (page.error, page.label, page.text) == (None, "iv", "one\ntwo")
    assert page.lines[1].box == (0, 0, 1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 2},
        {"n": "1"},
        {"text": None},
        {"text": "one\ntwo\nthree"},
        {"boxes": [0, 0, 100, 100]},
        {"boxes": [0, 0, math.nan, 100] * 2},
        {"boxes": [0, 0, math.inf, 100] * 2},
        {"boxes": [500, 0, 100, 100] * 2},
        {"boxes": [True, 0, 100, 100] * 2},
        {"boxes": "0000"},
        {"w": -1},
        {"h": math.nan},
        {"label": 3},
    ],
)
def test_bad_page_becomes_an_error_page(change: dict[str, Any]) -> None:
    page = decode_page({**GOOD, **change}, 1)
    assert (page.number, page.error, page.text, page.lines) == (1, "E-DOC-PAGE", "", ())


@pytest.mark.parametrize("untrusted", [None, 3, "page", [1, 2]])
def test_page_of_another_type(untrusted: object) -> None:
    assert decode_page(untrusted, 7).error == "E-DOC-PAGE"


def test_text_over_the_cap_is_an_error_not_a_cut() -> None:
    page = decode_page({**GOOD, "text": "a" * (2 * limits.MAX_PAGE_CHARS + 1)}, 1)
    assert (page.error, page.text) == ("E-DOC-LIMIT", "")


def test_invented_error_codes_do_not_pass() -> None:
    assert decode_page({**GOOD, "error": "E-BUG"}, 1).error == "E-DOC-PAGE"
    assert decode_page({**GOOD, "error": "E-DOC-LIMIT"}, 1).error == "E-DOC-LIMIT"


def test_steering_characters_are_removed_and_offsets_still_hold() -> None:
    page = decode_page({**GOOD, "text": "a\u202eb\x1b[31m\u200b\ntwo\U000e0041", "label": "\u2066x\n"}, 1)
    assert page.text == "ab[31m\ntwo"
    assert page.label == "x"
    assert [page.text[line.start : line.end] for line in page.lines] == ["ab[31m", "two"]


def test_boxes_are_clipped_to_the_page() -> None:
    assert decode_page({**GOOD, "boxes": [0, 0, 9_999_900, 100] * 2}, 1).lines[0].box == (0, 0, 600, 1)


@pytest.mark.parametrize("reply", [{}, {"pages": 0, "title": ""}, {"pages": True, "title": ""}, {"pages": 3}])
def test_bad_open_reply(reply: dict[str, object]) -> None:
    with pytest.raises(KnownError) as caught:
        decode_opened(reply, "a.pdf")
    assert caught.value.code == "E-DOC-DAMAGED"


def test_page_count_cap() -> None:
    with pytest.raises(KnownError) as caught:
        decode_opened({"pages": 1_000_000, "title": ""}, "a.pdf")
    assert caught.value.code == "E-DOC-LIMIT"


@pytest.mark.parametrize(
    ("width", "height", "pixels"),
    [(2, 2, b"\0" * 11), (0, 2, b""), (2, 2, None), (99_999, 1, b"\0" * 299_997), (True, 1, b"\0" * 3)],
)
def test_bad_picture(width: int, height: int, pixels: bytes | None) -> None:
    if width is True:
        height = 0
    with pytest.raises(KnownError) as caught:
        decode_picture({"width": width, "height": height, "scale": 1.0}, pixels, 4, "a.pdf")
    assert caught.value.code == "E-DOC-PAGE"

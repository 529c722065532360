"""Columns line up as a terminal shows them."""

from __future__ import annotations

import pytest

from muniment_app.cli.table import cells, columns, fit, pad


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("abc", 3), ("上下文", 6), ("ａ", 2), ("e\u0301", 1), ("a\u200bb", 2), ("a：b", 4), ("½ …", 3)],
)
def test_cells_are_counted_as_shown(text: str, expected: int) -> None:
    assert cells(text) == expected


def test_pad_fills_on_the_right_side_of_the_text_and_on_the_left_when_asked() -> None:
    assert pad("内存", 6) == "内存  "
    assert pad("12", 4, right=True) == "  12"
    assert pad("longer", 3) == "longer"


@pytest.mark.parametrize("width", range(9))
def test_fit_never_takes_more_than_it_may(width: int) -> None:
    for text in ("内存不足够", "a内b存c", "abcdefghijk"):
        assert cells(fit(text, width)) <= width


def test_fit_keeps_what_has_room_and_marks_a_cut() -> None:
    assert fit("内存", 4) == "内存"
    assert fit("内存不足", 5) == "内存…"
    assert fit("内存不足", 6) == "内存…"


def test_columns_start_at_the_same_cell_in_every_row() -> None:
    lines = columns([("模型", "需要", "结论"), ("qwen", "650 MiB", "放得下"), ("很长的名字", "9 B", "x")], right=(1,))
    assert lines == [
        "模型           需要  结论",
        "qwen        650 MiB  放得下",
        "很长的名字      9 B  x",
    ]


def test_columns_leave_no_space_at_the_end_of_a_line() -> None:
    assert columns([("a", ""), ("b", "long")]) == ["a", "b  long"]
    assert columns([]) == []


def test_rows_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        columns([("a", "b"), ("c",)])

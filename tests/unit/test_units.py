"""Sizes as people read them."""

from __future__ import annotations

import pytest

from muniment_resources.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 * 1024, "10 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (int(4.2 * (1 << 20)), "4.2 MiB"),
        (512 << 20, "512 MiB"),
        ((1 << 30) - 1, "1.0 GiB"),
        (25556000000, "23.8 GiB"),
        (-(512 << 20), "-512 MiB"),
    ],
)
def test_sizes_use_binary_units(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500000000", 1_500_000_000),
        ("0", 0),
        ("4GiB", 4 << 30),
        ("4 gib", 4 << 30),
        ("1.5GB", 1_500_000_000),
        ("700m", 700 << 20),
        ("12 B", 12),
        ("-1", None),
        ("", None),
        ("4 GiBs", None),
        ("1e9", None),
        ("four", None),
        ("9" * 30, None),
    ],
)
def test_sizes_are_read_with_and_without_unit(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size

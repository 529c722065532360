"""Sizes as people read them."""

from __future__ import annotations

import pytest

from muniment_resources.units import format_bytes


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

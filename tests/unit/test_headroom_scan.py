"""Where the choice changes along the scale of headrooms."""

from __future__ import annotations

import pytest

from muniment_app.ui.headroom_scan import LogScale, Scan, Span

MIB = 1 << 20
SCALE = LogScale(256 * MIB, 16384 * MIB)


def scan(thresholds: dict[str, int], scale: LogScale = SCALE) -> tuple[tuple[Span, ...], int]:
    """Run a scan against a planner that takes the last choice whose threshold is reached."""
    running, asked = Scan(scale), 0
    while (point := running.next_bytes()) is not None:
        names = [name for name, least in thresholds.items() if point >= least]
        running.add(point, names[-1] if names else "")
        asked += 1
    return running.spans(), asked


def test_scale_is_logarithmic_and_invertible() -> None:
    assert SCALE.fraction(256 * MIB) == 0
    assert SCALE.fraction(16384 * MIB) == 1
    assert SCALE.fraction(2048 * MIB) == pytest.approx(0.5)
    assert SCALE.amount(0.5) == 2048 * MIB
    assert SCALE.fraction(1) == 0
    assert SCALE.amount(2.0) == 16384 * MIB
    for amount in (300 * MIB, 5000 * MIB):
        assert SCALE.amount(SCALE.fraction(amount)) == pytest.approx(amount)


def test_changes_are_found_to_four_percent_and_never_too_early() -> None:
    thresholds = {"small": 800 * MIB, "middle": 1331 * MIB, "large": 5900 * MIB}
    spans, asked = scan(thresholds)
    assert [span.name for span in spans] == ["", *thresholds]
    for span, least in zip(spans[1:], thresholds.values(), strict=True):
        assert least <= span.low_bytes <= least * 1.04
    assert [span.high_bytes for span in spans[:-1]] == [span.low_bytes for span in spans[1:]]
    assert (spans[0].low_bytes, spans[-1].high_bytes) == (256 * MIB, 16384 * MIB)
    assert asked <= 40


def test_one_choice_everywhere_takes_the_grid_alone() -> None:
    spans, asked = scan({"only": 0})
    assert spans == (Span(256 * MIB, 16384 * MIB, "only"),)
    assert asked == 17


def test_many_changes_end_at_the_most_points() -> None:
    thresholds = {f"model-{number}": round(256 * MIB * 1.3**number) for number in range(1, 15)}
    spans, asked = scan(thresholds)
    assert asked == 40
    assert spans[0].low_bytes == 256 * MIB
    assert spans[-1].high_bytes == 16384 * MIB
    assert [span.name for span in spans] == ["", *thresholds]

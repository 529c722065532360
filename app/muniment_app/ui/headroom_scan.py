"""At which headroom the choice changes: a plan of questions to the planner, and what the answers add up to. Pure."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass

__all__ = ["LogScale", "Scan", "Span"]

_COARSE_POINTS = 17
_FINE_RATIO = 1.04
_MOST_POINTS = 40


@dataclass(frozen=True)
class LogScale:
    """Amounts on a logarithmic scale, because a doubling of memory matters as much at the bottom as at the top."""

    low_bytes: int
    high_bytes: int

    def fraction(self, value_bytes: int) -> float:
        """Return where an amount lies, 0 at the low end and 1 at the high end; amounts outside are clamped."""
        inside = min(max(value_bytes, self.low_bytes), self.high_bytes)
        return math.log(inside / self.low_bytes) / math.log(self.high_bytes / self.low_bytes)

    def amount(self, fraction: float) -> int:
        """Return the amount at a place of the scale."""
        inside = min(max(fraction, 0.0), 1.0)
        return round(self.low_bytes * math.pow(self.high_bytes / self.low_bytes, inside))


@dataclass(frozen=True)
class Span:
    """A stretch of headrooms with the same choice; ``name`` is empty where nothing fits."""

    low_bytes: int
    high_bytes: int
    name: str


class Scan:
    """Asks for few points: an even grid first, then halving between neighbours that differ, down to 4 %.

    A choice that holds only on a stretch narrower than a step of the grid may be missed; more memory never gives a
    worse plan, so nothing else can hide between two equal neighbours.
    """

    def __init__(self, scale: LogScale) -> None:
        self._scale = scale
        steps = _COARSE_POINTS - 1
        self._waiting = [scale.amount(step / steps) for step in range(_COARSE_POINTS)]
        self._known: list[tuple[int, str]] = []

    def next_bytes(self) -> int | None:
        """Return the next headroom to plan for, ``None`` when the picture is complete."""
        if self._waiting:
            return self._waiting[0]
        if len(self._known) >= _MOST_POINTS:
            return None
        gaps = [
            (high / low, low, high)
            for (low, name), (high, other) in zip(self._known, self._known[1:], strict=False)
            if name != other and high / low > _FINE_RATIO
        ]
        if not gaps:
            return None
        _, low, high = max(gaps)
        return round(math.sqrt(low * high))

    def add(self, headroom_bytes: int, name: str) -> None:
        """Take the choice at a headroom."""
        if self._waiting and self._waiting[0] == headroom_bytes:
            del self._waiting[0]
        insort(self._known, (headroom_bytes, name))

    def spans(self) -> tuple[Span, ...]:
        """Return the stretches from the low to the high end of the scale, as far as they are known."""
        found: list[Span] = []
        for headroom_bytes, name in self._known:
            if found and found[-1].name == name:
                found[-1] = Span(found[-1].low_bytes, headroom_bytes, name)
            else:
                # The change is counted from where the better choice is sure: never promise it too early.
                if found:
                    found[-1] = Span(found[-1].low_bytes, headroom_bytes, found[-1].name)
                found.append(Span(headroom_bytes, headroom_bytes, name))
        return tuple(found)

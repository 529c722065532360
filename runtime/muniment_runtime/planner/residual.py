"""What measured loads teach: how far the need was off, by architecture, backend and system. Pure.

A residual is measured minus expected resident memory of one load, in bytes. Its 95th percentile over the latest loads
is the correction line of every later need; how far the loads scatter widens the reserve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["KEPT_SAMPLES", "Residual", "ResidualKey", "added", "residual_of", "spread_of"]

KEPT_SAMPLES = 32
_PERCENT = 95


@dataclass(frozen=True, order=True)
class ResidualKey:
    """What a residual belongs to: other kernels, allocators and systems err differently."""

    architecture: str
    backend: str
    system: str


@dataclass(frozen=True)
class Residual:
    """What was learned for one key.

    Attributes:
        samples: Number of loads behind it.
        typical_bytes: Median of measured minus expected; negative when less was taken than expected.
        high_bytes: 95th percentile (nearest rank).
        correction_bytes: What later needs are raised by: the 95th percentile, never negative.
        spread_bytes: High minus typical: what the reserve grows by.
    """

    samples: int
    typical_bytes: int
    high_bytes: int

    @property
    def correction_bytes(self) -> int:
        """What later needs are raised by; a need is never lowered below what the planner can prove."""
        return max(0, self.high_bytes)

    @property
    def spread_bytes(self) -> int:
        """How far loads of one kind differ from one another."""
        return max(0, self.high_bytes - self.typical_bytes)


def added(samples: Sequence[int], residual_bytes: int) -> tuple[int, ...]:
    """Return the samples with a new one, the oldest dropped beyond ``KEPT_SAMPLES``."""
    return (*samples, residual_bytes)[-KEPT_SAMPLES:]


def residual_of(samples: Sequence[int]) -> Residual:
    """Return what the samples say; zeros without any."""
    if not samples:
        return Residual(0, 0, 0)
    ordered = sorted(samples)
    return Residual(len(ordered), _rank(ordered, 50), _rank(ordered, _PERCENT))


def spread_of(residuals: Mapping[ResidualKey, Residual]) -> int:
    """Return by how much the reserve grows: the widest spread of any kind that was loaded here."""
    return max((residual.spread_bytes for residual in residuals.values()), default=0)


def _rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]

"""Growth of the kernel's counters between two looks at them: swap-in rate and limit events."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from muniment_runtime.contracts import Clock, Signal
from muniment_runtime.headroom.chain import SWAP_IN, SWAP_IN_SUSTAINED

__all__ = ["LONGEST_S", "SHORTEST_S", "SampleWindow"]

SHORTEST_S = 0.2
"""Looks that follow sooner share the sample before them: several readers must not cut a rate into noise."""
LONGEST_S = 30.0
"""A sample older than this says nothing about now; counting starts anew."""


@dataclass(frozen=True)
class _Sample:
    at_s: float
    swapped_in_bytes: int | None
    source: str
    events: Mapping[str, int]


class SampleWindow:
    """Keeps the last sample of some counters and tells how they grew. Safe for several threads.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Sample | None = None
        self._rate: float | None = None
        self._signals: tuple[Signal, ...] = ()

    def advance(
        self, swapped_in_bytes: int | None, events: Mapping[str, int] | None = None, source: str = ""
    ) -> tuple[Signal, ...]:
        """Take a sample and return the growth since the one before, nothing when there is none.

        Args:
            swapped_in_bytes: Bytes read back from swap since the system started, ``None`` where unknown.
            events: Counters by the name of their signal.
            source: Where ``events`` were read; growth is told only between samples of one source.

        Returns:
            The swap-in rate in bytes per second, from the third sample on also the lower of the last two rates, and
            the growth of each event counter.
        """
        now = self._clock()
        with self._lock:
            last = self._last
            if last is not None and 0 <= now - last.at_s < SHORTEST_S:
                return self._signals
            sample = _Sample(now, swapped_in_bytes, source, dict(events or {}))
            usable = last is not None and 0 < now - last.at_s <= LONGEST_S
            before, self._rate = self._rate, None
            self._signals = ()
            if last is not None and usable:
                self._rate = _rate(last, sample)
                self._signals = (*_swap(self._rate, before), *_events(last, sample))
            self._last = sample
            return self._signals


def _rate(last: _Sample, sample: _Sample) -> float | None:
    if last.swapped_in_bytes is None or sample.swapped_in_bytes is None:
        return None
    return max(0, sample.swapped_in_bytes - last.swapped_in_bytes) / (sample.at_s - last.at_s)


def _swap(rate: float | None, before: float | None) -> list[Signal]:
    if rate is None:
        return []
    return [Signal(SWAP_IN, rate), *([] if before is None else [Signal(SWAP_IN_SUSTAINED, min(rate, before))])]


def _events(last: _Sample, sample: _Sample) -> list[Signal]:
    if last.source != sample.source:
        return []
    return [
        Signal(name, float(max(0, count - last.events[name])))
        for name, count in sample.events.items()
        if name in last.events
    ]

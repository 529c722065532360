"""How often a child that dies may be started again."""

from __future__ import annotations

from collections import deque

from muniment_runtime.contracts import Clock

__all__ = ["RestartBudget"]


class RestartBudget:
    """Back-off between restarts, and a circuit that opens when a child keeps dying. Pure: the clock is injected.

    Args:
        clock: Monotonic seconds.
        delays_s: Wait before the first, second, ... restart within the window; the last one repeats.
        crashes: So many deaths within the window open the circuit.
        window_s: Length of the sliding window.
    """

    def __init__(
        self,
        clock: Clock,
        delays_s: tuple[float, ...] = (0.5, 2.0, 8.0),
        crashes: int = 3,
        window_s: float = 300.0,
    ) -> None:
        self._clock = clock
        self._delays_s = delays_s
        self._crashes = crashes
        self._window_s = window_s
        self._deaths: deque[float] = deque()

    def crashed(self) -> float | None:
        """Record a death; return the seconds to wait before a restart, or ``None`` when the circuit is open."""
        self._forget()
        self._deaths.append(self._clock())
        if self.is_open():
            return None
        return self._delays_s[min(len(self._deaths), len(self._delays_s)) - 1]

    def is_open(self) -> bool:
        """Whether restarts are refused now. Closes by itself as deaths leave the window."""
        self._forget()
        return len(self._deaths) >= self._crashes

    def reset(self) -> None:
        """Forget all deaths: the user asked to try again, or another configuration was chosen."""
        self._deaths.clear()

    def _forget(self) -> None:
        oldest = self._clock() - self._window_s
        while self._deaths and self._deaths[0] <= oldest:
            self._deaths.popleft()

"""Keeps the child process of a role available: starts it when needed, again after a death, within a budget."""

from __future__ import annotations

import threading
import time

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Clock
from muniment_runtime.worker.budget import RestartBudget
from muniment_runtime.worker.child import Child, Timing
from muniment_runtime.worker.protocol import Role
from muniment_runtime.worker.spawn import Spawner

__all__ = ["Supervisor"]


class Supervisor:
    """Keeps the child of one role available: starts it when needed and again after a death, within a budget.

    Args:
        spawner: Starts processes.
        role: What the process is.
        budget: Limits restarts.
        timing: Budgets of the child.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        spawner: Spawner,
        role: Role,
        budget: RestartBudget | None = None,
        timing: Timing | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._spawner = spawner
        self._role = role
        self._budget = budget or RestartBudget(clock)
        self._timing = timing
        self._clock = clock
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._child: Child | None = None
        self._not_before_s = 0.0

    def child(self) -> Child:
        """Return the living child, starting it if necessary; waits out the back-off after a death.

        Raises:
            KnownError: ``E-WORKER-CIRCUIT`` when it died too often lately; ``E-WORKER-START``.
        """
        with self._lock:
            if self._child is not None and self._child.alive:
                return self._child
            self._account()
            if self._budget.is_open() or self._closing.is_set():
                raise KnownError("E-WORKER-CIRCUIT", role=self._role)
            if self._closing.wait(max(0.0, self._not_before_s - self._clock())):
                raise KnownError("E-WORKER-CIRCUIT", role=self._role)
            self._child = Child(self._spawner, self._role, self._timing, self._clock)
            return self._child

    def retry(self) -> None:
        """Close the circuit again: the user asked for it, or another configuration is tried."""
        with self._lock:
            self._account()
            self._budget.reset()
            self._not_before_s = 0.0

    def close(self) -> None:
        """Stop the child and refuse new ones. Idempotent."""
        self._closing.set()
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _account(self) -> None:
        child, self._child = self._child, None
        outcome = child.outcome() if child is not None else None
        if outcome is not None and not outcome.requested:
            delay_s = self._budget.crashed()
            self._not_before_s = self._clock() + (delay_s or 0.0)

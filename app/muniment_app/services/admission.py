"""Reserves memory for a load before it takes it, in the ledger that all running instances share."""

from __future__ import annotations

from muniment_app.services.model_host import Held
from muniment_runtime.contracts import HeadroomProbe
from muniment_runtime.headroom.reservation import Reservation, ReservationLedger

__all__ = ["LedgerAdmission", "LedgerHeld"]


class LedgerHeld:
    """A reservation together with what of it is not yet visible to a measurement."""

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation
        self.outstanding_bytes = reservation.need_bytes
        self.shared = reservation.shared

    def settle(self, resident_bytes: int) -> None:
        """See ``Held``."""
        self._reservation.settle(resident_bytes)
        self.outstanding_bytes = max(0, self._reservation.need_bytes - resident_bytes)

    def release(self) -> None:
        """See ``Held``."""
        self._reservation.release()
        self.outstanding_bytes = 0


class LedgerAdmission:
    """Implements ``Admission``.

    Args:
        ledger: The shared ledger.
        probe: Measures the machine itself, without reservations: the ledger counts those.
    """

    def __init__(self, ledger: ReservationLedger, probe: HeadroomProbe) -> None:
        self._ledger = ledger
        self._probe = probe

    def reserve(self, need_bytes: int, margin_bytes: int, freed_bytes: int, replaces: Held | None) -> LedgerHeld:
        """See ``Admission``.

        Raises:
            KnownError: ``E-PLAN-RESERVED``, ``E-PLAN-SHRUNK``, ``E-PLAN-LEDGER``.
        """
        # The old reservation stands until the new one does, so that nobody takes its place; it is not in the way.
        own_bytes = freed_bytes + (replaces.outstanding_bytes if isinstance(replaces, LedgerHeld) else 0)

        def measure() -> int:
            return self._probe.measure().available_bytes + own_bytes

        held = LedgerHeld(self._ledger.reserve(need_bytes, margin_bytes, measure))
        if replaces is not None:
            replaces.release()
        return held

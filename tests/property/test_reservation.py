"""Any order of reserving, taking, settling, releasing and dying agrees with a plain model and never overcommits."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from muniment_resources.errors import KnownError
from muniment_runtime.headroom.holder import Holder
from muniment_runtime.headroom.reservation import Reservation, ReservationLedger

TOTAL = 1000
MARGIN = 100
PROGRAMS = 3


@dataclass
class Load:
    """What the model knows of one load: ``taken`` is what the machine misses, ``settled`` what was told."""

    holder: Holder
    reservation: Reservation
    need: int
    taken: int = 0
    settled: int = 0


class Programs(RuleBasedStateMachine):
    """Three programs on one folder; one that dies comes back under the same number, as systems do."""

    loads = Bundle("loads")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.live: list[Load] = []
        self.starts = [1.0] * PROGRAMS
        self.ledgers = [self.started(number) for number in range(PROGRAMS)]

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def holder(self, number: int) -> Holder:
        return number, self.starts[number]

    def started(self, number: int) -> ReservationLedger:
        return ReservationLedger(self.folder / "run", self.alive, self.holder(number))

    def alive(self, pid: int, start: float) -> bool:
        return self.starts[pid] == start

    def measured(self) -> int:
        return TOTAL - sum(load.taken for load in self.live)

    @rule(target=loads, number=st.integers(0, PROGRAMS - 1), need=st.integers(0, 500))
    def reserve(self, number: int, need: int) -> object:
        outstanding = sum(load.need - load.settled for load in self.live)
        fits = self.measured() - outstanding - need >= MARGIN
        if not fits:
            with pytest.raises(KnownError) as caught:
                self.ledgers[number].reserve(need, MARGIN, self.measured)
            assert caught.value.code == ("E-PLAN-RESERVED" if outstanding else "E-PLAN-SHRUNK")
            return multiple()
        reservation = self.ledgers[number].reserve(need, MARGIN, self.measured)
        assert reservation.shared
        assert (reservation.headroom_bytes, reservation.reserved_bytes) == (self.measured(), outstanding)
        load = Load(self.holder(number), reservation, need)
        self.live.append(load)
        return load

    @rule(load=loads, share=st.floats(0, 1))
    def take(self, load: Load, share: float) -> None:
        load.taken = max(load.taken, round(load.need * share))

    @rule(load=loads)
    def settle(self, load: Load) -> None:
        if load.holder != self.holder(load.holder[0]):
            return  # its program has died
        load.settled = load.taken
        load.reservation.settle(load.taken)

    @rule(load=consumes(loads))
    def release(self, load: Load) -> None:
        if load in self.live:
            self.live.remove(load)
            load.reservation.release()

    @rule(number=st.integers(0, PROGRAMS - 1))
    def die(self, number: int) -> None:
        self.live = [load for load in self.live if load.holder != self.holder(number)]
        self.starts[number] += 1
        self.ledgers[number] = self.started(number)

    @invariant()
    def machine_is_never_promised_twice(self) -> None:
        assert sum(load.need for load in self.live) <= TOTAL - MARGIN

    @invariant()
    def every_program_sees_what_the_others_hold(self) -> None:
        for number, ledger in enumerate(self.ledgers):
            others = [load for load in self.live if load.holder != self.holder(number)]
            left = [load.need - load.settled for load in others if load.need > load.settled]
            assert ledger.outstanding() == (sum(left), len(left))


Programs.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestPrograms = Programs.TestCase

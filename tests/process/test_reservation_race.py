"""Real processes at once: no byte is granted twice, and a killed holder's bytes come back."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.headroom.holder import holder_alive, own_holder
from muniment_runtime.headroom.reservation import ReservationLedger
from tests.helpers.reserving_child import MARGIN_BYTES, NEED_BYTES, TOTAL_BYTES, PretendedMemory

ROOT = Path(__file__).parents[2]
CHILDREN = 6
GRANTS = 12
KILLED = 2

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pretended memory uses pread")

Child = subprocess.Popen[str]


class Children:
    """Starts children; none outlives the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Child] = []

    def start(self, number: int, grants: int, *options: str) -> Child:
        arguments = [str(self.folder), str(number), str(grants), *options]
        command = [sys.executable, "-m", "tests.helpers.reserving_child", *arguments]
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._started.append(child)
        _expect(child, "ready")
        return child

    def end(self) -> None:
        for child in self._started:
            if child.returncode is None:
                child.kill()
                child.communicate(timeout=30)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    made = Children(tmp_path)
    yield made
    made.end()


def _expect(child: Child, word: str) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == f"{word}\n"


def _go(child: Child) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def _machine(folder: Path) -> tuple[PretendedMemory, ReservationLedger]:
    (folder / "taken").write_bytes(b"")
    return PretendedMemory(folder / "taken", CHILDREN), ReservationLedger(folder / "ledger", holder_alive, own_holder())


def _notes(folder: Path, number: int) -> list[tuple[str, int]]:
    lines = (folder / f"log-{number}").read_text().splitlines()
    return [(what, int(moment)) for what, _, moment in (line.partition(" ") for line in lines)]


def _most_at_once(held: list[tuple[int, int]]) -> int:
    changes = sorted([(begin, 1) for begin, _ in held] + [(end, -1) for _, end in held])
    return max(itertools.accumulate(change for _, change in changes))


def test_programs_that_load_at_once_never_count_the_same_bytes(tmp_path: Path, children: Children) -> None:
    memory, ledger = _machine(tmp_path)
    doomed = [children.start(number, 3, "settled") for number in range(KILLED)]
    others = [children.start(number, GRANTS) for number in range(KILLED, CHILDREN)]
    for child in (*doomed, *others):
        _go(child)
    killed_at = []
    for child in doomed:
        _expect(child, "settled")
        killed_at.append(time.monotonic_ns())
        child.kill()
    for child in (*doomed, *others):
        child.communicate(timeout=90)
    assert [child.returncode for child in doomed] == [-signal.SIGKILL] * KILLED
    assert [child.returncode for child in others] == [0] * len(others)

    held: list[tuple[int, int]] = []
    seen = Counter[str]()
    for number in range(CHILDREN):
        notes = _notes(tmp_path, number)
        seen.update(what for what, _ in notes)
        begins = [moment for what, moment in notes if what == "grant"]
        ends = [moment for what, moment in notes if what == "release"]
        if number < KILLED:
            ends.append(killed_at[number])
        else:
            assert len(begins) == GRANTS
        held += zip(begins, ends, strict=True)
    assert NEED_BYTES * _most_at_once(held) <= TOTAL_BYTES - MARGIN_BYTES
    assert _most_at_once(held) == 2  # they did run at the same time
    assert seen["E-PLAN-RESERVED"] > 0
    assert set(seen) <= {"grant", "release", "E-PLAN-RESERVED", "E-PLAN-SHRUNK"}

    # Nothing is left behind, not even by those that were killed.
    assert ledger.outstanding() == (0, 0)
    ledger.reserve(TOTAL_BYTES - MARGIN_BYTES, MARGIN_BYTES, memory.measure)


def test_bytes_of_a_killed_holder_come_back_at_the_next_look(tmp_path: Path, children: Children) -> None:
    memory, ledger = _machine(tmp_path)
    holders = [children.start(number, 1, state) for number, state in enumerate(("settled", "loading"))]
    for child, word in zip(holders, ("settled", "loading"), strict=True):
        _go(child)
        _expect(child, word)
    # Each has taken half of its need, which shows in the measurement. The one that is still loading counts in full.
    assert memory.measure() == TOTAL_BYTES - NEED_BYTES
    assert ledger.outstanding() == (NEED_BYTES // 2 + NEED_BYTES, 2)
    with pytest.raises(KnownError) as caught:
        ledger.reserve(NEED_BYTES, MARGIN_BYTES, memory.measure)
    assert caught.value.params["n"] == 2
    for left, child in zip(((NEED_BYTES, 1), (0, 0)), holders, strict=True):
        child.kill()
        child.communicate(timeout=30)
        assert ledger.outstanding() == left
    ledger.reserve(TOTAL_BYTES - MARGIN_BYTES, MARGIN_BYTES, memory.measure)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs a wait that leaves the ended child uncollected")
def test_holder_that_nobody_has_collected_yet_counts_as_ended(tmp_path: Path, children: Children) -> None:
    _, ledger = _machine(tmp_path)
    child = children.start(0, 1, "loading")
    _go(child)
    _expect(child, "loading")
    assert ledger.outstanding() == (NEED_BYTES, 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert ledger.outstanding() == (0, 0)

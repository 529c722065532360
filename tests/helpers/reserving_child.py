"""A child for tests: reserves, takes, settles and gives back pretended memory, and writes down when it did.

Arguments: the shared folder, the own number, how many grants to reach, and ``loading`` or ``settled`` to stop for ever
in that state of the last one.
Files in the shared folder: ``ledger/`` (the ledger), ``taken`` (one slot a child: what it has taken) and
``log-<number>``. A grant is written down after it is given and a release before it is asked for, so that two grants
whose times overlap in the logs really held at the same time.
"""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.headroom.holder import holder_alive, own_holder
from muniment_runtime.headroom.reservation import ReservationLedger

TOTAL_BYTES = 1000
NEED_BYTES = 400
MARGIN_BYTES = 100
_SLOT = struct.Struct("<qqd")
_DEADLINE_S = 60.0


class PretendedMemory:
    """Memory of a machine whose processes note in a file what they take; that of ended processes is free again."""

    def __init__(self, path: Path, slot: int) -> None:
        self._file = os.open(path, os.O_RDWR)
        self._slot = slot
        self._own = own_holder()

    def take(self, size_bytes: int) -> None:
        os.pwrite(self._file, _SLOT.pack(size_bytes, *self._own), self._slot * _SLOT.size)

    def measure(self) -> int:
        data = os.pread(self._file, 64 * _SLOT.size, 0)
        slots: list[tuple[int, int, float]] = list(_SLOT.iter_unpack(data))
        return TOTAL_BYTES - sum(size for size, pid, start in slots if size and holder_alive(pid, start))


def main() -> None:
    folder, number, grants = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    hold = sys.argv[4] if len(sys.argv) > 4 else ""
    source = random.Random(number)
    memory = PretendedMemory(folder / "taken", number)
    ledger = ReservationLedger(folder / "ledger", holder_alive, own_holder())
    log = os.open(folder / f"log-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what: str) -> None:
        os.write(log, f"{what} {time.monotonic_ns()}\n".encode())

    def say_and_wait(word: str) -> None:
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()
        sys.stdin.readline()

    say_and_wait("ready")
    deadline = time.monotonic() + _DEADLINE_S
    done = 0
    while done < grants and time.monotonic() < deadline:
        try:
            reservation = ledger.reserve(NEED_BYTES, MARGIN_BYTES, memory.measure)
        except KnownError as error:
            note(error.code)
            time.sleep(source.uniform(0.001, 0.01))
            continue
        note("grant")
        done += 1
        time.sleep(source.uniform(0.002, 0.01))
        memory.take(NEED_BYTES // 2)
        if hold == "loading" and done == grants:
            say_and_wait(hold)
        reservation.settle(NEED_BYTES // 2)
        if hold == "settled" and done == grants:
            say_and_wait(hold)
        time.sleep(source.uniform(0.002, 0.01))
        memory.take(NEED_BYTES)
        note("release")
        memory.take(0)
        reservation.release()


if __name__ == "__main__":
    main()

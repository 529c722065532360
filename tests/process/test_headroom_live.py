"""The live probe against the machine itself: what a process takes is missed, what the page cache takes is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from muniment_runtime.contracts import HeadroomProbe
from muniment_runtime.headroom.probe import LinuxProbe, default_probe

MIB = 1 << 20
BALLAST_BYTES = 512 * MIB
# Other programs take and free memory meanwhile; a wrong probe is wrong every time.
TRIES = 10

# Started before the first look, so that little time passes between the two.
BALLAST = f"""
import sys
sys.stdin.readline()
ballast = bytearray({BALLAST_BYTES})
ballast[::4096] = b"x" * len(ballast[::4096])
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.readline()
"""


def within(low_bytes: int, high_bytes: int, measure: Callable[[], int]) -> list[int]:
    """Return the drops that were measured, up to the first that lies between the bounds."""
    drops: list[int] = []
    while len(drops) < TRIES:
        drops.append(measure())
        if low_bytes < drops[-1] < high_bytes:
            break
    return drops


def test_private_memory_of_another_process_is_missed() -> None:
    probe = default_probe()

    def drop() -> int:
        with subprocess.Popen([sys.executable, "-c", BALLAST], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                before = probe.measure().available_bytes
                child.stdin.write(b"\n")
                child.stdin.flush()
                assert child.stdout.readline().strip() == b"held"
                return before - probe.measure().available_bytes
            finally:
                child.kill()

    drops = within(256 * MIB, 1024 * MIB, drop)
    assert 256 * MIB < drops[-1] < 1024 * MIB, drops


def cached_bytes() -> int:
    lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Cached:"))


def read_through(path: Path, probe: HeadroomProbe) -> tuple[int, int]:
    """Return how far available memory fell and the page cache grew while the file was read."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before, cached = probe.measure().available_bytes, cached_bytes()
        while file.read(MIB):
            pass
        return before - probe.measure().available_bytes, cached_bytes() - cached


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows the size of its page cache")
def test_page_cache_is_not_missed() -> None:
    probe = LinuxProbe()
    # /var/tmp lies on a disk; reading the holes of a sparse file fills the page cache like any other.
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.truncate(BALLAST_BYTES)
        grown: list[int] = []

        def drop() -> int:
            fallen, cached = read_through(Path(file.name), probe)
            grown.append(cached)
            return fallen

        drops = within(-BALLAST_BYTES, 128 * MIB, drop)
    assert drops[-1] < 128 * MIB, drops
    assert max(grown) > 256 * MIB, grown

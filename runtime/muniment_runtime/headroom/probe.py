"""Probes: the input and output around the pure formulas, one per kind of machine."""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import psutil

from muniment_runtime.contracts import Clock, Headroom, HeadroomProbe, Limit, Signal
from muniment_runtime.headroom.chain import CGROUP, CGROUP_HIDDEN, MEMORY_AVAILABLE, SWAP_USED, build
from muniment_runtime.headroom.linux import (
    CgroupMount,
    ancestors,
    cgroup_path,
    find_mounts,
    limit_events,
    parse_meminfo,
    parse_stat,
    processor_list_bytes,
    stall_signals,
    swapped_in_bytes,
    v1_available_bytes,
    v1_hidden_bytes,
    v2_available_bytes,
)
from muniment_runtime.headroom.macos import MacProbe
from muniment_runtime.headroom.window import SampleWindow
from muniment_runtime.headroom.windows import WindowsProbe, kernel_reader

__all__ = ["FixedProbe", "LinuxProbe", "PortableProbe", "default_probe"]

_READ_BYTES = 1 << 16


class _Groups:
    """What the control groups above this process said during one measurement."""

    def __init__(self) -> None:
        self.limits: list[Limit] = []
        self.sizes: list[int] = []
        self.signals: list[Signal] = []
        self.events: list[str] = []
        self.limited: list[str] = []


class LinuxProbe:
    """Available memory of the machine and of every control group above this process. Safe for several threads.

    Args:
        root: Folder that stands for ``/``, so that a recorded machine can be measured.
        clock: Monotonic seconds, for what is told from the growth of counters between two measurements.
        page_bytes: Size of a page of memory.
    """

    def __init__(self, root: Path = Path("/"), clock: Clock = time.monotonic, page_bytes: int = mmap.PAGESIZE) -> None:
        self._root = str(root).rstrip("/\\")
        self._page_bytes = page_bytes
        self._window = SampleWindow(clock)
        self._known: tuple[tuple[str, str], list[tuple[CgroupMount, list[PurePosixPath]]]] | None = None

    def measure(self) -> Headroom:
        """Return the headroom now; a file that cannot be read leaves its limit out."""
        memory = parse_meminfo(self._read("/proc/meminfo"))
        total = memory.total_bytes
        signals = stall_signals(self._read("/proc/pressure/memory"), group=False)
        if memory.swap_used_bytes is not None:
            signals.append(Signal(SWAP_USED, float(memory.swap_used_bytes)))
        groups = _Groups()
        for mount, chain in self._hierarchies():
            self._look(mount, chain, total, groups)
        swapped = swapped_in_bytes(self._read("/proc/vmstat"), self._page_bytes)
        growth = self._window.advance(swapped, limit_events(groups.events), "\n".join(groups.limited))
        listed = processor_list_bytes(self._read("/proc/zoneinfo"), self._page_bytes)
        available = Limit(MEMORY_AVAILABLE, min(total, memory.available_bytes + listed))
        limits = [*([available] if total else []), *groups.limits]
        sizes = [size for size in (total, *groups.sizes) if size]
        return build(limits, min(sizes, default=0), [*signals, *groups.signals, *growth])

    def _hierarchies(self) -> Sequence[tuple[CgroupMount, list[PurePosixPath]]]:
        """Return the mounts with their chains of groups, worked out anew only when the process or a mount was moved."""
        texts = self._read("/proc/self/mountinfo"), self._read("/proc/self/cgroup")
        known = self._known
        if known is None or known[0] != texts:
            mountinfo, membership = texts
            places = ((mount, cgroup_path(membership, mount.version)) for mount in find_mounts(mountinfo))
            found = [
                (mount, self._existing(mount, ancestors(mount, path))) for mount, path in places if path is not None
            ]
            # One assignment: another thread sees the old pair or the new one.
            known = self._known = (texts, found)
        return known[1]

    def _existing(self, mount: CgroupMount, chain: list[PurePosixPath]) -> list[PurePosixPath]:
        """Return the chain, or the mount's root alone: in a namespace the named group may not be under the mount."""
        return chain if Path(f"{self._root}{mount.point / chain[-1]}").is_dir() else [PurePosixPath()]

    def _look(self, mount: CgroupMount, chain: list[PurePosixPath], total_bytes: int, groups: _Groups) -> None:
        """Add what the groups of one hierarchy say, outermost first."""
        for relative in chain:
            found = self._limit(mount, relative, total_bytes)
            if found is None:
                continue
            name = str(PurePosixPath("/") / relative)
            groups.limits.append(Limit(f"{CGROUP}:{name}", found[0]))
            groups.sizes.append(found[1])
            groups.limited.append(name)
            if mount.version == 2:
                folder = mount.point / relative
                local = self._read(f"{folder}/memory.events.local")
                # Kernels before 5.2 have the other file only; below the innermost group there is nobody else.
                groups.events.append(local or (self._read(f"{folder}/memory.events") if relative == chain[-1] else ""))
        innermost = mount.point / chain[-1]
        if mount.version == 2:
            # The real root, which has no type, would only repeat the machine's own averages.
            if chain[-1].parts or Path(f"{self._root}{innermost}/cgroup.type").exists():
                groups.signals += stall_signals(self._read(f"{innermost}/memory.pressure"), group=True)
            return
        usage = self._read(f"{innermost}/memory.usage_in_bytes")
        stat = parse_stat(self._read(f"{innermost}/memory.stat"))
        hidden = v1_hidden_bytes(usage, stat, min([total_bytes, *groups.sizes]))
        if hidden is not None:
            # Outer limits come first.
            groups.limits.insert(0, Limit(CGROUP_HIDDEN, hidden[0]))
            groups.sizes.append(hidden[1])

    def _limit(self, mount: CgroupMount, relative: PurePosixPath, total_bytes: int) -> tuple[int, int] | None:
        """Return (available, limit) bytes of one group. Its statistics, which cost most, are read only for a limit."""
        folder = mount.point / relative
        if mount.version == 1:
            limit = self._read(f"{folder}/memory.limit_in_bytes")
            if v1_available_bytes(limit, "0", {}, total_bytes) is None:
                return None
            usage, stat = self._read(f"{folder}/memory.usage_in_bytes"), self._read(f"{folder}/memory.stat")
            return v1_available_bytes(limit, usage, parse_stat(stat), total_bytes)
        maxima = (self._read(f"{folder}/memory.max"), self._read(f"{folder}/memory.high"))
        if v2_available_bytes(maxima, "0", {}, total_bytes) is None:
            return None
        current, stat = self._read(f"{folder}/memory.current"), self._read(f"{folder}/memory.stat")
        return v2_available_bytes(maxima, current, parse_stat(stat), total_bytes)

    def _read(self, path: str) -> str:
        # Bare system calls: buffered text files take several times as long, and a measurement reads dozens.
        try:
            handle = os.open(self._root + path, os.O_RDONLY)
        except OSError:
            return ""
        try:
            parts = []
            while part := os.read(handle, _READ_BYTES):
                parts.append(part)
        except OSError:
            return ""
        finally:
            os.close(handle)
        return b"".join(parts).decode("utf-8", "replace")


class PortableProbe:
    """What the operating system itself calls available: all there is where no probe of its own works.

    Args:
        memory: Returns (available, total) bytes of physical memory.
    """

    def __init__(self, memory: Callable[[], tuple[int, int]] | None = None) -> None:
        self._memory = memory or _physical_memory

    def measure(self) -> Headroom:
        """Return the headroom now."""
        try:
            available, total = self._memory()
        except OSError:
            return build([], 0, [])
        return build([Limit(MEMORY_AVAILABLE, available)], total, [])


def _physical_memory() -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)


class FixedProbe:
    """Always the same headroom: for what-if questions and replays."""

    def __init__(self, headroom: Headroom) -> None:
        self._headroom = headroom

    def measure(self) -> Headroom:
        """Return the headroom it was made with."""
        return self._headroom


def default_probe(platform: str = sys.platform) -> HeadroomProbe:
    """Return the probe for an operating system (this one by default).

    The Windows probe needs that system's library; anywhere else the portable one stands in for it.
    """
    if platform == "linux":
        return LinuxProbe()
    if platform == "darwin":
        return MacProbe(fallback=PortableProbe())
    reader = kernel_reader() if platform == "win32" else None
    return PortableProbe() if reader is None else WindowsProbe(reader)

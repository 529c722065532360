"""Probes: the input and output around the pure formulas, one per kind of machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import psutil

from muniment_runtime.contracts import Headroom, HeadroomProbe, Limit
from muniment_runtime.headroom.chain import CGROUP, MEMORY_AVAILABLE, build
from muniment_runtime.headroom.linux import (
    CgroupMount,
    Psi,
    ancestors,
    cgroup_path,
    find_mounts,
    parse_meminfo,
    parse_psi,
    parse_stat,
    v1_available_bytes,
    v2_available_bytes,
)

__all__ = ["FixedProbe", "LinuxProbe", "PortableProbe", "default_probe"]


class LinuxProbe:
    """Available memory of the machine and of every control group above this process.

    Args:
        root: Folder that stands for ``/``, so that a recorded machine can be measured.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def measure(self) -> Headroom:
        """Return the headroom now; a file that cannot be read leaves its limit out."""
        available, total = parse_meminfo(self._read(PurePosixPath("/proc/meminfo")))
        limits = [Limit(MEMORY_AVAILABLE, available)] if total else []
        psi = [parse_psi(self._read(PurePosixPath("/proc/pressure/memory")))]
        smallest = total
        groups = self._read(PurePosixPath("/proc/self/cgroup"))
        for mount in find_mounts(self._read(PurePosixPath("/proc/self/mountinfo"))):
            path = cgroup_path(groups, mount.version)
            if path is None:
                continue
            inner = self._existing(mount, ancestors(mount, path))
            for relative in inner:
                found = self._group(mount, relative, total)
                if found is not None:
                    limits.append(Limit(f"{CGROUP}:{PurePosixPath('/') / relative}", found[0]))
                    smallest = min(smallest, found[1]) if smallest else found[1]
            psi.append(parse_psi(self._read(mount.point / inner[-1] / "memory.pressure")))
        return build(limits, smallest, [item for item in psi if isinstance(item, Psi)])

    def _existing(self, mount: CgroupMount, chain: list[PurePosixPath]) -> list[PurePosixPath]:
        """Return the chain, or the mount's root alone: in a namespace the named group may not be under the mount."""
        return chain if self._place(mount.point / chain[-1]).is_dir() else [PurePosixPath()]

    def _group(self, mount: CgroupMount, relative: PurePosixPath, total_bytes: int) -> tuple[int, int] | None:
        folder = mount.point / relative
        stat = parse_stat(self._read(folder / "memory.stat"))
        if mount.version == 1:
            limit = self._read(folder / "memory.limit_in_bytes")
            return v1_available_bytes(limit, self._read(folder / "memory.usage_in_bytes"), stat, total_bytes)
        maxima = (self._read(folder / "memory.max"), self._read(folder / "memory.high"))
        return v2_available_bytes(maxima, self._read(folder / "memory.current"), stat, total_bytes)

    def _place(self, path: PurePosixPath) -> Path:
        return self._root / path.relative_to("/")

    def _read(self, path: PurePosixPath) -> str:
        try:
            return self._place(path).read_text("utf-8", "replace")
        except OSError:
            return ""


class PortableProbe:
    """What the operating system itself calls available, for macOS and Windows.

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
    """Return the probe for an operating system (this one by default)."""
    return LinuxProbe() if platform == "linux" else PortableProbe()

"""Pure parsers and formulas for memory limits on Linux. No file is read here.

Page cache is never counted as used: clean file pages come back when memory is asked for. Swap is never counted as
free: a model that is read back from swap token by token is of no use, so ``memory.swap.max`` and its like are left
out. An address space limit (``RLIMIT_AS``) is left out too: it counts mapped weights, which take no memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from muniment_runtime.contracts import Signal
from muniment_runtime.headroom.chain import (
    GROUP_HIGH,
    GROUP_MAX,
    GROUP_STALL_FULL,
    GROUP_STALL_SOME,
    STALL_FULL,
    STALL_SOME,
)

__all__ = [
    "CgroupMount",
    "MemInfo",
    "Psi",
    "ancestors",
    "cgroup_path",
    "find_mounts",
    "limit_events",
    "parse_meminfo",
    "parse_psi",
    "parse_stat",
    "processor_list_bytes",
    "stall_signals",
    "swapped_in_bytes",
    "v1_available_bytes",
    "v1_hidden_bytes",
    "v2_available_bytes",
]

_LISTED = re.compile(r"^ +count: +(\d+)$", re.MULTILINE)
_SWAPPED_IN = re.compile(r"^pswpin (\d+)$", re.MULTILINE)


class MemInfo(NamedTuple):
    """What ``/proc/meminfo`` says, in bytes; ``swap_used_bytes`` is ``None`` on a machine without swap."""

    available_bytes: int
    total_bytes: int
    swap_used_bytes: int | None


@dataclass(frozen=True)
class Psi:
    """Share of the last ten seconds in which some or all tasks waited for memory, in percent."""

    some_avg10: float
    full_avg10: float


@dataclass(frozen=True)
class CgroupMount:
    """A mounted hierarchy that can limit memory.

    Attributes:
        version: 1 or 2.
        point: Where it is mounted.
        root: Which control group the mount shows as its root; not ``/`` inside many containers.
    """

    version: int
    point: PurePosixPath
    root: PurePosixPath


def parse_meminfo(text: str) -> MemInfo:
    """Return the figures of ``/proc/meminfo``, 0 for available or total memory that is missing.

    Kernels before 3.14 have no ``MemAvailable``; free memory plus page cache stands in for it.
    """
    values: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            values[name.strip()] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    total, swap = values.get("MemTotal", 0), values.get("SwapTotal", 0)
    swap_used = max(0, swap - values.get("SwapFree", 0)) if swap else None
    if "MemAvailable" in values:
        return MemInfo(values["MemAvailable"], total, swap_used)
    cache = values.get("Buffers", 0) + values.get("Cached", 0) - values.get("Shmem", 0)
    return MemInfo(values.get("MemFree", 0) + max(0, cache), total, swap_used)


def processor_list_bytes(zoneinfo: str, page_bytes: int) -> int:
    """Return the bytes of free pages that the processors hold ready in lists of their own (``/proc/zoneinfo``).

    ``MemFree`` and so ``MemAvailable`` leave them out. Since Linux 6.7 these lists grow to an eighth of all memory
    (``mm/page_alloc.c: zone_highsize``) when a process gives much back, so that right after a model was unloaded up to
    that much of it would seem to be still in use. The kernel empties the lists before an allocation fails.
    """
    return sum(map(int, _LISTED.findall(zoneinfo))) * page_bytes


def swapped_in_bytes(vmstat: str, page_bytes: int) -> int | None:
    """Return the bytes read back from swap since boot (``pswpin`` of ``/proc/vmstat``, which counts pages)."""
    found = _SWAPPED_IN.search(vmstat)
    return int(found[1]) * page_bytes if found else None


def parse_stat(text: str) -> dict[str, int]:
    """Return the ``name value`` lines of ``memory.stat`` or ``memory.events``; other lines are skipped."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].isdigit():
            values[fields[0]] = int(fields[1])
    return values


def parse_psi(text: str) -> Psi | None:
    """Return the ten second averages of a pressure file, ``None`` when it holds no ``some`` line."""
    averages: dict[str, float] = {}
    for line in text.splitlines():
        kind, *fields = line.split() or [""]
        for item in fields:
            name, _, value = item.partition("=")
            if name == "avg10":
                try:
                    averages[kind] = float(value)
                except ValueError:
                    return None
    if "some" not in averages:
        return None
    return Psi(averages["some"], averages.get("full", 0.0))


def stall_signals(text: str, group: bool) -> list[Signal]:
    """Return the stall averages of a pressure file as signals, nothing when there are none.

    Args:
        text: ``/proc/pressure/memory`` or a control group's ``memory.pressure``.
        group: Whether it is a control group's.
    """
    psi = parse_psi(text)
    if psi is None:
        return []
    some, full = (GROUP_STALL_SOME, GROUP_STALL_FULL) if group else (STALL_SOME, STALL_FULL)
    return [Signal(some, psi.some_avg10), Signal(full, psi.full_avg10)]


def limit_events(texts: Sequence[str]) -> dict[str, int]:
    """Return how often groups ran into their own ``memory.high`` and ``memory.max`` limits, by signal name.

    Args:
        texts: One ``memory.events.local`` per group. The file without ``.local`` also counts limits of groups below,
            among them other programs'.
    """
    counts = [parse_stat(text) for text in texts]
    events = {}
    for name, field in ((GROUP_HIGH, "high"), (GROUP_MAX, "max")):
        values = [count[field] for count in counts if field in count]
        if values:
            events[name] = sum(values)
    return events


def find_mounts(mountinfo: str) -> list[CgroupMount]:
    """Return the memory-limiting hierarchies of ``/proc/self/mountinfo``: v1 ``memory`` and v2.

    Line format (proc_pid_mountinfo(5)): ids, device, root, mount point, options, ``-``, type, source, super options.
    """
    mounts: list[CgroupMount] = []
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 5 or len(tail) < 3:
            continue
        if tail[0] == "cgroup2":
            version = 2
        elif tail[0] == "cgroup" and "memory" in tail[2].split(","):
            version = 1
        else:
            continue
        root, point = PurePosixPath(_unescape(fields[3])), PurePosixPath(_unescape(fields[4]))
        mounts.append(CgroupMount(version, point, root))
    return mounts


def _unescape(field: str) -> str:
    """Undo the octal escapes that the kernel uses for white space in paths."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def cgroup_path(cgroup: str, version: int) -> PurePosixPath | None:
    """Return this process's control group from ``/proc/self/cgroup``, ``None`` when there is none.

    Lines are ``id:controllers:path``; v2 is the line with id 0 and no controllers.
    """
    for line in cgroup.splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        number, controllers, path = fields
        matches = number == "0" and not controllers if version == 2 else "memory" in controllers.split(",")
        if matches:
            return PurePosixPath(path)
    return None


def ancestors(mount: CgroupMount, path: PurePosixPath) -> list[PurePosixPath]:
    """Return the paths below the mount point to look at, outermost first, ``.`` being the mount's own root.

    A container may see its path as on the host while its mount starts at that very group; a path that does not lie
    under the mount's root (other namespace, ``..``) leaves the mount's root alone.
    """
    if ".." in path.parts:
        return [PurePosixPath()]
    try:
        inside = path.relative_to(mount.root)
    except ValueError:
        return [PurePosixPath()]
    return [*reversed(inside.parents), inside] if inside.parts else [PurePosixPath()]


def v1_available_bytes(limit: str, usage: str, stat: Mapping[str, int], total_bytes: int) -> tuple[int, int] | None:
    """Return (available, limit) bytes of one v1 group, ``None`` when it sets no limit or cannot be read.

    limit - usage + total_inactive_file + total_active_file. "Unlimited" is a huge number in v1, so a limit at or above
    physical memory is no limit.
    """
    if not limit.strip().isdigit() or not usage.strip().isdigit():
        return None
    limit_bytes = int(limit)
    if total_bytes and limit_bytes >= total_bytes:
        return None
    return _clamped(limit_bytes, int(usage), _v1_cache(stat)), limit_bytes


def v1_hidden_bytes(usage: str, stat: Mapping[str, int], smallest_bytes: int) -> tuple[int, int] | None:
    """Return (available, limit) bytes under a limit that a v1 group inherits from where it cannot look.

    A container sees its own group only, but ``hierarchical_memory_limit`` of ``memory.stat`` is the smallest limit up
    to the real root. What else lives under that limit stays unknown, so this is an upper bound.

    Args:
        usage: ``memory.usage_in_bytes`` of the innermost group.
        stat: Its ``memory.stat``.
        smallest_bytes: The smallest limit, or memory, that is known already; ``None`` comes back unless the inherited
            limit is smaller.
    """
    limit_bytes = stat.get("hierarchical_memory_limit", 0)
    if not 0 < limit_bytes < smallest_bytes or not usage.strip().isdigit():
        return None
    return _clamped(limit_bytes, int(usage), _v1_cache(stat)), limit_bytes


def v2_available_bytes(
    maxima: Sequence[str], current: str, stat: Mapping[str, int], total_bytes: int
) -> tuple[int, int] | None:
    """Return (available, limit) bytes of one v2 group, ``None`` when it sets no limit or cannot be read.

    min(max, high) - current + inactive_file + active_file + slab_reclaimable; ``maxima`` are the texts of both files.
    """
    limits = [int(text) for text in maxima if text.strip().isdigit()]
    if not limits or not current.strip().isdigit():
        return None
    limit_bytes = min(limits)
    if total_bytes and limit_bytes >= total_bytes:
        return None
    cache = stat.get("inactive_file", 0) + stat.get("active_file", 0) + stat.get("slab_reclaimable", 0)
    return _clamped(limit_bytes, int(current), cache), limit_bytes


def _v1_cache(stat: Mapping[str, int]) -> int:
    return stat.get("total_inactive_file", 0) + stat.get("total_active_file", 0)


def _clamped(limit_bytes: int, usage_bytes: int, cache_bytes: int) -> int:
    """Usage and cache are read at different moments, so the cache may seem larger than the usage."""
    return max(0, limit_bytes - max(0, usage_bytes - cache_bytes))

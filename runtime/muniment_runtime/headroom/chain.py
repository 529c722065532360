"""From single limits to one headroom: the limit chain, its binding link, the signals and the pressure level. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from muniment_resources.units import format_bytes
from muniment_runtime.contracts import Headroom, Limit, Pressure, Signal

__all__ = [
    "CGROUP",
    "CGROUP_HIDDEN",
    "COMMIT",
    "DEVICE",
    "GROUP_HIGH",
    "GROUP_MAX",
    "GROUP_STALL_FULL",
    "GROUP_STALL_SOME",
    "JOB",
    "JOB_PROCESS",
    "LIMIT_KEYS",
    "LOW_MEMORY",
    "MEMORY_AVAILABLE",
    "PRESSURE_LEVEL",
    "SIGNAL_NAMES",
    "STALL_FULL",
    "STALL_SOME",
    "SWAP_IN",
    "SWAP_IN_SUSTAINED",
    "SWAP_USED",
    "UNCOMPRESSED",
    "UNKNOWN",
    "WARNING_LEVEL",
    "WHAT_IF",
    "WIRED",
    "build",
    "pressure_level",
    "released",
    "signal_amount",
    "split_name",
    "what_if",
]

# Keys of limits: what stands before the colon of a limit's name, and the end of its text key.
MEMORY_AVAILABLE = "memory_available"
CGROUP = "cgroup"
CGROUP_HIDDEN = "cgroup_hidden"
UNCOMPRESSED = "uncompressed"
COMMIT = "commit"
JOB = "job"
JOB_PROCESS = "job_process"
DEVICE = "device"
WIRED = "wired"
WHAT_IF = "what_if"
UNKNOWN = "unknown"
LIMIT_KEYS = (
    MEMORY_AVAILABLE,
    CGROUP,
    CGROUP_HIDDEN,
    UNCOMPRESSED,
    COMMIT,
    JOB,
    JOB_PROCESS,
    DEVICE,
    WIRED,
    WHAT_IF,
    UNKNOWN,
)

# Names of signals.
STALL_SOME = "stall_some_percent"
STALL_FULL = "stall_full_percent"
GROUP_STALL_SOME = "group_stall_some_percent"
GROUP_STALL_FULL = "group_stall_full_percent"
GROUP_HIGH = "group_high_events"
GROUP_MAX = "group_max_events"
SWAP_USED = "swap_used_bytes"
SWAP_IN = "swap_in_bytes_per_s"
SWAP_IN_SUSTAINED = "swap_in_sustained_bytes_per_s"
PRESSURE_LEVEL = "pressure_level"
LOW_MEMORY = "low_memory"
SIGNAL_NAMES = (
    STALL_SOME,
    STALL_FULL,
    GROUP_STALL_SOME,
    GROUP_STALL_FULL,
    GROUP_HIGH,
    GROUP_MAX,
    SWAP_USED,
    SWAP_IN,
    SWAP_IN_SUSTAINED,
    PRESSURE_LEVEL,
    LOW_MEMORY,
)

# Starting points, patterned on systemd-oomd and low-memory killers: act long before the kernel must. The shares are
# those of the planner's margin (8 % of memory) and of half of it.
TIGHT_SOME_PERCENT = 10.0
CRITICAL_FULL_PERCENT = 10.0
TIGHT_AVAILABLE_PERCENT = 8
CRITICAL_AVAILABLE_PERCENT = 4
CRITICAL_SWAP_IN_BYTES_PER_S = 10_000_000.0
# Values of kern.memorystatus_vm_pressure_level: 1 normal, 2 warning, 4 critical.
WARNING_LEVEL = 2
CRITICAL_LEVEL = 4


def split_name(name: str) -> tuple[str, str]:
    """Return (key, detail) of a limit's name: ``cgroup:/a/b`` gives ``("cgroup", "/a/b")``.

    The key selects the text ``plan.limit.<key>``; the detail is shown inside it.
    """
    key, _, detail = name.partition(":")
    return key, detail


def signal_amount(signal: Signal) -> str:
    """Return the value of a signal with its unit, which the end of its name tells, such as ``12.5 %``."""
    if signal.name.endswith("_percent"):
        return f"{signal.value:.1f} %"
    if signal.name.endswith("_bytes_per_s"):
        return f"{format_bytes(round(signal.value))}/s"
    if signal.name.endswith("_bytes"):
        return format_bytes(round(signal.value))
    return f"{signal.value:.0f}"


def pressure_level(available_bytes: int, total_bytes: int, signals: Sequence[Signal]) -> Pressure:
    """Return the level: the worst of what the signals and the free share say.

    CRITICAL: all tasks stalled for over 10 % of ten seconds; over 10 MB/s read back from swap in two samples in a row;
    a control group hit its limit with more than page cache; the system itself says so; or under 4 % of memory left.
    TIGHT: some tasks stalled for over 10 %, the system warns, or under 8 % left.
    """
    values = {signal.name: signal.value for signal in signals}
    share = available_bytes * 100
    little_left = share < total_bytes * TIGHT_AVAILABLE_PERCENT
    if _critical(values, little_left) or share < total_bytes * CRITICAL_AVAILABLE_PERCENT:
        return Pressure.CRITICAL
    return Pressure.TIGHT if little_left or _tight(values) else Pressure.OK


def _critical(values: dict[str, float], little_left: bool) -> bool:
    return (
        max(values.get(STALL_FULL, 0), values.get(GROUP_STALL_FULL, 0)) > CRITICAL_FULL_PERCENT
        or values.get(SWAP_IN_SUSTAINED, 0) > CRITICAL_SWAP_IN_BYTES_PER_S
        or _hit_its_limit(values, little_left)
        or values.get(PRESSURE_LEVEL, 0) >= CRITICAL_LEVEL
        or values.get(LOW_MEMORY, 0) > 0
    )


def _hit_its_limit(values: dict[str, float], little_left: bool) -> bool:
    """Whether a control group ran into its limit with more than page cache.

    The kernel counts the same event when it only drops clean cache to make room for other cache, which nobody waits
    for: in a group that is smaller than the model files it reads, that happens all the time. So the group's own stall
    average has the last word. Kernels that keep none (some distributions turn it off) leave the free share, in which
    cache counts as free: a group that met its limit with private memory has little left.
    """
    if values.get(GROUP_HIGH, 0) + values.get(GROUP_MAX, 0) <= 0:
        return False
    stalled = values.get(GROUP_STALL_SOME)
    return little_left if stalled is None else stalled > TIGHT_SOME_PERCENT


def _tight(values: dict[str, float]) -> bool:
    return (
        max(values.get(STALL_SOME, 0), values.get(GROUP_STALL_SOME, 0)) > TIGHT_SOME_PERCENT
        or values.get(PRESSURE_LEVEL, 0) >= WARNING_LEVEL
    )


def build(
    limits: Sequence[Limit], total_bytes: int, signals: Sequence[Signal], device_limits: Sequence[Limit] = ()
) -> Headroom:
    """Return the headroom of a chain of limits, outermost first.

    The outermost of several equal limits binds. Without any readable limit nothing is known to be free.
    """
    if not limits:
        return Headroom(0, (), total_bytes, Pressure.CRITICAL, UNKNOWN, tuple(signals), tuple(device_limits))
    binding = min(limits, key=lambda limit: limit.bytes)
    level = pressure_level(binding.bytes, total_bytes, signals)
    return Headroom(
        binding.bytes, tuple(limits), total_bytes, level, binding.name, tuple(signals), tuple(device_limits)
    )


def what_if(available_bytes: int) -> Headroom:
    """Return the headroom of an imagined device of which exactly ``available_bytes`` are free and that has no more."""
    return Headroom(available_bytes, (Limit(WHAT_IF, available_bytes),), available_bytes, Pressure.OK, WHAT_IF)


def released(headroom: Headroom, freed_bytes: int) -> Headroom:
    """Return the headroom after ``freed_bytes`` of this process tree's private memory are given back.

    A plan replaces the model that runs, so that model's private memory counts as free. Its mapped weights are page
    cache and count as free already. Signals and devices stay as they were measured.
    """
    if freed_bytes <= 0:
        return headroom
    return dataclasses.replace(
        headroom,
        available_bytes=headroom.available_bytes + freed_bytes,
        limits=tuple(Limit(limit.name, limit.bytes + freed_bytes) for limit in headroom.limits),
    )

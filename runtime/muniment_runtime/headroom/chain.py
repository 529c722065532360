"""From single limits to one headroom: the limit chain, its binding link and the pressure level. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_runtime.contracts import Headroom, Limit, Pressure
from muniment_runtime.headroom.linux import Psi

__all__ = [
    "CGROUP",
    "MEMORY_AVAILABLE",
    "UNKNOWN",
    "WHAT_IF",
    "build",
    "pressure_level",
    "released",
    "split_name",
    "what_if",
]

MEMORY_AVAILABLE = "memory_available"
CGROUP = "cgroup"
WHAT_IF = "what_if"
UNKNOWN = "unknown"

# Starting points, patterned on systemd-oomd and low-memory killers: act long before the kernel must. The shares are
# those of the planner's margin (8 % of memory) and of half of it.
TIGHT_SOME_PERCENT = 10.0
CRITICAL_FULL_PERCENT = 10.0
TIGHT_AVAILABLE_PERCENT = 8
CRITICAL_AVAILABLE_PERCENT = 4


def split_name(name: str) -> tuple[str, str]:
    """Return (key, detail) of a limit's name: ``cgroup:/a/b`` gives ``("cgroup", "/a/b")``.

    The key selects the text ``plan.limit.<key>``; the detail is shown inside it.
    """
    key, _, detail = name.partition(":")
    return key, detail


def pressure_level(available_bytes: int, total_bytes: int, psi: Sequence[Psi]) -> Pressure:
    """Return the level: the worst of what the stall averages and the free share say.

    CRITICAL: all tasks stalled for over 10 % of ten seconds, or under 4 % of memory left. TIGHT: some tasks stalled
    for over 10 %, or under 8 % left.
    """
    if any(item.full_avg10 > CRITICAL_FULL_PERCENT for item in psi):
        return Pressure.CRITICAL
    if available_bytes * 100 < total_bytes * CRITICAL_AVAILABLE_PERCENT:
        return Pressure.CRITICAL
    if any(item.some_avg10 > TIGHT_SOME_PERCENT for item in psi):
        return Pressure.TIGHT
    if available_bytes * 100 < total_bytes * TIGHT_AVAILABLE_PERCENT:
        return Pressure.TIGHT
    return Pressure.OK


def build(limits: Sequence[Limit], total_bytes: int, psi: Sequence[Psi]) -> Headroom:
    """Return the headroom of a chain of limits, outermost first.

    The outermost of several equal limits binds. Without any readable limit nothing is known to be free.
    """
    if not limits:
        return Headroom(0, (), total_bytes, Pressure.CRITICAL, UNKNOWN)
    binding = min(limits, key=lambda limit: limit.bytes)
    level = pressure_level(binding.bytes, total_bytes, psi)
    return Headroom(binding.bytes, tuple(limits), total_bytes, level, binding.name)


def what_if(available_bytes: int) -> Headroom:
    """Return the headroom of an imagined device of which exactly ``available_bytes`` are free and that has no more."""
    return Headroom(available_bytes, (Limit(WHAT_IF, available_bytes),), available_bytes, Pressure.OK, WHAT_IF)


def released(headroom: Headroom, freed_bytes: int) -> Headroom:
    """Return the headroom after ``freed_bytes`` of this process tree's private memory are given back.

    A plan replaces the model that runs, so that model's private memory counts as free. Its mapped weights are page
    cache and count as free already.
    """
    if freed_bytes <= 0:
        return headroom
    return Headroom(
        headroom.available_bytes + freed_bytes,
        tuple(Limit(limit.name, limit.bytes + freed_bytes) for limit in headroom.limits),
        headroom.total_bytes,
        headroom.pressure,
        headroom.binding,
    )

"""What must hold for every chain of limits and every control group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muniment_runtime.contracts import Limit, Pressure, Signal
from muniment_runtime.headroom.chain import SIGNAL_NAMES, build, released
from muniment_runtime.headroom.linux import v1_available_bytes, v2_available_bytes

SIZES = st.integers(min_value=0, max_value=1 << 44)
LIMITS = st.lists(st.builds(Limit, st.sampled_from(["memory_available", "cgroup:/a", "commit", "job"]), SIZES))
SIGNALS = st.lists(st.builds(Signal, st.sampled_from(SIGNAL_NAMES), st.floats(min_value=0, max_value=1e12)))
SEVERITY = {Pressure.OK: 0, Pressure.TIGHT: 1, Pressure.CRITICAL: 2}


@given(LIMITS, SIZES, SIGNALS, LIMITS)
def test_available_is_the_smallest_limit(
    limits: list[Limit], total: int, signals: list[Signal], devices: list[Limit]
) -> None:
    headroom = build(limits, total, signals, devices)
    assert headroom.available_bytes == min((limit.bytes for limit in limits), default=0)
    assert Limit(headroom.binding, headroom.available_bytes) in [*limits, Limit("unknown", 0)]


@given(LIMITS.filter(bool), SIZES, SIGNALS, st.builds(Limit, st.just("cgroup:/b"), SIZES), st.data())
def test_one_more_limit_never_gives_more(
    limits: list[Limit], total: int, signals: list[Signal], extra: Limit, data: st.DataObject
) -> None:
    place = data.draw(st.integers(min_value=0, max_value=len(limits)))
    before = build(limits, total, signals)
    after = build([*limits[:place], extra, *limits[place:]], total, signals)
    assert after.available_bytes <= before.available_bytes
    assert SEVERITY[after.pressure] >= SEVERITY[before.pressure]


@given(LIMITS.filter(bool), SIZES, SIZES)
def test_released_memory_keeps_the_binding_link(limits: list[Limit], total: int, freed: int) -> None:
    after = released(build(limits, total, []), freed)
    assert after.available_bytes == min(limit.bytes for limit in after.limits)
    assert after.binding == build(limits, total, []).binding


CACHE = st.tuples(SIZES, SIZES, SIZES)


@given(SIZES, SIZES, CACHE, CACHE)
def test_growing_page_cache_never_takes_room_in_a_v2_group(
    limit: int, anonymous: int, cache: tuple[int, int, int], growth: tuple[int, int, int]
) -> None:
    def available(sizes: tuple[int, ...]) -> tuple[int, int] | None:
        stat = dict(zip(("inactive_file", "active_file", "slab_reclaimable"), sizes, strict=True))
        return v2_available_bytes((str(limit), "max"), str(anonymous + sum(sizes)), stat, 0)

    grown = available(tuple(map(sum, zip(cache, growth, strict=True))))
    assert grown == available(cache) == (max(0, limit - anonymous), limit)


@given(SIZES, SIZES, st.tuples(SIZES, SIZES), st.tuples(SIZES, SIZES))
def test_growing_page_cache_never_takes_room_in_a_v1_group(
    limit: int, anonymous: int, cache: tuple[int, int], growth: tuple[int, int]
) -> None:
    def available(sizes: tuple[int, ...]) -> tuple[int, int] | None:
        stat = dict(zip(("total_inactive_file", "total_active_file"), sizes, strict=True))
        return v1_available_bytes(str(limit), str(anonymous + sum(sizes)), stat, 0)

    grown = available(tuple(map(sum, zip(cache, growth, strict=True))))
    assert grown == available(cache) == (max(0, limit - anonymous), limit)

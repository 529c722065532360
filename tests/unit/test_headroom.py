"""Headroom of recorded machines: each is a folder that holds what its kernel showed."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import Headroom, Limit, Pressure, Signal
from muniment_runtime.headroom.chain import (
    LIMIT_KEYS,
    SIGNAL_NAMES,
    build,
    pressure_level,
    released,
    signal_amount,
    split_name,
    what_if,
)
from muniment_runtime.headroom.linux import (
    CgroupMount,
    MemInfo,
    Psi,
    ancestors,
    parse_meminfo,
    parse_psi,
    stall_signals,
    swapped_in_bytes,
    v1_available_bytes,
    v1_hidden_bytes,
    v2_available_bytes,
)
from muniment_runtime.headroom.macos import MacProbe
from muniment_runtime.headroom.probe import FixedProbe, LinuxProbe, PortableProbe, default_probe
from muniment_runtime.headroom.windows import WindowsProbe

MIB = 1 << 20
MEMINFO = "MemTotal:       16384000 kB\nMemFree:         1000000 kB\nMemAvailable:   12000000 kB\nCached: 11000000 kB\n"
AVAILABLE = 12000000 * 1024
CALM = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
V1_MOUNT = "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
V2_MOUNT = "29 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def machine(root: Path, files: Mapping[str, str]) -> LinuxProbe:
    everything = {"proc/meminfo": MEMINFO, "proc/pressure/memory": CALM, **files}
    for name, text in everything.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LinuxProbe(root)


def v1_group(folder: str, limit: int, usage: int, inactive: int = 0, active: int = 0) -> dict[str, str]:
    base = f"sys/fs/cgroup/memory{folder}"
    return {
        f"{base}/memory.limit_in_bytes": f"{limit}\n",
        f"{base}/memory.usage_in_bytes": f"{usage}\n",
        f"{base}/memory.stat": (
            f"cache 1\ninactive_file 5\nactive_file 5\ntotal_inactive_file {inactive}\ntotal_active_file {active}\n"
        ),
    }


def v2_group(folder: str, maximum: str, high: str, current: int, stat: str = "") -> dict[str, str]:
    base = f"sys/fs/cgroup{folder}"
    return {
        f"{base}/memory.max": f"{maximum}\n",
        f"{base}/memory.high": f"{high}\n",
        f"{base}/memory.current": f"{current}\n",
        f"{base}/memory.stat": stat,
    }


UNLIMITED = 9223372036854771712


def test_v1_without_a_limit_is_bound_by_the_machine(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "proc/self/cgroup": "4:memory:/app/run1\n3:cpu:/\n0::/\n",
            **v1_group("", UNLIMITED, 900 * MIB),
            **v1_group("/app", UNLIMITED, 700 * MIB),
            **v1_group("/app/run1", UNLIMITED, 100 * MIB),
        },
    )
    assert probe.measure() == Headroom(
        AVAILABLE,
        (Limit("memory_available", AVAILABLE),),
        16384000 * 1024,
        Pressure.OK,
        "memory_available",
        (Signal("stall_some_percent", 0.0), Signal("stall_full_percent", 0.0)),
    )


def test_v1_limit_counts_page_cache_as_free(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "proc/self/cgroup": "4:cpu,memory:/job\n0::/\n",
            **v1_group("", UNLIMITED, 0),
            **v1_group("/job", 2048 * MIB, 1900 * MIB, inactive=1000 * MIB, active=300 * MIB),
        },
    )
    headroom = probe.measure()
    assert headroom.limits == (Limit("memory_available", AVAILABLE), Limit("cgroup:/job", 1448 * MIB))
    assert headroom.available_bytes == 1448 * MIB
    assert headroom.total_bytes == 2048 * MIB
    assert headroom.binding == "cgroup:/job"


def test_v1_ancestor_binds_when_it_is_tighter_than_the_own_group(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "proc/self/cgroup": "4:memory:/a/b/c\n",
            **v1_group("", UNLIMITED, 0),
            **v1_group("/a", 4096 * MIB, 3500 * MIB),
            **v1_group("/a/b", UNLIMITED, 0),
            **v1_group("/a/b/c", 2048 * MIB, 100 * MIB),
        },
    )
    headroom = probe.measure()
    assert [limit.name for limit in headroom.limits] == ["memory_available", "cgroup:/a", "cgroup:/a/b/c"]
    assert (headroom.available_bytes, headroom.binding) == (596 * MIB, "cgroup:/a")


def test_container_whose_group_is_the_mount_root(tmp_path: Path) -> None:
    """The path in /proc/self/cgroup is the host's; the mount shows that very group as its root."""
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/docker/abc"),
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            **v1_group("", 1024 * MIB, 200 * MIB, inactive=50 * MIB),
        },
    )
    assert probe.measure().limits[1:] == (Limit("cgroup:/", 874 * MIB),)


def test_namespaced_container_whose_path_does_not_exist_uses_the_mount_root(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/"),
            "proc/self/cgroup": "4:memory:/kubepods/pod1/abc\n",
            **v1_group("", 1024 * MIB, 24 * MIB),
        },
    )
    assert probe.measure().limits[1:] == (Limit("cgroup:/", 1000 * MIB),)


def test_container_without_a_limit_is_bound_by_the_one_that_it_inherits(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/pod/abc"),
            "proc/self/cgroup": "4:memory:/pod/abc\n",
            **v1_group("", UNLIMITED, 300 * MIB, inactive=100 * MIB),
        },
    )
    stat = tmp_path / "sys/fs/cgroup/memory/memory.stat"
    stat.write_text(stat.read_text() + f"hierarchical_memory_limit {1024 * MIB}\n")
    headroom = probe.measure()
    # 1024 - (300 - 100)
    assert headroom.limits == (Limit("memory_available", AVAILABLE), Limit("cgroup_hidden", 824 * MIB))
    assert headroom.total_bytes == 1024 * MIB


def test_inherited_limit_that_is_seen_already_is_not_told_twice() -> None:
    stat = {"hierarchical_memory_limit": 500}
    assert v1_hidden_bytes("100", stat, 501) == (400, 500)
    assert v1_hidden_bytes("100", stat, 500) is None
    assert v1_hidden_bytes("100", {}, 500) is None
    assert v1_hidden_bytes("", stat, 501) is None


def test_v2_takes_the_smaller_of_max_and_high_and_counts_reclaimable_memory(tmp_path: Path) -> None:
    stat = f"anon 5\nfile 9\ninactive_file {200 * MIB}\nactive_file {100 * MIB}\nslab_reclaimable {10 * MIB}\n"
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "proc/self/cgroup": "0::/user.slice/app.scope\n",
            **v2_group("/user.slice", "max", "max", 5000 * MIB),
            **v2_group("/user.slice/app.scope", str(3072 * MIB), str(2048 * MIB), 1500 * MIB, stat),
        },
    )
    headroom = probe.measure()
    assert headroom.limits[1:] == (Limit("cgroup:/user.slice/app.scope", (2048 - 1500 + 310) * MIB),)
    assert headroom.total_bytes == 2048 * MIB


def test_v2_nested_limits_are_all_kept_outermost_first(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "proc/self/cgroup": "0::/a/b\n",
            **v2_group("/a", str(4096 * MIB), "max", 1000 * MIB),
            **v2_group("/a/b", "max", str(4096 * MIB), 500 * MIB),
        },
    )
    assert probe.measure().limits[1:] == (Limit("cgroup:/a", 3096 * MIB), Limit("cgroup:/a/b", 3596 * MIB))


def test_hybrid_machine_reads_v1_memory_and_ignores_the_empty_v2_tree(tmp_path: Path) -> None:
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNT.format(root="/") + unified,
            "proc/self/cgroup": "4:memory:/\n0::/\n",
            "sys/fs/cgroup/unified/cgroup.procs": "1\n",
            **v1_group("", 512 * MIB, 0),
        },
    )
    assert [limit.name for limit in probe.measure().limits] == ["memory_available", "cgroup:/"]


def test_pressure_of_the_own_group_counts(tmp_path: Path) -> None:
    probe = machine(
        tmp_path,
        {
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "proc/self/cgroup": "0::/a\n",
            **v2_group("/a", "max", "max", 0),
            "sys/fs/cgroup/a/memory.pressure": "some avg10=55.00 avg60=1 avg300=1 total=1\nfull avg10=31.10 total=1\n",
        },
    )
    assert probe.measure().pressure is Pressure.CRITICAL


def test_nothing_readable_means_nothing_is_free(tmp_path: Path) -> None:
    assert LinuxProbe(tmp_path).measure() == Headroom(0, (), 0, Pressure.CRITICAL, "unknown")


@pytest.mark.skipif(sys.platform != "linux", reason="this machine's own kernel files")
def test_this_machine_is_measured() -> None:
    headroom = LinuxProbe().measure()
    assert 0 < headroom.available_bytes <= headroom.total_bytes
    assert headroom.available_bytes == min(limit.bytes for limit in headroom.limits)
    assert headroom.binding in [limit.name for limit in headroom.limits]


def test_old_kernel_without_available_uses_free_and_cache() -> None:
    text = "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 200 kB\nShmem: 50 kB\n"
    assert parse_meminfo(text) == MemInfo(260 * 1024, 1000 * 1024, None)


def test_free_pages_in_the_lists_of_processors_count_but_never_beyond_all_memory(tmp_path: Path) -> None:
    zoneinfo = "  pages free 7\n  pagesets\n    cpu: 0\n              count:    {count}\n              high:     9\n"
    probe = machine(tmp_path, {"proc/zoneinfo": zoneinfo.format(count=100)})
    pages = 100 * mmap.PAGESIZE
    assert probe.measure().available_bytes == AVAILABLE + pages
    assert machine(tmp_path, {"proc/zoneinfo": zoneinfo.format(count=1 << 30)}).measure().available_bytes == (
        16384000 * 1024
    )


def test_swap_figures() -> None:
    text = "MemTotal: 10 kB\nMemAvailable: 5 kB\nSwapTotal: 8 kB\nSwapFree: 6 kB\n"
    assert parse_meminfo(text).swap_used_bytes == 2048
    assert swapped_in_bytes("xpswpin 9\npswpin 3\npswpout 5\n", 4096) == 3 * 4096
    assert swapped_in_bytes("pgpgin 3\n", 4096) is None


def test_group_without_a_usable_limit_is_left_out() -> None:
    assert v1_available_bytes("", "5", {}, 100) is None
    assert v1_available_bytes("100", "5", {}, 100) is None
    assert v2_available_bytes(("max", "max"), "5", {}, 100) is None
    assert v2_available_bytes(("50", ""), "", {}, 100) is None


def test_usage_and_cache_out_of_step_stay_within_the_limit() -> None:
    assert v1_available_bytes("50", "10", {"total_active_file": 30}, 100) == (50, 50)
    assert v2_available_bytes(("50", "max"), "90", {}, 100) == (0, 50)


def test_ancestors_outermost_first() -> None:
    mount = CgroupMount(2, PurePosixPath("/sys/fs/cgroup"), PurePosixPath("/"))
    assert ancestors(mount, PurePosixPath("/a/b")) == [PurePosixPath(part) for part in (".", "a", "a/b")]
    assert ancestors(mount, PurePosixPath("/../../x")) == [PurePosixPath()]


def test_pressure_file() -> None:
    assert parse_psi("some avg10=1.50 avg60=0 avg300=0 total=7\nfull avg10=0.25 total=0\n") == Psi(1.5, 0.25)
    assert parse_psi("") is None
    assert parse_psi("some avg10=x\n") is None


SOME, FULL = "stall_some_percent", "stall_full_percent"


@pytest.mark.parametrize(
    ("available", "signals", "level"),
    [
        (50, {}, Pressure.OK),
        (8, {SOME: 10, FULL: 10}, Pressure.OK),
        (7, {}, Pressure.TIGHT),
        (50, {SOME: 10.1}, Pressure.TIGHT),
        (50, {"group_stall_some_percent": 10.1}, Pressure.TIGHT),
        (3, {}, Pressure.CRITICAL),
        (50, {FULL: 10.1}, Pressure.CRITICAL),
        (50, {"group_stall_full_percent": 10.1}, Pressure.CRITICAL),
        (50, {"swap_in_bytes_per_s": 5e9}, Pressure.OK),
        (50, {"swap_in_sustained_bytes_per_s": 10e6}, Pressure.OK),
        (50, {"swap_in_sustained_bytes_per_s": 10.1e6}, Pressure.CRITICAL),
        (50, {"group_high_events": 0, "group_max_events": 0}, Pressure.OK),
        (7, {"group_high_events": 1}, Pressure.CRITICAL),
        (7, {"group_max_events": 1}, Pressure.CRITICAL),
        # Nobody keeps account of waiting, but what is free can only be page cache: that was dropped.
        (8, {"group_high_events": 900}, Pressure.OK),
        (50, {"group_max_events": 900}, Pressure.OK),
        # The limit was met, but nobody waited: only page cache was dropped.
        (50, {"group_max_events": 900, "group_stall_some_percent": 3.0}, Pressure.OK),
        (50, {"group_max_events": 900, "group_stall_some_percent": 10.1}, Pressure.CRITICAL),
        (50, {"pressure_level": 1}, Pressure.OK),
        (50, {"pressure_level": 2}, Pressure.TIGHT),
        (50, {"pressure_level": 4}, Pressure.CRITICAL),
        (50, {"low_memory": 0}, Pressure.OK),
        (50, {"low_memory": 1}, Pressure.CRITICAL),
        (50, {"swap_used_bytes": 9e9}, Pressure.OK),
    ],
)
def test_pressure_level(available: int, signals: Mapping[str, float], level: Pressure) -> None:
    assert pressure_level(available, 100, [Signal(name, value) for name, value in signals.items()]) is level


def test_stall_averages_are_told_apart_by_where_they_were_read() -> None:
    text = "some avg10=1.50 total=7\nfull avg10=0.25 total=0\n"
    assert stall_signals(text, group=False) == [Signal(SOME, 1.5), Signal(FULL, 0.25)]
    assert {signal.name for signal in stall_signals(text, group=True)} == {
        "group_stall_some_percent",
        "group_stall_full_percent",
    }
    assert stall_signals("", group=True) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("stall_some_percent", 12.46, "12.5 %"),
        ("swap_in_bytes_per_s", 12 * MIB + 0.4, "12 MiB/s"),
        ("swap_used_bytes", 512.0 * MIB, "512 MiB"),
        ("group_max_events", 3.0, "3"),
    ],
)
def test_signal_has_its_unit(name: str, value: float, text: str) -> None:
    assert signal_amount(Signal(name, value)) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_and_signal_has_its_text(language: str) -> None:
    translator = Translator(language)
    for key in LIMIT_KEYS:
        for kind in ("limit", "binding"):
            text = translator.text(f"plan.{kind}.{key}", detail="/a/b", size="7 MiB")
            assert ("7 MiB" in text) is (key != "unknown")
    for name in SIGNAL_NAMES:
        assert "12.5" in translator.text(f"plan.signal.{name}", value="12.5")


def test_name_splits_into_key_and_detail() -> None:
    assert split_name("cgroup:/a:b") == ("cgroup", "/a:b")
    assert split_name("memory_available") == ("memory_available", "")


def test_outermost_of_equal_limits_binds() -> None:
    assert build([Limit("memory_available", 5), Limit("cgroup:/", 5)], 10, []).binding == "memory_available"


def test_released_memory_lifts_every_link() -> None:
    before = build([Limit("memory_available", 5), Limit("cgroup:/", 3)], 10, [])
    after = released(before, 4)
    assert after.limits == (Limit("memory_available", 9), Limit("cgroup:/", 7))
    assert (after.available_bytes, after.binding) == (7, "cgroup:/")
    assert released(before, 0) is before


def test_released_memory_leaves_signals_and_devices_alone() -> None:
    signals, devices = (Signal(SOME, 11.0),), (Limit("device:GPU0", 9),)
    after = released(build([Limit("memory_available", 5)], 10, signals, devices), 4)
    assert (after.signals, after.device_limits, after.pressure) == (signals, devices, Pressure.TIGHT)


def test_portable_and_fixed_probes() -> None:
    assert PortableProbe(lambda: (3, 10)).measure().limits == (Limit("memory_available", 3),)
    live = PortableProbe().measure()
    assert 0 < live.available_bytes <= live.total_bytes
    assert FixedProbe(what_if(7)).measure().available_bytes == 7


def test_portable_probe_that_fails_reports_nothing_free() -> None:
    def broken() -> tuple[int, int]:
        raise OSError

    assert PortableProbe(broken).measure().binding == "unknown"


@pytest.mark.parametrize(("platform", "kind"), [("linux", LinuxProbe), ("darwin", MacProbe), ("aix", PortableProbe)])
def test_probe_for_the_platform(platform: str, kind: type) -> None:
    assert type(default_probe(platform)) is kind


def test_probe_for_windows_needs_its_library() -> None:
    kind = WindowsProbe if sys.platform == "win32" else PortableProbe
    assert type(default_probe("win32")) is kind

"""Headroom of whole machines, recorded in tests/data/headroom: available, binding limit and pressure by hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from muniment_runtime.contracts import Headroom, Limit, Pressure, Signal
from muniment_runtime.headroom.macos import (
    SYSCTL_COMMAND,
    VM_STAT_COMMAND,
    MacProbe,
    parse_swap_used,
    parse_sysctl,
    parse_vm_stat,
    run_command,
)
from muniment_runtime.headroom.probe import FixedProbe, LinuxProbe
from muniment_runtime.headroom.windows import (
    WindowsProbe,
    parse_job_limits,
    parse_memory_status,
    parse_private_bytes,
    parse_process_ids,
)

MACHINES = Path(__file__).parents[1] / "data" / "headroom"
MIB = 1 << 20
GIB = 1 << 30
PAGE = 4096


class Steps:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def values(headroom: Headroom) -> dict[str, float]:
    return {signal.name: signal.value for signal in headroom.signals}


# Linux


def linux(name: str) -> Headroom:
    return LinuxProbe(MACHINES / name, Steps(), PAGE).measure()


def test_laptop_is_bound_by_its_memory() -> None:
    headroom = linux("linux_laptop")
    # MemAvailable 9 GiB + lists of the processors 512 + 0 + 40960 + 7680 pages of 4 KiB = 192 MiB; no group has a limit
    available = 9437184 * 1024 + 192 * MIB
    assert headroom.limits == (Limit("memory_available", available),)
    assert (headroom.available_bytes, headroom.binding) == (available, "memory_available")
    assert headroom.total_bytes == 16116148 * 1024
    assert headroom.pressure is Pressure.OK
    assert headroom.signals == (
        Signal("stall_some_percent", 0.12),
        Signal("stall_full_percent", 0.05),
        Signal("swap_used_bytes", (8388604 - 7864316) * 1024.0),
        Signal("group_stall_some_percent", 0.2),
        Signal("group_stall_full_percent", 0.1),
    )


def test_container_v2_is_bound_by_memory_high_of_the_middle_group() -> None:
    headroom = linux("linux_container_v2")
    # outermost: 8192 - (6144 - 3072 inactive - 512 active - 256 slab) = 5888 MiB
    # /app: min(4096 max, 3072 high) - (2560 - 768 - 256 - 64) = 1600 MiB
    # /app/worker sets no limit
    assert headroom.limits == (
        Limit("memory_available", 40 * GIB),
        Limit("cgroup:/", 5888 * MIB),
        Limit("cgroup:/app", 1600 * MIB),
    )
    assert (headroom.available_bytes, headroom.binding) == (1600 * MIB, "cgroup:/app")
    assert headroom.total_bytes == 3 * GIB
    assert headroom.pressure is Pressure.OK  # 1600 of 3072 MiB, own stalls 4.2 % and 1.1 %


def test_container_v1_full_of_page_cache_has_room() -> None:
    headroom = linux("linux_container_v1_cache")
    # 4 GiB - (4 GiB - 4096 B - 2560 MiB inactive - 768 MiB active) = 3328 MiB + 4096 B
    assert headroom.limits[1:] == (Limit("cgroup:/", 3328 * MIB + 4096),)
    assert headroom.binding == "cgroup:/"
    assert headroom.total_bytes == 4 * GIB
    assert headroom.pressure is Pressure.OK


def test_scope_inside_a_slice_binds_and_is_tight() -> None:
    headroom = linux("linux_slice_inner_limit")
    # slice: 8192 - (5120 - 1024 - 512 - 128) = 4736 MiB; scope: 2048 - (1950 - 10 - 6 - 2) = 116 MiB
    assert headroom.limits == (
        Limit("memory_available", 6 * GIB),
        Limit("cgroup:/user.slice/user-1000.slice", 4736 * MIB),
        Limit("cgroup:/user.slice/user-1000.slice/muniment.scope", 116 * MIB),
    )
    assert headroom.available_bytes == 116 * MIB
    assert headroom.pressure is Pressure.TIGHT  # 116 of 2048 MiB: 5.7 %, between 4 and 8


def test_kernel_without_pressure_files_is_judged_by_what_is_left() -> None:
    headroom = linux("linux_no_psi")
    assert headroom.limits == (Limit("memory_available", 240 * MIB),)
    assert headroom.signals == ()
    assert headroom.pressure is Pressure.CRITICAL  # 245760 of 8057892 kB: 3.0 %


def copied(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(MACHINES / name, tmp_path / name))


def swapped(root: Path, pages: int) -> None:
    (root / "proc/vmstat").write_text(f"pswpin {pages}\npswpout 0\n")


def test_swapping_in_is_critical_after_two_fast_samples(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_laptop"), Steps()
    probe = LinuxProbe(root, clock, PAGE)
    swapped(root, 1000)
    assert "swap_in_bytes_per_s" not in values(probe.measure())
    swapped(root, 1000 + 5120)  # 5120 pages of 4 KiB in 1 s: 20 MiB/s
    clock.now_s += 1
    once = probe.measure()
    assert values(once)["swap_in_bytes_per_s"] == 5120 * PAGE
    assert once.pressure is Pressure.OK
    swapped(root, 1000 + 2 * 5120)  # the same in 2 s: 10 MiB/s, just over 10 MB/s
    clock.now_s += 2
    twice = probe.measure()
    assert values(twice)["swap_in_bytes_per_s"] == 2560 * PAGE
    assert values(twice)["swap_in_sustained_bytes_per_s"] == 2560 * PAGE
    assert twice.pressure is Pressure.CRITICAL
    clock.now_s += 1
    assert probe.measure().pressure is Pressure.OK


def test_looks_in_quick_succession_share_a_sample_and_old_samples_are_forgotten(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_laptop"), Steps()
    probe = LinuxProbe(root, clock, PAGE)
    swapped(root, 0)
    probe.measure()
    swapped(root, 1000)
    clock.now_s += 0.1
    assert "swap_in_bytes_per_s" not in values(probe.measure())
    clock.now_s += 0.9
    assert values(probe.measure())["swap_in_bytes_per_s"] == 1000 * PAGE  # over the whole second
    swapped(root, 2000)
    clock.now_s += 31
    assert "swap_in_bytes_per_s" not in values(probe.measure())


def events(folder: Path, high: int, maximum: int, name: str = "memory.events.local") -> None:
    (folder / name).write_text(f"low 0\nhigh {high}\nmax {maximum}\noom 0\noom_kill 0\n")


def stalled(folder: Path, some_percent: float) -> None:
    (folder / "memory.pressure").write_text(f"some avg10={some_percent} total=1\nfull avg10=0.00 total=1\n")


def test_a_group_that_runs_into_its_limit_is_critical_when_somebody_waits(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_container_v2"), Steps()
    group = root / "sys/fs/cgroup/app"
    probe = LinuxProbe(root, clock, PAGE)
    first = values(probe.measure())
    assert "group_high_events" not in first  # 12 of them, but nobody knows when
    events(group, 19, 0)
    events(root / "sys/fs/cgroup", 0, 5)
    stalled(group / "worker", 15)
    clock.now_s += 1
    headroom = probe.measure()
    # /app: 19 - 12 = 7; outermost: max 5 - 3 = 2
    assert (values(headroom)["group_high_events"], values(headroom)["group_max_events"]) == (7, 2)
    assert headroom.pressure is Pressure.CRITICAL
    clock.now_s += 1
    assert probe.measure().pressure is Pressure.TIGHT  # no more events; tasks still wait


def test_a_limit_met_by_page_cache_alone_changes_no_level(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_container_v2"), Steps()
    probe = LinuxProbe(root, clock, PAGE)
    probe.measure()
    events(root / "sys/fs/cgroup/app", 900, 0)
    clock.now_s += 1
    headroom = probe.measure()
    assert values(headroom)["group_high_events"] == 888
    assert headroom.pressure is Pressure.OK


def test_old_kernel_tells_events_of_the_innermost_group_only(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_slice_inner_limit"), Steps()
    outer = root / "sys/fs/cgroup/user.slice/user-1000.slice"
    for folder in (outer, outer / "muniment.scope"):
        (folder / "memory.events.local").unlink()
        events(folder, 0, 10, "memory.events")
    probe = LinuxProbe(root, clock, PAGE)
    probe.measure()
    events(outer, 0, 99, "memory.events")  # another program's limit, further in
    events(outer / "muniment.scope", 0, 11, "memory.events")
    clock.now_s += 1
    assert values(probe.measure())["group_max_events"] == 1


def test_a_process_that_is_moved_to_another_group_starts_counting_anew(tmp_path: Path) -> None:
    root, clock = copied(tmp_path, "linux_container_v2"), Steps()
    probe = LinuxProbe(root, clock, PAGE)
    probe.measure()
    (root / "proc/self/cgroup").write_text("0::/\n")
    clock.now_s += 1
    assert "group_max_events" not in values(probe.measure())


# macOS


def mac(name: str, clock: Steps | None = None) -> MacProbe:
    def read(arguments: Sequence[str]) -> str:
        file = {VM_STAT_COMMAND: "vm_stat.txt", SYSCTL_COMMAND: "sysctl.txt"}[tuple(arguments)]
        return (MACHINES / name / file).read_text("utf-8")

    return MacProbe(read, clock or Steps())


def test_calm_mac() -> None:
    # pages of 16 KiB: free 131072 (2 GiB) + speculative 16384 (256 MiB) + inactive 262144 (4 GiB)
    # + purgeable 32768 (512 MiB) = 6912 MiB
    assert mac("macos_16gb_level1").measure() == Headroom(
        6912 * MIB,
        (Limit("memory_available", 6912 * MIB),),
        16 * GIB,
        Pressure.OK,
        "memory_available",
        (Signal("pressure_level", 1.0), Signal("swap_used_bytes", 0.0)),
    )


def test_mac_that_warns_counts_only_what_needs_no_compressing() -> None:
    headroom = mac("macos_16gb_level2").measure()
    # free 128 + speculative 64 + purgeable 128 + inactive 3840 = 4160 MiB
    # of the inactive only as much as is file-backed: 128 + 64 + 128 + 1024 = 1344 MiB
    assert headroom.limits == (Limit("memory_available", 4160 * MIB), Limit("uncompressed", 1344 * MIB))
    assert (headroom.available_bytes, headroom.binding) == (1344 * MIB, "uncompressed")
    assert headroom.pressure is Pressure.TIGHT  # 8.2 % are left, but the system warns
    assert values(headroom)["swap_used_bytes"] == 1024.25 * MIB
    assert headroom.device_limits == (Limit("wired", 12288 * MIB),)


def test_mac_at_the_critical_level() -> None:
    headroom = mac("macos_16gb_level4").measure()
    # 48 + 16 + 0 + min(3200, 640) = 704 MiB
    assert (headroom.available_bytes, headroom.binding) == (704 * MIB, "uncompressed")
    assert headroom.pressure is Pressure.CRITICAL
    assert headroom.device_limits == ()  # 0 means the default, which is not known here


def test_mac_tells_its_swap_in_rate_from_the_second_sample_on() -> None:
    clock = Steps()
    probe = mac("macos_16gb_level4", clock)
    probe.measure()
    clock.now_s += 1
    assert values(probe.measure())["swap_in_bytes_per_s"] == 0


def test_mac_without_its_programs_asks_the_fallback() -> None:
    assert MacProbe(lambda _: "").measure() == Headroom(0, (), 0, Pressure.CRITICAL, "unknown")
    known = Headroom(5, (Limit("memory_available", 5),), 9, Pressure.OK, "memory_available")
    assert MacProbe(lambda _: "", fallback=FixedProbe(known)).measure() is known


def test_texts_of_the_mac_programs() -> None:
    vm = parse_vm_stat('Mach (page size of 4096 bytes)\nPages free:   3.\n"Translation faults":  7.\nJunk\n')
    assert vm == {"Pages free": 3 * 4096, "Translation faults": 7 * 4096}
    assert parse_vm_stat("Pages free: 3.\n") == {}
    assert parse_sysctl("a.b: 1\nnoise\nc: x: y\n") == {"a.b": "1", "c": "x: y"}
    assert parse_swap_used("total = 3.00G  used = 1.50G  free = 1.50G") == 1536 * MIB
    assert parse_swap_used("none") is None


def test_a_program_that_is_not_there_gives_nothing() -> None:
    assert run_command(["/nonexistent/vm_stat"]) == ""


# Windows


class Recorded:
    """Reads the recorded structures."""

    def __init__(self, name: str) -> None:
        self._folder = MACHINES / name

    def memory_status(self) -> bytes:
        return self._bytes("memory_status")

    def low_memory(self) -> bool | None:
        return (self._folder / "low_memory.txt").read_text() == "1\n"

    def job_limits(self) -> bytes:
        return self._bytes("job_limits")

    def job_processes(self) -> bytes:
        return self._bytes("job_processes")

    def process_memory(self, process_id: int) -> bytes:
        return self._bytes(f"process_{process_id}")

    def _bytes(self, name: str) -> bytes:
        path = self._folder / f"{name}.hex"
        if not path.exists():
            return b""
        return bytes.fromhex("".join(line.partition("#")[0] for line in path.read_text("utf-8").splitlines()))


def test_windows_with_free_memory_but_no_commit_left() -> None:
    headroom = WindowsProbe(Recorded("windows_commit_bound")).measure()
    assert headroom.limits == (Limit("memory_available", 6 * GIB), Limit("commit", 400 * MIB))
    assert (headroom.available_bytes, headroom.binding) == (400 * MIB, "commit")
    assert headroom.total_bytes == 17021841408
    assert headroom.pressure is Pressure.CRITICAL  # 400 of 16233 MiB: 2.5 %
    assert headroom.signals == (Signal("low_memory", 0.0),)


def test_windows_in_a_job_is_bound_by_the_limit_of_one_process() -> None:
    headroom = WindowsProbe(Recorded("windows_job")).measure()
    # private bytes: 200 MiB and 1536 MiB; job 6144 - 1736 = 4408; process 4096 - 1536 = 2560
    assert headroom.limits == (
        Limit("memory_available", 20 * GIB),
        Limit("commit", 24 * GIB),
        Limit("job", 4408 * MIB),
        Limit("job_process", 2560 * MIB),
    )
    assert (headroom.available_bytes, headroom.binding) == (2560 * MIB, "job_process")
    assert headroom.total_bytes == 4 * GIB
    assert headroom.pressure is Pressure.OK


def test_job_with_a_process_that_cannot_be_read_counts_its_peak() -> None:
    class Shy(Recorded):
        def process_memory(self, process_id: int) -> bytes:
            return b"" if process_id == 4120 else super().process_memory(process_id)

    # job 6144 - 5376 = 768; process 4096 - 3584 = 512
    headroom = WindowsProbe(Shy("windows_job")).measure()
    assert headroom.limits[2:] == (Limit("job", 768 * MIB), Limit("job_process", 512 * MIB))


def test_low_memory_notification_is_critical() -> None:
    class Warned(Recorded):
        def low_memory(self) -> bool | None:
            return True

    assert WindowsProbe(Warned("windows_job")).measure().pressure is Pressure.CRITICAL


def test_windows_that_answers_nothing_has_nothing_free() -> None:
    class Mute(Recorded):
        def memory_status(self) -> bytes:
            return b""

    assert WindowsProbe(Mute("windows_job")).measure().binding == "unknown"


@pytest.mark.parametrize("cut", [0, 1, 63])
def test_structures_that_are_cut_short_are_no_figures(cut: int) -> None:
    reader = Recorded("windows_job")
    assert parse_memory_status(reader.memory_status()[:cut]) is None
    assert parse_job_limits(reader.job_limits()[:cut]) is None
    assert parse_private_bytes(reader.process_memory(4120)[:cut]) is None
    assert parse_process_ids(reader.job_processes()[: min(cut, 23)]) is None


def test_structure_of_another_length_and_incomplete_list_are_refused() -> None:
    reader = Recorded("windows_job")
    assert parse_memory_status(b"\x20" + reader.memory_status()[1:]) is None
    assert parse_process_ids(b"\x03" + reader.job_processes()[1:]) is None

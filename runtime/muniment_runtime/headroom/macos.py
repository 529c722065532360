"""Headroom on macOS from what ``vm_stat`` and ``sysctl`` print: pure parsers, and the probe that runs them.

The two programs are run, rather than the kernel called through ctypes, because their text is what recorded machines
hold and what the tests read: no structure layout has to be trusted unseen. Both take a few milliseconds.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from muniment_runtime.contracts import Clock, Headroom, HeadroomProbe, Limit, Signal
from muniment_runtime.headroom.chain import (
    MEMORY_AVAILABLE,
    PRESSURE_LEVEL,
    SWAP_USED,
    UNCOMPRESSED,
    WARNING_LEVEL,
    WIRED,
    build,
)
from muniment_runtime.headroom.window import SampleWindow

__all__ = [
    "SYSCTL_COMMAND",
    "VM_STAT_COMMAND",
    "CommandReader",
    "MacProbe",
    "available_bytes",
    "parse_swap_used",
    "parse_sysctl",
    "parse_vm_stat",
    "run_command",
    "uncompressed_bytes",
    "wired_limit_bytes",
]

CommandReader = Callable[[Sequence[str]], str]
"""Runs a command line and returns what it printed, nothing when it failed."""

VM_STAT_COMMAND = ("/usr/bin/vm_stat",)
# The last name exists on Apple silicon only; sysctl may stop at a name that it does not know.
SYSCTL_COMMAND = (
    "/usr/sbin/sysctl",
    "hw.memsize",
    "kern.memorystatus_vm_pressure_level",
    "vm.swapusage",
    "iogpu.wired_limit_mb",
)
_COMMAND_LIMIT_S = 2.0

_PAGE_SIZE = re.compile(r"page size of (\d+) bytes")
_COUNTER = re.compile(r'^"?([A-Za-z][^:"\n]*)"?:\s+(\d+)\.?$', re.MULTILINE)
_SWAP_USED = re.compile(r"\bused = (\d+(?:\.\d+)?)([KMG])")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_vm_stat(text: str) -> dict[str, int]:
    """Return the counters of ``vm_stat`` in bytes, by their printed name; nothing without a page size.

    The few that count something else, such as faults, are multiplied too and mean nothing then.
    """
    size = _PAGE_SIZE.search(text)
    if size is None:
        return {}
    return {name: int(pages) * int(size[1]) for name, pages in _COUNTER.findall(text)}


def parse_sysctl(text: str) -> dict[str, str]:
    """Return the ``name: value`` lines of ``sysctl``."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}


def parse_swap_used(swapusage: str) -> int | None:
    """Return the used bytes of ``vm.swapusage``: ``total = 2048.00M  used = 1024.25M  free = 1023.75M``."""
    found = _SWAP_USED.search(swapusage)
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def available_bytes(vm: Mapping[str, int]) -> int | None:
    """Return free + speculative + inactive + purgeable, ``None`` when the counters are not those of ``vm_stat``.

    ``vm_stat`` prints free pages without the speculative ones. Purgeable memory is what programs allow the system to
    throw away.
    """
    if "Pages free" not in vm or "Pages inactive" not in vm:
        return None
    return _at_once(vm) + vm["Pages inactive"]


def uncompressed_bytes(vm: Mapping[str, int]) -> int:
    """Return what can be had without compressing or swapping other programs' memory.

    Inactive pages that back no file are such memory, so only as much of the inactive part counts as is file-backed.
    """
    return _at_once(vm) + min(vm.get("Pages inactive", 0), vm.get("File-backed pages", 0))


def _at_once(vm: Mapping[str, int]) -> int:
    return vm.get("Pages free", 0) + vm.get("Pages speculative", 0) + vm.get("Pages purgeable", 0)


def wired_limit_bytes(value: str) -> int | None:
    """Return what the user lets the graphics part wire (``iogpu.wired_limit_mb``), ``None`` for the default.

    The default is 0 and means a share that only Metal knows; a backend reports it as the device's memory.
    """
    return int(value) << 20 if value.isdigit() and int(value) > 0 else None


class MacProbe:
    """Available memory, capped when the system reports pressure, and the wired limit of Apple silicon.

    Args:
        read: Runs the two fixed command lines.
        clock: Monotonic seconds, for the swap-in rate.
        fallback: Asked when the programs give nothing usable.
    """

    def __init__(
        self,
        read: CommandReader | None = None,
        clock: Clock = time.monotonic,
        fallback: HeadroomProbe | None = None,
    ) -> None:
        self._read = read or run_command
        self._window = SampleWindow(clock)
        self._fallback = fallback

    def measure(self) -> Headroom:
        """Return the headroom now."""
        vm = parse_vm_stat(self._read(VM_STAT_COMMAND))
        values = parse_sysctl(self._read(SYSCTL_COMMAND))
        available = available_bytes(vm)
        total = _whole(values.get("hw.memsize", "")) or 0
        if available is None or not total:
            return build([], total, []) if self._fallback is None else self._fallback.measure()
        signals: list[Signal] = []
        limits = [Limit(MEMORY_AVAILABLE, min(available, total))]
        level = _whole(values.get("kern.memorystatus_vm_pressure_level", ""))
        if level is not None:
            signals.append(Signal(PRESSURE_LEVEL, float(level)))
            if level >= WARNING_LEVEL:
                limits.append(Limit(UNCOMPRESSED, min(uncompressed_bytes(vm), total)))
        swap_used = parse_swap_used(values.get("vm.swapusage", ""))
        if swap_used is not None:
            signals.append(Signal(SWAP_USED, float(swap_used)))
        signals += self._window.advance(vm.get("Swapins"))
        wired = wired_limit_bytes(values.get("iogpu.wired_limit_mb", ""))
        return build(limits, total, signals, [] if wired is None else [Limit(WIRED, wired)])


def _whole(value: str) -> int | None:
    return int(value) if value.isdigit() else None


def run_command(arguments: Sequence[str]) -> str:
    """Run a fixed command line without a shell and with an empty environment; return what it printed, if anything."""
    try:
        done = subprocess.run(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_LIMIT_S,
            env={"LC_ALL": "C"},  # decimal points, English names
            check=False,  # an unknown name makes sysctl fail after it has printed the others
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")

"""Headroom on Windows: pure parsers of the documented structures, and the probe over a reader that fills them.

Two limits count there: physical memory, and commit. A process whose allocation exceeds the commit limit gets no memory
even while physical memory is free.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from muniment_runtime.contracts import Headroom, Limit, Signal
from muniment_runtime.headroom.chain import COMMIT, JOB, JOB_PROCESS, LOW_MEMORY, MEMORY_AVAILABLE, build

__all__ = [
    "JobLimits",
    "MemoryStatus",
    "WindowsProbe",
    "WindowsReader",
    "job_available",
    "kernel_reader",
    "parse_job_limits",
    "parse_memory_status",
    "parse_private_bytes",
    "parse_process_ids",
]

# MEMORYSTATUSEX (sysinfoapi.h): two DWORD (length, load), seven DWORDLONG: physical total and available, commit limit
# and what is left of it, virtual total and available, extended.
_MEMORY_STATUS = struct.Struct("<II7Q")
# JOBOBJECT_EXTENDED_LIMIT_INFORMATION (winnt.h), 64-bit: basic limits (64 bytes, LimitFlags at 16), IO_COUNTERS (48),
# then ProcessMemoryLimit, JobMemoryLimit, PeakProcessMemoryUsed, PeakJobMemoryUsed.
_JOB_LIMITS = struct.Struct("<16xI44x48x4Q")
_PROCESS_MEMORY_FLAG = 0x100
_JOB_MEMORY_FLAG = 0x200
# JOBOBJECT_BASIC_PROCESS_ID_LIST: assigned, in list (DWORD each), then one ULONG_PTR per process.
_PROCESS_IDS_HEAD = struct.Struct("<II")
# PROCESS_MEMORY_COUNTERS_EX (psapi.h), 64-bit: two DWORD, nine SIZE_T of which PrivateUsage is the last.
_PROCESS_MEMORY = struct.Struct("<II9Q")


class MemoryStatus(NamedTuple):
    """Physical memory and commit, in bytes."""

    total_bytes: int
    available_bytes: int
    commit_limit_bytes: int
    commit_available_bytes: int


class JobLimits(NamedTuple):
    """Memory limits of a job object in bytes, ``None`` where it sets none, and the most it ever used."""

    process_bytes: int | None
    job_bytes: int | None
    peak_process_bytes: int
    peak_job_bytes: int


class WindowsReader(Protocol):
    """Fills the structures. An empty result means that the call failed or does not apply."""

    def memory_status(self) -> bytes:
        """Return a ``MEMORYSTATUSEX`` (``GlobalMemoryStatusEx``)."""
        ...

    def low_memory(self) -> bool | None:
        """Return whether the low memory resource notification is set, ``None`` when unknown."""
        ...

    def job_limits(self) -> bytes:
        """Return this process's ``JOBOBJECT_EXTENDED_LIMIT_INFORMATION``; empty when it is in no job."""
        ...

    def job_processes(self) -> bytes:
        """Return the job's ``JOBOBJECT_BASIC_PROCESS_ID_LIST``."""
        ...

    def process_memory(self, process_id: int) -> bytes:
        """Return a process's ``PROCESS_MEMORY_COUNTERS_EX``."""
        ...


def parse_memory_status(raw: bytes) -> MemoryStatus | None:
    """Return the figures of a ``MEMORYSTATUSEX``, ``None`` when it is none."""
    if len(raw) < _MEMORY_STATUS.size:
        return None
    length, _load, total, available, commit_limit, commit_available, *_ = _MEMORY_STATUS.unpack_from(raw)
    if length != _MEMORY_STATUS.size:
        return None
    return MemoryStatus(total, available, commit_limit, commit_available)


def parse_job_limits(raw: bytes) -> JobLimits | None:
    """Return the memory limits of a job, ``None`` when there is no job."""
    if len(raw) < _JOB_LIMITS.size:
        return None
    flags, process, job, peak_process, peak_job = _JOB_LIMITS.unpack_from(raw)
    return JobLimits(
        process if flags & _PROCESS_MEMORY_FLAG else None,
        job if flags & _JOB_MEMORY_FLAG else None,
        peak_process,
        peak_job,
    )


def parse_process_ids(raw: bytes) -> list[int] | None:
    """Return the processes of a job, ``None`` when the list is missing or does not hold them all."""
    if len(raw) < _PROCESS_IDS_HEAD.size:
        return None
    assigned, listed = _PROCESS_IDS_HEAD.unpack_from(raw)
    if listed < assigned or len(raw) < _PROCESS_IDS_HEAD.size + 8 * listed:
        return None
    return list(struct.unpack_from(f"<{listed}Q", raw, _PROCESS_IDS_HEAD.size))


def parse_private_bytes(raw: bytes) -> int | None:
    """Return the private committed bytes of a process, which is what a job's limits count."""
    return int(_PROCESS_MEMORY.unpack_from(raw)[-1]) if len(raw) >= _PROCESS_MEMORY.size else None


def job_available(limits: JobLimits, private_bytes: Sequence[int] | None) -> list[Limit]:
    """Return what the job's limits leave.

    Args:
        limits: Of the job.
        private_bytes: Private bytes of each of its processes; ``None`` when not all could be read. The most that was
            ever used stands in then: it is never too low.

    Returns:
        ``job``: the whole job's limit less what its processes use. ``job_process``: the limit of a single process less
        what the largest uses, because the largest is the one that holds the model.
    """
    used = limits.peak_job_bytes if private_bytes is None else sum(private_bytes)
    largest = limits.peak_process_bytes if private_bytes is None else max(private_bytes, default=0)
    found = []
    if limits.job_bytes is not None:
        found.append(Limit(JOB, max(0, limits.job_bytes - used)))
    if limits.process_bytes is not None:
        found.append(Limit(JOB_PROCESS, max(0, limits.process_bytes - largest)))
    return found


class WindowsProbe:
    """Physical memory, commit, and the job object that this process may live in.

    Of nested jobs the system shows a process only its own; an outer one that is tighter stays unseen.

    Args:
        reader: Fills the structures.
    """

    def __init__(self, reader: WindowsReader) -> None:
        self._reader = reader

    def measure(self) -> Headroom:
        """Return the headroom now; what cannot be read leaves its limit out."""
        status = parse_memory_status(self._reader.memory_status())
        if status is None:
            return build([], 0, [])
        limits = [
            Limit(MEMORY_AVAILABLE, status.available_bytes),
            Limit(COMMIT, status.commit_available_bytes),
        ]
        sizes = [status.total_bytes, status.commit_limit_bytes]
        job = parse_job_limits(self._reader.job_limits())
        if job is not None and (job.job_bytes is not None or job.process_bytes is not None):
            limits += job_available(job, self._private_bytes())
            sizes += [size for size in (job.job_bytes, job.process_bytes) if size is not None]
        low = self._reader.low_memory()
        signals = [] if low is None else [Signal(LOW_MEMORY, float(low))]
        return build(limits, min(sizes), signals)

    def _private_bytes(self) -> list[int] | None:
        process_ids = parse_process_ids(self._reader.job_processes())
        if process_ids is None:
            return None
        found = []
        for process_id in process_ids:
            private = parse_private_bytes(self._reader.process_memory(process_id))
            if private is None:
                return None
            found.append(private)
        return found


if sys.platform == "win32":

    class KernelReader:
        """The reader of the running system: one call of ``kernel32`` per structure."""

        _EXTENDED_LIMITS = 9
        _PROCESS_ID_LIST = 3
        _QUERY_LIMITED = 0x1000
        _LOW_MEMORY_NOTIFICATION = 0
        _MOST_PROCESSES = 1024

        def __init__(self) -> None:
            kernel = self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            handle, number, flag = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int
            kernel.CreateMemoryResourceNotification.argtypes = [ctypes.c_int]
            kernel.CreateMemoryResourceNotification.restype = handle
            kernel.QueryMemoryResourceNotification.argtypes = [handle, ctypes.POINTER(flag)]
            kernel.QueryInformationJobObject.argtypes = [handle, ctypes.c_int, ctypes.c_void_p, number, handle]
            kernel.GlobalMemoryStatusEx.argtypes = [ctypes.c_void_p]
            kernel.OpenProcess.argtypes, kernel.OpenProcess.restype = [number, flag, number], handle
            kernel.K32GetProcessMemoryInfo.argtypes = [handle, ctypes.c_void_p, number]
            kernel.CloseHandle.argtypes = [handle]
            # Kept open as long as the program runs.
            self._notification = kernel.CreateMemoryResourceNotification(self._LOW_MEMORY_NOTIFICATION)

        def memory_status(self) -> bytes:
            """Call ``GlobalMemoryStatusEx``."""
            size = _MEMORY_STATUS.size
            buffer = ctypes.create_string_buffer(size.to_bytes(4, "little"), size)
            return buffer.raw if self._kernel.GlobalMemoryStatusEx(buffer) else b""

        def low_memory(self) -> bool | None:
            """Call ``QueryMemoryResourceNotification``."""
            state = ctypes.c_int()
            if not self._notification:
                return None
            done = self._kernel.QueryMemoryResourceNotification(self._notification, ctypes.byref(state))
            return bool(state.value) if done else None

        def job_limits(self) -> bytes:
            """Call ``QueryInformationJobObject`` for the extended limits."""
            return self._job(self._EXTENDED_LIMITS, _JOB_LIMITS.size)

        def job_processes(self) -> bytes:
            """Call ``QueryInformationJobObject`` for the processes."""
            return self._job(self._PROCESS_ID_LIST, _PROCESS_IDS_HEAD.size + 8 * self._MOST_PROCESSES)

        def _job(self, kind: int, size: int) -> bytes:
            buffer = ctypes.create_string_buffer(size)
            done = self._kernel.QueryInformationJobObject(None, kind, buffer, size, None)
            return buffer.raw if done else b""

        def process_memory(self, process_id: int) -> bytes:
            """Call ``K32GetProcessMemoryInfo``."""
            process = self._kernel.OpenProcess(self._QUERY_LIMITED, 0, process_id)
            if not process:
                return b""
            try:
                size = _PROCESS_MEMORY.size
                buffer = ctypes.create_string_buffer(size.to_bytes(4, "little"), size)
                return buffer.raw if self._kernel.K32GetProcessMemoryInfo(process, buffer, size) else b""
            finally:
                self._kernel.CloseHandle(process)


def kernel_reader() -> WindowsReader | None:
    """Return the reader of the running system, ``None`` on any other."""
    if sys.platform == "win32":
        return KernelReader()
    else:  # noqa: RET505 - the type checker follows platform checks by their branches only
        return None

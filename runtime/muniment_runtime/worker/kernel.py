"""Calls into the kernel that Python does not wrap: seccomp, Landlock, parent-death signal, Windows priority.

All are best effort: a system without them, or an older one, answers ``False`` or 0.

Sources: Linux ``include/uapi/linux/{seccomp,landlock,audit,filter,prctl}.h`` and the system call tables of x86-64
(``arch/x86/entry/syscalls/syscall_64.tbl``) and of arm64 (``include/uapi/asm-generic/unistd.h``).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "build_filter",
    "die_with_parent",
    "filter_system_calls",
    "restrict_files_and_tcp",
    "windows_below_normal",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1


@dataclass(frozen=True)
class _Machine:
    """Numbers that differ between processor architectures."""

    audit_arch: int
    seccomp: int
    network: tuple[int, ...]
    tracing: tuple[int, ...]
    execution: tuple[int, ...]


# Equal on both: io_uring_setup, _enter, _register (they would carry sockets past the filter), pidfd_getfd.
_IO_URING = (425, 426, 427)
_PIDFD_GETFD = 438

_MACHINES = {
    "x86_64": _Machine(
        audit_arch=0xC000003E,
        seccomp=317,
        # socket, connect, accept, sendto, sendmsg, bind, listen, accept4, sendmmsg
        network=(41, 42, 43, 44, 46, 49, 50, 288, 307),
        # ptrace, process_vm_readv, process_vm_writev, perf_event_open, bpf
        tracing=(101, 310, 311, 298, 321, _PIDFD_GETFD),
        # execve, execveat
        execution=(59, 322),
    ),
    "aarch64": _Machine(
        audit_arch=0xC00000B7,
        seccomp=277,
        # socket, bind, listen, accept, connect, sendto, sendmsg, accept4, sendmmsg
        network=(198, 200, 201, 202, 203, 206, 211, 242, 269),
        tracing=(117, 270, 271, 241, 280, _PIDFD_GETFD),
        execution=(221, 281),
    ),
}

# Classic BPF: load word, jump if equal, jump if greater or equal, return.
_LOAD = 0x20
_JEQ = 0x15
_JGE = 0x35
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_KILL = 0x80000000
_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_X32_BIT = 0x40000000
"""On x86-64 the same calls exist a second time under numbers with this bit; without a check they pass a filter."""


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def build_filter(audit_arch: int, denied: Iterable[int]) -> bytes:
    """Return the BPF program: other architecture kills, denied numbers fail with EPERM, the rest passes."""
    numbers = sorted(set(denied))
    program = [
        _step(_LOAD, _OFFSET_ARCH),
        _step(_JEQ, audit_arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _OFFSET_NUMBER),
        _step(_JGE, _X32_BIT, len(numbers) + 1, 0),
    ]
    for index, number in enumerate(numbers):
        program.append(_step(_JEQ, number, len(numbers) - index, 0))
    program += [_step(_RETURN, _ALLOW), _step(_RETURN, _REFUSE)]
    return b"".join(program)


def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def filter_system_calls(*, deny_network: bool, deny_exec: bool) -> bool:
    """Install the system call filter for every thread of this process; return whether it is on."""
    libc = _libc()
    machine = _MACHINES.get(platform.machine())
    # A 32-bit interpreter on a 64-bit kernel would fail the architecture check and be killed.
    if libc is None or machine is None or struct.calcsize("P") != 8:
        return False
    denied = [*_IO_URING, *machine.tracing]
    if deny_network:
        denied += machine.network
    if deny_exec:
        denied += machine.execution
    code = build_filter(machine.audit_arch, denied)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    done = libc.syscall(
        ctypes.c_long(machine.seccomp),
        ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_uint(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    )
    if done == 0:
        return True
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


# Landlock: numbers are the same on all architectures.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1

_FS_EXECUTE = 1 << 0
_FS_WRITE_FILE = 1 << 1
# Bits 4..12: remove and make of every kind of entry. 13 rename across folders (ABI 2), 14 truncate (ABI 3).
_FS_CHANGE_ENTRIES = sum(1 << bit for bit in range(4, 13))
_FS_REFER = 1 << 13
_FS_TRUNCATE = 1 << 14
_NET_TCP = 0b11
_SCOPE_UNIX_AND_SIGNALS = 0b11
_O_PATH = 0o10000000


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def _ruleset(abi: int, *, deny_writes: bool, deny_exec: bool, deny_network: bool) -> tuple[_Ruleset, int]:
    """Return the handled rights (handled and not granted means refused) and the size that this ABI knows."""
    files = 0
    if deny_exec:
        files |= _FS_EXECUTE
    if deny_writes:
        files |= _FS_WRITE_FILE | _FS_CHANGE_ENTRIES
        files |= _FS_REFER if abi >= 2 else 0
        files |= _FS_TRUNCATE if abi >= 3 else 0
    net = _NET_TCP if deny_network and abi >= 4 else 0
    scoped = _SCOPE_UNIX_AND_SIGNALS if abi >= 6 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    return _Ruleset(files, net, scoped), size


def restrict_files_and_tcp(*, deny_writes: bool, deny_exec: bool, deny_network: bool, writable: Iterable[str]) -> int:
    """Fence this thread and its descendants with Landlock; return the active ABI version, 0 for none.

    Reading stays allowed: the parent decides which files a worker gets, and libraries must still load.
    """
    libc = _libc()
    if libc is None:
        return 0
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    abi = int(
        syscall(
            ctypes.c_long(_LANDLOCK_CREATE_RULESET),
            None,
            ctypes.c_size_t(0),
            ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION),
        )
    )
    if abi < 1:
        return 0
    ruleset, size = _ruleset(abi, deny_writes=deny_writes, deny_exec=deny_exec, deny_network=deny_network)
    descriptor = int(
        syscall(
            ctypes.c_long(_LANDLOCK_CREATE_RULESET),
            ctypes.byref(ruleset),
            ctypes.c_size_t(size),
            ctypes.c_uint32(0),
        )
    )
    if descriptor < 0:
        return 0
    try:
        if deny_writes:
            for path in writable:
                _allow_writes(libc, descriptor, path, abi)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return 0
        done = syscall(ctypes.c_long(_LANDLOCK_RESTRICT_SELF), ctypes.c_int(descriptor), ctypes.c_uint32(0))
        return abi if done == 0 else 0
    finally:
        os.close(descriptor)


def _allow_writes(libc: ctypes.CDLL, ruleset: int, path: str, abi: int) -> None:
    try:
        entry = os.open(path, _O_PATH | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return
    try:
        # On a file only the rights of files may be granted, and truncation is one of them since ABI 3.
        access = _FS_WRITE_FILE | (_FS_TRUNCATE if abi >= 3 else 0)
        rule = _PathBeneath(access, entry)
        libc.syscall(
            ctypes.c_long(_LANDLOCK_ADD_RULE),
            ctypes.c_int(ruleset),
            ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(entry)


def die_with_parent() -> bool:
    """Ask Linux to kill this process when the *thread* that started it ends; return whether it is set."""
    libc = _libc()
    if libc is None:
        return False
    return bool(libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0)


def windows_below_normal() -> bool:
    """Lower the priority class on Windows; return whether it took effect."""
    if sys.platform == "win32":
        below_normal = 0x4000
        library = ctypes.windll.kernel32
        return bool(library.SetPriorityClass(library.GetCurrentProcess(), below_normal))
    return False

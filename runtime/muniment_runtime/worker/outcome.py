"""Why a child process ended, from what the parent can see: exit status, own requests, last words on stderr."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Cause", "ProcessOutcome", "classify", "clean_stderr"]


class Cause(StrEnum):
    """The ways a child ends; texts live in the catalogue under ``errors.E-WORKER-DIED.cause.<value>``."""

    STOPPED = "stopped"
    OUT_OF_MEMORY = "out_of_memory"
    ILLEGAL_INSTRUCTION = "illegal_instruction"
    CRASH = "crash"
    HANG = "hang"
    PROTOCOL = "protocol"
    START = "start"
    EXIT = "exit"


@dataclass(frozen=True)
class ProcessOutcome:
    """How a child ended.

    Attributes:
        cause: The classification.
        exit_code: Exit status, or ``None`` when a signal ended it.
        signal_name: Such as ``SIGKILL``, or ``None``.
        requested: This program asked for the end.
        untrusted_stderr: Last words of the child, control characters removed; for the log of a developer, never
            for the audit log.
    """

    cause: Cause
    exit_code: int | None
    signal_name: str | None
    requested: bool
    untrusted_stderr: str


_MEMORY_WORDS = re.compile(
    r"MemoryError|bad_alloc|out of memory|cannot allocate memory|failed to allocate|unable to allocate"
    r"|E-WORKER-MEMORY|E-MODEL-MEMORY",
    re.IGNORECASE,
)
_ILLEGAL_INSTRUCTION_WINDOWS = 0xC000001D
_NO_MEMORY_WINDOWS = frozenset({0xC0000017, 0xC000012D})
_FIRST_CRASH_STATUS_WINDOWS = 0xC0000000
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\u00a1-\u1fff\u2070-\ud7ff\uf900-\ufffd]")


def clean_stderr(data: bytes) -> str:
    """Return printable text: no control, direction or private characters, which could forge log lines."""
    return _CONTROL.sub("", data.decode("utf-8", "replace"))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def classify(returncode: int, stderr: bytes, *, requested: bool, reason: Cause | None = None) -> ProcessOutcome:
    """Return the outcome of a child that has ended.

    Args:
        returncode: As ``subprocess`` reports it: negative for a POSIX signal.
        stderr: The last bytes of its error stream.
        requested: This program asked for the end (so that its own kill is not taken for the kernel's).
        reason: What made this program end it, such as a hang; wins over what the status says.
    """
    words = clean_stderr(stderr)
    # Signal numbers are small; on Windows a negative code is an unsigned status that was read as signed.
    by_signal = -64 <= returncode < 0
    name = _signal_name(-returncode) if by_signal else None
    status = returncode & 0xFFFFFFFF
    if reason is not None:
        cause = reason
    elif requested:
        cause = Cause.STOPPED
    elif name == "SIGKILL" or status in _NO_MEMORY_WINDOWS:
        # Nobody else kills a worker: without our request it is nearly always the kernel, short of memory.
        cause = Cause.OUT_OF_MEMORY
    elif name == "SIGILL" or status == _ILLEGAL_INSTRUCTION_WINDOWS:
        cause = Cause.ILLEGAL_INSTRUCTION
    elif returncode != 0 and _MEMORY_WORDS.search(words):
        cause = Cause.OUT_OF_MEMORY
    elif by_signal or status >= _FIRST_CRASH_STATUS_WINDOWS:
        cause = Cause.CRASH
    else:
        cause = Cause.EXIT
    return ProcessOutcome(cause, None if by_signal else returncode, name, requested, words)

"""Starts child processes: command line, environment and pipes."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from muniment_resources.errors import KnownError
from muniment_runtime.worker.protocol import Role

__all__ = ["PARENT_PID_VARIABLE", "Process", "ProcessSpawner", "Spawner", "child_environment", "role_command"]

Process = subprocess.Popen[bytes]

PARENT_PID_VARIABLE = "MUNIMENT_PARENT_PID"

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "MUNIMENT_HOME")
_INHERITED_WINDOWS = ("SystemRoot", "SystemDrive", "TEMP", "TMP", "USERPROFILE", "NUMBER_OF_PROCESSORS")
_FIXED = {
    "PYTHONUTF8": "1",
    # llama.cpp's abort handler would otherwise attach a debugger to the process.
    "GGML_NO_BACKTRACE": "1",
    # Idle workers must sleep, not spin: the window shares the processor.
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    # Read by these libraries when they are imported, so they must be set before Python starts.
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Spawner(Protocol):
    """Starts the process of a role with three pipes."""

    def spawn(self, role: Role) -> Process:
        """Return the started process.

        Raises:
            KnownError: ``E-WORKER-START``.
        """
        ...


def child_environment(parent: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child, built from empty: nothing from the user's shell steers a worker.

    Args:
        parent: Where the few inherited values come from.
        extra: Added last, such as the number of threads of a role.
    """
    names = _INHERITED + (_INHERITED_WINDOWS if sys.platform == "win32" else ())
    environment = {name: parent[name] for name in names if name in parent}
    environment.update(_FIXED)
    environment[PARENT_PID_VARIABLE] = str(os.getpid())
    environment.update(extra or {})
    return environment


def role_command(role: Role, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line that starts this program in another role, from source or frozen."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--role", role, *arguments]
    # -I: neither the working folder nor PYTHON* variables may put code in front of ours. -B: workers never write.
    return [sys.executable, "-I", "-B", "-m", "muniment_app", "--role", role, *arguments]


class ProcessSpawner:
    """Starts real processes.

    All of them are started from one thread that never ends, because Linux ties "die with the parent" to the
    starting thread: a child that a short-lived thread had started would be killed when that thread ends.

    Args:
        commands: Full command lines per role, for roles that are not this program's own (tests).
        arguments: Further arguments per role.
        environment: Where inherited values come from; the process environment by default.
        extra_environment: Further variables for every child.
    """

    def __init__(
        self,
        commands: Mapping[Role, Sequence[str]] | None = None,
        arguments: Mapping[Role, Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        extra_environment: Mapping[str, str] | None = None,
    ) -> None:
        self._commands = dict(commands or {})
        self._arguments = dict(arguments or {})
        self._environment = environment if environment is not None else os.environ
        self._extra = dict(extra_environment or {})
        self._orders: queue.SimpleQueue[tuple[Role, tuple[str, ...], Future[Process]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = False

    def spawn(self, role: Role, arguments: Sequence[str] = ()) -> Process:
        """Start the process of a role; see ``Spawner``.

        Args:
            role: What the process is.
            arguments: Added to the command line of this one process, such as the only file that it may write.
        """
        with self._lock:
            if not self._started:
                threading.Thread(target=self._work, name="spawner", daemon=True).start()
                self._started = True
        order: Future[Process] = Future()
        self._orders.put((role, tuple(arguments), order))
        try:
            return order.result()
        except OSError:
            raise KnownError("E-WORKER-START", role=role) from None

    def _work(self) -> None:
        while True:
            role, arguments, order = self._orders.get()
            try:
                order.set_result(self._start(role, arguments))
            except Exception as error:  # handed to the thread that asked
                order.set_exception(error)

    def _start(self, role: Role, arguments: tuple[str, ...]) -> Process:
        command = list(self._commands.get(role) or role_command(role, self._arguments.get(role, ())))
        command += arguments
        windows = sys.platform == "win32"
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "CREATE_NO_WINDOW", 0)
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(self._environment, self._extra),
            close_fds=True,
            # Its own group: Ctrl-C in a terminal reaches the parent only, which then stops its children in order.
            start_new_session=not windows,
            creationflags=flags if windows else 0,
        )

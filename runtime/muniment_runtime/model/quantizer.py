"""The quantizer in a child process, as its parent sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from muniment_resources.errors import KnownError
from muniment_runtime.model.files import Cancelled
from muniment_runtime.worker.child import Child, Timing
from muniment_runtime.worker.outcome import Cause
from muniment_runtime.worker.protocol import Json, Role
from muniment_runtime.worker.spawn import Process

__all__ = ["ROLE", "OpenQuantizer", "ProcessStarter", "Quantizer", "WorkerQuantizer"]

ROLE = "quantize"

_SILENCE_S = 60.0
"""Longest silence of a child at work: its heart beats during native calls, but not while the machine swaps it out."""

_CAUSES = {"E-WORKER-START": Cause.START, "E-WORKER-MEMORY": Cause.OUT_OF_MEMORY}
_REPORTED = frozenset({"disk_full", "library", "out_of_memory", "write"})
"""Causes that the child itself may tell (``engine/quantize.py``)."""


class Quantizer(Protocol):
    """Quantizes one file again into the one file that it was opened for."""

    def plan(self, source: Path, file_type: int, cancelled: Cancelled) -> Mapping[str, str]:
        """Return the type that each tensor would get, by name; writes nothing.

        Raises:
            KnownError: ``E-QUANTIZE-FAILED`` (``cause``), ``E-CANCELLED``.
        """
        ...

    def run(
        self,
        source: Path,
        file_type: int,
        threads: int,
        buffer_bytes: int,
        on_tensor: Callable[[str], None],
        cancelled: Cancelled,
    ) -> None:
        """Write the file; ``on_tensor`` gets the name of each tensor when it begins.

        Raises:
            KnownError: ``E-QUANTIZE-FAILED`` (``cause``), ``E-CANCELLED``.
        """
        ...

    def close(self) -> None:
        """End whatever still runs; afterwards nothing writes to the file any more. Idempotent."""
        ...


OpenQuantizer = Callable[[Path, int], Quantizer]
"""Opens a quantizer for (the file that it may write, which exists, and the most bytes that this may reach)."""


class ProcessStarter(Protocol):
    """Starts a process with arguments of its own; ``ProcessSpawner`` does."""

    def spawn(self, role: Role, arguments: Sequence[str] = ()) -> Process:
        """Return the started process."""
        ...


class _WithArguments:
    """A spawner for one process that needs to be told something at its start."""

    def __init__(self, starter: ProcessStarter, arguments: Sequence[str]) -> None:
        self._starter = starter
        self._arguments = tuple(arguments)

    def spawn(self, role: Role) -> Process:
        return self._starter.spawn(role, self._arguments)


class WorkerQuantizer:
    """Implements ``Quantizer`` in a child process that lives for one model.

    The library cannot be interrupted, so cancelling means stopping the child.

    Args:
        starter: Starts the process.
        target: The only file that it may write; must exist.
        limit_bytes: The most that the file may reach.
        timing: Budgets of the child.

    Raises:
        KnownError: ``E-QUANTIZE-FAILED`` when it cannot be started.
    """

    def __init__(self, starter: ProcessStarter, target: Path, limit_bytes: int, timing: Timing | None = None) -> None:
        arguments = (str(target.absolute()), str(limit_bytes))
        try:
            self._child = Child(_WithArguments(starter, arguments), ROLE, timing)
        except KnownError as error:
            raise _failed(error) from error

    def plan(self, source: Path, file_type: int, cancelled: Cancelled) -> Mapping[str, str]:
        """See ``Quantizer``."""
        reply = self._request("plan", {"source": str(source.absolute()), "file_type": file_type}, None, cancelled)
        types = reply.get("types")
        if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
            raise KnownError("E-QUANTIZE-FAILED", cause=Cause.PROTOCOL.value)
        return {str(name): str(kind) for name, kind in types.items()}

    def run(
        self,
        source: Path,
        file_type: int,
        threads: int,
        buffer_bytes: int,
        on_tensor: Callable[[str], None],
        cancelled: Cancelled,
    ) -> None:
        """See ``Quantizer``."""
        args: Json = {
            "source": str(source.absolute()),
            "file_type": file_type,
            "threads": threads,
            "buffer_bytes": buffer_bytes,
        }
        self._request("run", args, on_tensor, cancelled)

    def close(self) -> None:
        """See ``Quantizer``."""
        self._child.stop()

    def _request(self, op: str, args: Json, on_tensor: Callable[[str], None] | None, cancelled: Cancelled) -> Json:
        asked = False

        def stop_when_asked() -> bool:
            nonlocal asked
            if not asked and cancelled():
                asked = True
                self._child.stop()
            return asked

        def on_event(event: Json, _raw: bytes | None) -> None:
            name = event.get("name")
            if on_tensor is not None and event.get("event") == "tensor" and isinstance(name, str):
                on_tensor(name)

        try:
            reply, _ = self._child.request(
                op, args, on_event=on_event, cancelled=stop_when_asked, native_budget_s=_SILENCE_S
            )
        except KnownError as error:
            if asked:
                raise KnownError("E-CANCELLED") from error
            raise _failed(error) from error
        return reply


def _failed(error: KnownError) -> KnownError:
    """Return the error of a child as one about its work. A child is not trusted: only expected words pass."""
    if error.code == "E-WORKER-BUG":
        return error
    cause: object = _CAUSES.get(error.code, Cause.PROTOCOL)
    if error.code == "E-WORKER-DIED":
        cause = error.params.get("cause")
    elif error.code == "E-QUANTIZE-FAILED" and error.params.get("cause") in _REPORTED:
        cause = error.params["cause"]
    return KnownError("E-QUANTIZE-FAILED", cause=str(cause))

"""Words that parent and child processes exchange over the child's pipes.

A request is the JSON frame ``{"id": n, "op": name, ...arguments}``, optionally followed by one raw frame when it
holds ``"raw": true``; the handler finds those bytes as ``args["raw"]``. Replies carry the same id and a ``kind``:
``event`` (zero or more), then exactly one of ``result`` or ``error`` (``code``, ``params``). ``{"op": "cancel",
"target": n}`` asks request ``n`` to end early. Without an id come ``hello`` (once, when the child is ready:
``version``, ``capabilities``) and ``heartbeat`` (once a second).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

__all__ = ["CANCELLED", "PROTOCOL_VERSION", "Emit", "Handler", "Json", "Reply", "Role"]

PROTOCOL_VERSION = 1

CANCELLED = "E-CANCELLED"
"""Code of a request that ended early because its caller asked for it."""

Json: TypeAlias = dict[str, object]
Reply: TypeAlias = tuple[Json, bytes | None]
Emit: TypeAlias = Callable[[Json, bytes | None], None]
Role: TypeAlias = str


class Handler(Protocol):
    """Serves the requests of one child process. Called from one thread, one request at a time.

    The same shape is implemented by retrieval's document handler, which may not import this module.
    """

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        """Serve one request.

        Returns:
            The result object and an optional raw payload (pixels, vectors).

        Raises:
            KnownError: Reported to the parent with its code and parameters.
        """
        ...

    def close(self) -> None:
        """Free everything; called once, when the parent is gone or asks for the end."""
        ...

"""Serves a backend to the parent process: the handler of the inference child."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from muniment_resources.errors import BugError
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.codec import (
    config_from_json,
    loaded_to_json,
    member,
    request_from_json,
    result_to_json,
    segments_from_json,
    strings,
)
from muniment_runtime.worker.protocol import Emit, Json, Reply

__all__ = ["InferenceHandler"]


class InferenceHandler:
    """Adapts a backend to the ``Handler`` protocol.

    Operations: ``info``, ``devices``, ``load``, ``count_tokens``, ``tokenize``, ``generate`` (events ``text`` and
    ``progress``), ``unload``.

    Args:
        backend: Owned by this handler.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        """Serve one request; see ``Handler``."""
        match op:
            case "info":
                reply: Json = {"backend": self._backend.name}
            case "devices":
                reply = {"devices": [list(device) for device in self._backend.devices()]}
            case "load":
                config = config_from_json(member(args, "config", dict))
                reply = loaded_to_json(self._backend.load(Path(member(args, "path", str)), config))
            case "count_tokens":
                reply = {"counts": self._backend.count_tokens(strings(args, "texts"))}
            case "tokenize":
                reply = {"tokens": self._backend.tokenize(segments_from_json(args))}
            case "generate":
                reply = self._generate(args, emit, cancelled)
            case "unload":
                self._backend.unload()
                reply = {}
            case _:
                raise BugError("unknown operation")
        return reply, None

    def close(self) -> None:
        """Free the model."""
        self._backend.unload()

    def _generate(self, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Json:
        result = self._backend.generate(
            request_from_json(args),
            lambda text: emit({"event": "text", "text": text}, None),
            cancelled,
            lambda done, total: emit({"event": "progress", "done": done, "total": total}, None),
        )
        return result_to_json(result)

"""Serves dry runs to the parent process: the handler of the probe child."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from muniment_resources.errors import BugError
from muniment_runtime.backends.codec import config_from_json, member, sizes_to_json
from muniment_runtime.contracts import OracleSizes, RunConfig
from muniment_runtime.worker.protocol import Emit, Reply, Role

__all__ = ["PROBE_ROLE", "DryModel", "OpenDry", "ProbeHandler"]

PROBE_ROLE: Role = "probe"

_CHECK_CONTEXT = 512


class DryModel(Protocol):
    """A model file that the library has loaded without its weights."""

    def sizes(self, config: RunConfig) -> OracleSizes:
        """Return what one configuration would take; see ``engine.oracle.DryRun``."""
        ...

    def close(self) -> None:
        """Free it. Idempotent."""
        ...


OpenDry = Callable[[Path, str], DryModel]
"""Loads a file, named for errors."""


class ProbeHandler:
    """Adapts dry runs to the ``Handler`` protocol.

    Operations, all with ``path``, ``sha256`` (of the model) and ``model`` (its name): ``open`` loads the file unless it
    is open already; ``sizes`` answers for one ``config``; ``verify`` loads the file anew and plans one small context.
    The file that was opened last stays open. What the library refuses comes back as an error of the request; what it
    cannot bear ends this process.

    Args:
        open_dry: Loads a file.
    """

    def __init__(self, open_dry: OpenDry) -> None:
        self._open_dry = open_dry
        self._open: tuple[Path, str] | None = None
        self._model: DryModel | None = None

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:  # noqa: ARG002 - the protocol's shape
        """Serve one request; see ``Handler``."""
        match op:
            case "open":
                self._opened(args)
                return {}, None
            case "sizes":
                config = config_from_json(member(args, "config", dict))
                return sizes_to_json(self._opened(args).sizes(config)), None
            case "verify":
                self.close()
                self._opened(args).sizes(RunConfig(member(args, "model", str), _CHECK_CONTEXT))
                self.close()
                return {}, None
            case _:
                raise BugError("unknown operation")

    def close(self) -> None:
        """Free the model."""
        model, self._model, self._open = self._model, None, None
        if model is not None:
            model.close()

    def _opened(self, args: Mapping[str, object]) -> DryModel:
        path = Path(member(args, "path", str))
        # A path alone would not tell that its file was replaced.
        wanted = (path, member(args, "sha256", str))
        if self._model is None or self._open != wanted:
            self.close()
            self._model = self._open_dry(path, member(args, "model", str))
            self._open = wanted
        return self._model

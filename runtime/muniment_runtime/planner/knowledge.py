"""What is known besides the files' headers when a plan is made: dry runs, verdicts, corrections, what runs now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from muniment_runtime.contracts import KvType, Need, RunConfig

__all__ = ["NOTHING_KNOWN", "Knowledge"]


@dataclass(frozen=True)
class Knowledge:
    """Everything that was learned on this device.

    Attributes:
        dry_runs: Needs as the library's own dry run computed them, without the learned correction.
        unloadable: Model id to the code of the cause, for files that the library cannot load.
        unrunnable: Configurations that the library refused to create.
        residual_bytes: Learned correction by architecture.
        running: What is loaded now; staying with it costs nothing.
        measured_kv: Cache types that a measurement on this device has allowed. Plain ``f16`` always is.
        probing: Dry runs are possible: a model without closed form then waits for one instead of being refused.
    """

    dry_runs: Mapping[RunConfig, Need] = field(default_factory=lambda: MappingProxyType({}))
    unloadable: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unrunnable: frozenset[RunConfig] = frozenset()
    residual_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    running: RunConfig | None = None
    measured_kv: frozenset[KvType] = frozenset()
    probing: bool = False


NOTHING_KNOWN = Knowledge()

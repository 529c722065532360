"""What this device has taught so far: dry runs, verdicts on files, and how far loads were off. Content-free.

One JSON file, shared by all workspaces and running instances. It is a cache of facts that can be had again: a file
that cannot be read is set aside by starting anew, and a write that fails only costs a repetition.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from muniment_runtime.contracts import KvType, ModelSpec, Need, NeedBasis, RunConfig
from muniment_runtime.headroom.filelock import exclusive
from muniment_runtime.model.files import write_atomic
from muniment_runtime.planner.residual import Residual, ResidualKey, added, residual_of

__all__ = ["Measurements", "config_key"]

log = logging.getLogger(__name__)

_FORMAT = 1
_MAX_DRY_RUNS = 4096
_NEED_FIELDS = 7
_MODEL_PARTS = 2
_WAIT_S = 0.5
_SEPARATOR = "|"
_SEPARATORS_IN_RESIDUAL = 2


_Lines: TypeAlias = tuple[int, int, int, int, int, int, int]
"""The lines of a need, in the order of its fields."""


@dataclass
class _Facts:
    """Contents of the file. A dry run of ``None`` is a configuration that the library refused."""

    dry_runs: dict[str, _Lines | None] = field(default_factory=dict)
    unloadable: dict[str, str] = field(default_factory=dict)
    residuals: dict[str, tuple[int, ...]] = field(default_factory=dict)


def config_key(config: RunConfig) -> str:
    """Return what of a configuration decides its memory; the number of threads does not."""
    return _SEPARATOR.join(
        str(value)
        for value in (
            config.context,
            config.kv_type.value,
            config.sequences,
            config.batch,
            config.ubatch,
            int(config.flash_attention),
            int(config.mmap),
            config.device_layers,
            int(config.unified),
            int(config.repack),
        )
    )


class Measurements:
    """Facts by file hash and library version. Thread-safe.

    Args:
        path: The file.
        library: Name and version of the engine: another version may compute otherwise.
    """

    def __init__(self, path: Path, library: str) -> None:
        self._path = path
        self._library = library
        self._lock = threading.Lock()
        self._facts = self._read()

    def dry_runs(self, spec: ModelSpec, threads: int) -> dict[RunConfig, Need | None]:
        """Return the needs that dry runs gave for this file; ``None`` for what the library refused to create."""
        with self._lock:
            rows = dict(self._facts.dry_runs)
        start = self._model(spec) + _SEPARATOR
        return {
            _config(key.removeprefix(start), spec.model_id, threads): None
            if lines is None
            else Need(*lines)._replace(basis=NeedBasis.ORACLE)
            for key, lines in rows.items()
            if key.startswith(start)
        }

    def unloadable(self, spec: ModelSpec) -> str | None:
        """Return the code of why the library cannot load this file, if it cannot."""
        return self._facts.unloadable.get(self._model(spec))

    def residuals(self) -> Mapping[ResidualKey, Residual]:
        """Return what loads have taught, by architecture, backend and system."""
        with self._lock:
            rows = dict(self._facts.residuals)
        return {_residual_key(name): residual_of(samples) for name, samples in rows.items()}

    def learn_dry_runs(self, spec: ModelSpec, needs: Iterable[tuple[RunConfig, Need | None]]) -> None:
        """Keep dry runs; ``None`` means that the library refused the configuration."""
        found = {self._config(spec, config): None if need is None else _lines(need) for config, need in needs}

        def change(facts: _Facts) -> None:
            facts.dry_runs.update(found)
            for key in list(facts.dry_runs)[:-_MAX_DRY_RUNS]:
                del facts.dry_runs[key]

        self._change(change)

    def learn_unloadable(self, spec: ModelSpec, code: str) -> None:
        """Keep the verdict that the library cannot load this file."""
        self._change(lambda facts: facts.unloadable.update({self._model(spec): code}))

    def learn_residual(self, key: ResidualKey, residual_bytes: int) -> None:
        """Keep how far one load was off."""
        name = _SEPARATOR.join((key.architecture, key.backend, key.system))

        def change(facts: _Facts) -> None:
            facts.residuals[name] = added(facts.residuals.get(name, ()), residual_bytes)

        self._change(change)

    def _model(self, spec: ModelSpec) -> str:
        return _SEPARATOR.join((self._library, spec.sha256))

    def _config(self, spec: ModelSpec, config: RunConfig) -> str:
        return _SEPARATOR.join((self._library, spec.sha256, config_key(config)))

    def _change(self, change: Callable[[_Facts], None]) -> None:
        """Apply a change to what lies on disk now, so that another instance's facts are kept."""
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # Whoever does not let go in time is overtaken: a fact lost costs a repetition, a plan must not wait.
                with exclusive(self._path.with_suffix(".lock"), _WAIT_S):
                    self._facts = self._read()
                    change(self._facts)
                    write_atomic(self._path, _written(self._facts))
            except OSError as error:
                log.warning("measurements.unwritten cause=%s", type(error).__name__)
                change(self._facts)

    def _read(self) -> _Facts:
        try:
            raw = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return _Facts()
        except (OSError, ValueError, RecursionError) as error:
            log.warning("measurements.unreadable cause=%s", type(error).__name__)
            return _Facts()
        if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
            return _Facts()
        return _Facts(
            dry_runs={
                key: None if value is None else _numbers(value)
                for key, value in _table(raw, "dry_runs").items()
                if _well_formed(key) and (value is None or (_whole_numbers(value) and len(value) == _NEED_FIELDS))
            },
            unloadable={key: value for key, value in _table(raw, "unloadable").items() if isinstance(value, str)},
            residuals={
                key: tuple(value)
                for key, value in _table(raw, "residuals").items()
                if _whole_numbers(value) and key.count(_SEPARATOR) == _SEPARATORS_IN_RESIDUAL
            },
        )


def _written(facts: _Facts) -> bytes:
    data = {
        "format": _FORMAT,
        "dry_runs": facts.dry_runs,
        "unloadable": facts.unloadable,
        "residuals": facts.residuals,
    }
    return json.dumps(data, separators=(",", ":")).encode()


def _table(raw: Mapping[str, object], name: str) -> dict[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _whole_numbers(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def _config(key: str, model_id: str, threads: int) -> RunConfig:
    """Undo ``config_key``."""
    context, kv_type, *numbers = key.split(_SEPARATOR)
    sequences, batch, ubatch, flash, mmap, device_layers, unified, repack = map(int, numbers)
    return RunConfig(
        model_id, int(context), KvType(kv_type), sequences, batch, ubatch,
        flash == 1, mmap == 1, device_layers, threads, unified == 1, repack == 1,
    )  # fmt: skip


def _well_formed(key: str) -> bool:
    try:
        _config(_SEPARATOR.join(key.split(_SEPARATOR)[_MODEL_PARTS:]), "", 1)
    except ValueError:
        return False
    return True


def _lines(need: Need) -> _Lines:
    return (
        need.weights_bytes,
        need.kv_bytes,
        need.recurrent_bytes,
        need.compute_bytes,
        need.output_bytes,
        need.base_bytes,
        need.residual_bytes,
    )


def _numbers(value: list[int]) -> _Lines:
    weights, kv, recurrent, compute, output, base, residual = value
    return weights, kv, recurrent, compute, output, base, residual


def _residual_key(name: str) -> ResidualKey:
    architecture, backend, system = name.split(_SEPARATOR)
    return ResidualKey(architecture, backend, system)

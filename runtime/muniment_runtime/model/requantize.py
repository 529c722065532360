"""Makes a smaller quantization of an installed model: check, plan, write, prove, install.

Everything that can be refused is refused before the work. The file is written by a child process into a part file; it
becomes a model only after our own reader has found in it exactly what was planned.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from muniment_resources.errors import KnownError
from muniment_runtime.model.files import SPACE_MARGIN_BYTES, Cancelled, Progress, sha256_file, stop_if
from muniment_runtime.model.ggml_types import TENSOR_TYPES, TensorType
from muniment_runtime.model.gguf import GgufHeader, MetadataValue, read_header
from muniment_runtime.model.quantization import (
    BUFFER_BYTES,
    estimated_bytes,
    file_type_number,
    is_smaller,
    memory_bytes,
    offered_type,
    requantized_id,
    requantized_label,
)
from muniment_runtime.model.quantizer import OpenQuantizer, Quantizer
from muniment_runtime.model.store import Base, BeforeVisible, InstalledModel, ModelStore

__all__ = ["SOURCE", "Requantizer"]

SOURCE = "requantized"

FREE_AFTER_BYTES = 64 * 2**20
"""What must stay free beside the new file."""

_PART = ".requantize.part"
_POLL_S = 0.1
_CLOCK_SLACK_S = 10.0
"""The start of a process is known to a second or so, and only relative to the start of the machine."""
_TYPES_BY_NAME: Mapping[str, TensorType] = {kind.name: kind for kind in TENSOR_TYPES.values()}
# The library sets the first two and removes the others, which only parts of split models have.
_CHANGED_KEYS = frozenset(
    {"general.file_type", "general.quantization_version", "split.no", "split.count", "split.tensors.count"}
)


class Requantizer:
    """Makes models from models, one at a time.

    Args:
        store: Where both lie.
        open_quantizer: Starts the process that does the work.
        free_memory: Tells the bytes that may be taken now.
        threads: That the work may use.
    """

    def __init__(
        self,
        store: ModelStore,
        open_quantizer: OpenQuantizer,
        free_memory: Callable[[], int],
        threads: int = 2,
    ) -> None:
        self._store = store
        self._open = open_quantizer
        self._free_memory = free_memory
        self._threads = threads
        self._lock = threading.Lock()

    def make(
        self,
        name: str,
        quantization: str,
        on_progress: Progress,
        cancelled: Cancelled,
        before_visible: BeforeVisible,
    ) -> InstalledModel:
        """Make the model, or return it at once when it is there already.

        Progress counts bytes of the source's tensors: those of finished ones, of all.

        Args:
            name: The base: an installed model that was not itself made this way.
            quantization: A file type, in any case of letters.
            on_progress: Called in this thread.
            cancelled: Asked often; the work then ends within a second, and nothing is left.
            before_visible: Called when the new file is proven; an exception discards it.

        Raises:
            KnownError: ``E-QUANTIZE-TYPE``, ``E-MODEL-UNKNOWN``, ``E-MODEL-CHANGED``, ``E-MODEL-MALFORMED``,
                ``E-QUANTIZE-DERIVED``, ``E-QUANTIZE-MEMORY``, ``E-QUANTIZE-LARGER``, ``E-DISK-SPACE``, ``E-CANCELLED``,
                ``E-QUANTIZE-FAILED`` (``name``, ``cause``).
        """
        file_type = offered_type(quantization)
        base = self._store.check(name)
        if base.base is not None:
            raise KnownError("E-QUANTIZE-DERIVED", name=name, base=base.base.model_id)
        while not self._lock.acquire(timeout=_POLL_S):
            stop_if(cancelled)
        try:
            model_id = self._id(base, file_type)
            return self._present(model_id) or self._make(
                base, file_type, model_id, on_progress, cancelled, before_visible
            )
        except KnownError as error:
            if error.code != "E-QUANTIZE-FAILED":
                raise
            raise KnownError(error.code, name=name, cause=error.params["cause"]) from error
        finally:
            self._lock.release()

    # --- names ------------------------------------------------------------------------------------------------

    def _id(self, base: InstalledModel, file_type: str) -> str:
        """Return the plain id, or one with part of the base's hash when a model of another base has that."""
        plain = requantized_id(base.model_id, file_type)
        holder = self._store.find(plain)
        if holder is None or holder.base == Base(base.model_id, base.sha256):
            return plain
        return requantized_id(base.model_id, file_type, base.sha256[:8])

    def _present(self, model_id: str) -> InstalledModel | None:
        try:
            return self._store.check(model_id)
        except KnownError:
            return None

    # --- the work ---------------------------------------------------------------------------------------------

    def _make(
        self,
        base: InstalledModel,
        file_type: str,
        model_id: str,
        on_progress: Progress,
        cancelled: Cancelled,
        before_visible: BeforeVisible,
    ) -> InstalledModel:
        source = self._store.path(base.model_id)
        header = read_header(source)
        self._require_memory(header)
        _remove_leftovers(self._store.folder)
        part = self._store.folder / f"{model_id}.{os.getpid()}{_PART}"
        try:
            # The child may write this one file, which must exist before its fence goes up.
            part.touch(mode=0o600)
            types = self._write(header, source, part, base, file_type, on_progress, cancelled)
            made = _proven(part, header, types)
            _require_smaller(base, file_type, made.file_bytes)
            with self._store.disk_full(made.file_bytes):
                _sync(part)
            sha256 = sha256_file(part, lambda *_: None, cancelled)
            label = requantized_label(made, file_type, base.quantization)
            # Another instance of the program may have made the same one meanwhile.
            return self._present(model_id) or self._store.commit(
                part,
                model_id,
                sha256,
                SOURCE,
                before_visible,
                base=Base(base.model_id, base.sha256),
                quantization=label,
            )
        finally:
            part.unlink(missing_ok=True)

    def _write(
        self,
        header: GgufHeader,
        source: Path,
        part: Path,
        base: InstalledModel,
        file_type: str,
        on_progress: Progress,
        cancelled: Cancelled,
    ) -> Mapping[str, TensorType]:
        """Let the child plan, check what it costs, and let it write; return the planned types."""
        number, result_bytes = file_type_number(file_type), 0
        quantizer = self._open(part, header.file_bytes)
        try:
            types = _planned(header, quantizer.plan(source, number, cancelled))
            result_bytes = estimated_bytes(header, types)
            _require_smaller(base, file_type, result_bytes)
            self._store.require_space(result_bytes + FREE_AFTER_BYTES - SPACE_MARGIN_BYTES)
            self._run(quantizer, header, source, number, on_progress, cancelled)
        except KnownError as error:
            if error.params.get("cause") == "disk_full":
                # Measured while the half file still lies there: that is what the user must make room for.
                self._store.require_space(result_bytes)
            raise
        finally:
            quantizer.close()
        return types

    def _run(
        self,
        quantizer: Quantizer,
        header: GgufHeader,
        source: Path,
        number: int,
        on_progress: Progress,
        cancelled: Cancelled,
    ) -> None:
        sizes = {tensor.name: tensor.size_bytes for tensor in header.tensors}
        total, done, running = sum(sizes.values()), 0, 0

        def begun(name: str) -> None:
            nonlocal done, running
            done += running
            # Each tensor counts once, whatever the child says.
            running = sizes.pop(name, 0)
            on_progress(done, total)

        on_progress(0, total)
        quantizer.run(source, number, self._threads, BUFFER_BYTES, begun, cancelled)
        on_progress(total, total)

    def _require_memory(self, header: GgufHeader) -> None:
        need, free = memory_bytes(header), self._free_memory()
        if need > free:
            raise KnownError("E-QUANTIZE-MEMORY", need_bytes=need, free_bytes=max(0, free))


def _planned(header: GgufHeader, types: Mapping[str, str]) -> dict[str, TensorType]:
    """Return the planned types, checked: every tensor of the source, no other, and only types that rows divide into."""
    planned: dict[str, TensorType] = {}
    for tensor in header.tensors:
        kind = _TYPES_BY_NAME.get(types.get(tensor.name, "").upper())
        if kind is None or tensor.shape[0] % kind.block_elements:
            raise KnownError("E-QUANTIZE-FAILED", cause="library")
        planned[tensor.name] = kind
    if len(types) != len(planned):
        raise KnownError("E-QUANTIZE-FAILED", cause="library")
    return planned


def _require_smaller(base: InstalledModel, file_type: str, result_bytes: int) -> None:
    if not is_smaller(result_bytes, base.size_bytes):
        raise KnownError(
            "E-QUANTIZE-LARGER",
            name=base.model_id,
            type=file_type,
            source_bytes=base.size_bytes,
            result_bytes=result_bytes,
        )


def _proven(part: Path, source: GgufHeader, types: Mapping[str, TensorType]) -> GgufHeader:
    """Return the header of the finished file after comparing it with the source and the plan.

    Same metadata, same tensors in any order, each of the planned type, and not a byte more or less than they take.

    Raises:
        KnownError: ``E-QUANTIZE-FAILED`` with the cause ``result``.
    """
    try:
        made = read_header(part)
    except KnownError as error:
        raise KnownError("E-QUANTIZE-FAILED", cause="result") from error
    shapes = {tensor.name: tensor.shape for tensor in source.tensors}
    if (
        {tensor.name: tensor.shape for tensor in made.tensors} != shapes
        or {tensor.name: tensor.type for tensor in made.tensors} != dict(types)
        or _kept(made.metadata) != _kept(source.metadata)
        or made.file_bytes != estimated_bytes(made, types)
    ):
        raise KnownError("E-QUANTIZE-FAILED", cause="result")
    return made


def _kept(metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    return {key: value for key, value in metadata.items() if key not in _CHANGED_KEYS}


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _remove_leftovers(folder: Path) -> None:
    """Delete half files whose program is gone; another instance may be at work on its own."""
    for part in folder.glob(f"*{_PART}"):
        owner = part.name.removesuffix(_PART).rpartition(".")[2]
        if not owner.isdecimal() or not _at_work(int(owner), part):
            part.unlink(missing_ok=True)


def _at_work(pid: int, part: Path) -> bool:
    """Whether the process that began the file still runs; its number may belong to a later process by now."""
    if pid == os.getpid():
        return False  # one at a time: what this process began has ended
    try:
        return psutil.Process(pid).create_time() <= part.stat().st_mtime + _CLOCK_SLACK_S
    except (psutil.Error, OSError):
        return False

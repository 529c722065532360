"""Quantizes a model file again with llama.cpp, inside the child process of that role.

The library tells what it does only in its log, and has no way to be stopped: whoever wants it to stop ends the
process. One text begins a tensor (``[  12/ 339] blk.0.attn_k.weight - [...], type = q5_0, ``), another ends it, in a
dry run with the type that it gets (``size = 0.53 MiB -> 0.43 MiB (q4_0)``, or ``size = 0.003 MiB`` when it stays as it
is): ``llama_model_quantize_impl`` in ``src/llama-quant.cpp``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.worker.protocol import CANCELLED, Emit, Reply

__all__ = ["NativeQuantizer", "QuantizeHandler", "open_quantizer", "tensor_begun", "tensor_type"]

_LEVEL_ERROR = 4
_KEPT_LINES = 16
_BEGIN = re.compile(r"\[ *\d+/ *\d+\] (?P<name>.+?) +- \[[\d, ]*\], type = +(?P<type>\S+), $")
_END = re.compile(r"size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((?P<type>\S+)\))?$")
_MEMORY_WORDS = ("failed to allocate", "unable to allocate", "out of memory", "bad_alloc", "cannot allocate")
_PROBE_BYTES = 1 << 20


def tensor_begun(line: str) -> tuple[str, str] | None:
    """Return name and type of the tensor that a text of the log begins with, or ``None`` for any other text."""
    found = _BEGIN.match(line)
    return None if found is None else (found["name"], found["type"])


def tensor_type(line: str, before: str) -> str | None:
    """Return the type that a tensor gets in a dry run, ``before`` when none is named; ``None`` for another text."""
    found = _END.match(line.rstrip("\n"))
    return None if found is None else found["type"] or before


class NativeQuantizer:
    """The library's quantizer. One call at a time; its log callback must live as long as the library.

    Args:
        api: The module ``llama_cpp.llama_cpp``. Typed ``Any``: it is generated from C, and its calls are checked by the
            tests that run the real library.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._listener: Callable[[str], None] = lambda _text: None
        self._failure: Exception | None = None
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._callback = api.llama_log_callback(self._take)
        api.llama_log_set(self._callback, None)
        api.llama_backend_init()

    def plan(self, source: Path, file_type: int) -> dict[str, str]:
        """Return the type that each tensor would get, by name. Writes nothing; a second at most.

        Args:
            source: The model file.
            file_type: Number of the file type, as in ``general.file_type``.

        Raises:
            KnownError: ``E-QUANTIZE-FAILED`` (``cause``).
        """
        types: dict[str, str] = {}
        begun: tuple[str, str] | None = None

        def listen(text: str) -> None:
            nonlocal begun
            if begun is not None and (found := tensor_type(text, begun[1])) is not None:
                types[begun[0]] = found
                begun = None
            else:
                begun = tensor_begun(text) or begun

        params = self._params(file_type)
        params.dry_run = True
        self._call(source, Path(os.devnull), params, listen)
        return types

    def run(
        self,
        source: Path,
        target: Path,
        file_type: int,
        threads: int,
        buffer_bytes: int,
        on_tensor: Callable[[str], None],
    ) -> None:
        """Write ``target``; takes seconds to many minutes.

        Args:
            source: The model file.
            target: Overwritten.
            file_type: Number of the file type.
            threads: That work on one tensor.
            buffer_bytes: Rows that are held in memory at a time.
            on_tensor: Called with the name of each tensor when it begins.

        Raises:
            KnownError: ``E-QUANTIZE-FAILED`` (``cause``; ``disk_full`` and ``write`` when the file cannot be written).
        """

        def listen(text: str) -> None:
            begun = tensor_begun(text)
            if begun is not None:
                on_tensor(begun[0])

        params = self._params(file_type)
        params.nthread = threads
        params.max_buf_size = buffer_bytes
        self._call(source, target, params, listen)

    def _params(self, file_type: int) -> Any:
        params = self._api.llama_model_quantize_default_params()
        params.ftype = file_type
        params.allow_requantize = True
        return params

    def _call(self, source: Path, target: Path, params: Any, listener: Callable[[str], None]) -> None:
        self._listener, self._failure = listener, None
        self._errors.clear()
        try:
            status = self._api.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(params))
        finally:
            self._listener = lambda _text: None
        if self._failure is not None:
            raise self._failure
        if status != 0:
            raise KnownError("E-QUANTIZE-FAILED", cause=self._cause(target, writes=not params.dry_run))

    def _take(self, level: int, text: bytes | None, _data: object) -> None:
        line = (text or b"").decode("utf-8", "replace")
        if level == _LEVEL_ERROR:
            self._errors.append(line.lower())
        try:
            self._listener(line)
        except Exception as error:  # re-raised by ``_call``: nothing may be raised into native code
            self._failure = self._failure or error

    def _cause(self, target: Path, *, writes: bool) -> str:
        words = " ".join(self._errors)
        if any(word in words for word in _MEMORY_WORDS):
            return "out_of_memory"
        return (_write_failure(target) if writes else None) or "library"


def _write_failure(target: Path) -> str | None:
    """Return why nothing more can be written to a file, ``None`` when it can: C++ streams do not tell."""
    try:
        # As text: the guard compares names.
        descriptor = os.open(str(target), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, bytes(_PROBE_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "write"
    return None


class QuantizeHandler:
    """Serves the quantizer to the parent process; see ``Handler``.

    Operations: ``plan`` (``source``, ``file_type``; result ``types``: tensor name to type) and ``run`` (further
    ``threads``, ``buffer_bytes``; an event ``tensor`` with the name when each begins).

    Args:
        quantizer: Does the work.
        target: The only file that is ever written.
    """

    def __init__(self, quantizer: NativeQuantizer, target: Path) -> None:
        self._quantizer = quantizer
        self._target = target

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        """Serve one request. Once the library is at work, only the end of the process stops it."""
        if cancelled():
            raise KnownError(CANCELLED)
        source, file_type = args.get("source"), args.get("file_type")
        if not isinstance(source, str) or not isinstance(file_type, int):
            raise BugError("request without source or file_type")
        if op == "plan":
            return {"types": self._quantizer.plan(Path(source), file_type)}, None
        threads, buffer_bytes = args.get("threads"), args.get("buffer_bytes")
        if op != "run" or not isinstance(threads, int) or not isinstance(buffer_bytes, int):
            raise BugError("unknown operation, or one without its numbers")
        self._quantizer.run(
            Path(source),
            self._target,
            file_type,
            threads,
            buffer_bytes,
            lambda name: emit({"event": "tensor", "name": name}, None),
        )
        return {}, None

    def close(self) -> None:
        """Nothing is held between requests."""


def open_quantizer() -> NativeQuantizer:
    """Import the binding and silence it.

    Raises:
        ImportError: The optional dependency is not installed.
    """
    import llama_cpp.llama_cpp as api

    return NativeQuantizer(api)

"""A quantizer that writes a prepared file: in this process, or as the script of a child that may misbehave.

As a script: ``RESULT BEHAVIOUR`` and then what the parent adds, ``TARGET LIMIT``.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.model.gguf import read_header
from muniment_runtime.worker.guard import QUANTIZE_POLICY, apply_guard
from muniment_runtime.worker.host import claim_pipes, serve
from muniment_runtime.worker.protocol import Emit, Reply
from tests.helpers import gguf_writer as gw

BASE_ID = "tiny-q8_0"


def tiny(type_name: str = "Q8_0", file_type: int = 7, *, embedding: int = 256, vocabulary: int = 96) -> bytes:
    """Return a small model; those of equal ``embedding`` and ``vocabulary`` hold the same tensors."""
    made = gw.model(
        "qwen2", embedding=embedding, type_name=type_name, file_type=file_type, vocabulary=vocabulary,
        template="<|im_start|>",
    )  # fmt: skip
    return made.data()


def types_of(path: Path) -> dict[str, str]:
    """Return the types of a file as the library writes them."""
    return {item.name: item.type.name.lower() for item in read_header(path).tensors}


class ScriptedQuantizer:
    """Implements ``Quantizer``; calling it opens it.

    Attributes:
        on_run: Called before the file is written.
        written: What is written, the prepared file by default.
        opened: Target and limit of each opening.
        closed: How often it was closed.
    """

    def __init__(self, result: Path) -> None:
        self.result = result
        self.types = types_of(result)
        self.written: bytes | None = None
        self.on_run: Callable[[], None] = lambda: None
        self.opened: list[tuple[Path, int]] = []
        self.numbers: list[int] = []
        self.closed = 0

    def __call__(self, target: Path, limit_bytes: int) -> ScriptedQuantizer:
        assert target.stat().st_size == 0
        self.opened.append((target, limit_bytes))
        return self

    def plan(self, source: Path, file_type: int, cancelled: Callable[[], bool]) -> Mapping[str, str]:
        assert source.is_file()
        self.numbers.append(file_type)
        return self.types

    def run(
        self,
        source: Path,
        file_type: int,
        threads: int,
        buffer_bytes: int,
        on_tensor: Callable[[str], None],
        cancelled: Callable[[], bool],
    ) -> None:
        for name in self.types:
            on_tensor(name)
            if cancelled():
                raise KnownError("E-CANCELLED")
        self.on_run()
        self.opened[-1][0].write_bytes(self.result.read_bytes() if self.written is None else self.written)

    def close(self) -> None:
        self.closed += 1


class _Handler:
    def __init__(self, result: Path, behaviour: str, target: Path) -> None:
        self._result = result
        self._behaviour = behaviour
        self._target = target

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        if op == "plan":
            if self._behaviour == "lies":
                return {"types": ["no", "mapping"]}, None
            return {"types": types_of(self._result)}, None
        if op == "attempts":
            return {"outcomes": _attempts(self._target)}, None
        content = self._result.read_bytes()
        for number, name in enumerate(types_of(self._result)):
            emit({"event": "tensor", "name": name}, None)
            if number == 1:
                self._misbehave(content)
        self._target.write_bytes(content)
        return {}, None

    def _misbehave(self, content: bytes) -> None:
        if self._behaviour == "good":
            return
        self._target.write_bytes(content[: len(content) // 2])
        if self._behaviour == "abort":
            os.abort()
        if self._behaviour == "memory":
            raise MemoryError
        if self._behaviour == "library":
            raise KnownError("E-QUANTIZE-FAILED", cause="library")
        if self._behaviour == "words":
            raise KnownError("E-QUANTIZE-FAILED", cause="words of a document")
        if self._behaviour == "code":
            raise KnownError("E-NO-SUCH-CODE")
        if self._behaviour == "deaf":
            # As in a native call: no thread of Python can end it, only the end of the process.
            time.sleep(120)

    def close(self) -> None:
        return None


def _attempts(target: Path) -> dict[str, str]:
    """Try natively, around Python's own hook, what the fence must allow or refuse; name to ``done`` or the reason."""
    libc = ctypes.CDLL(None, use_errno=True)
    beside = str(target.with_name("beside")).encode()
    own = str(target).encode()

    def told(result: int) -> str:
        return "done" if result >= 0 else os.strerror(ctypes.get_errno())

    outcomes = {
        "write": told(libc.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)),
        "beside": told(libc.open(beside, os.O_WRONLY | os.O_CREAT, 0o600)),
        "rename": told(libc.rename(own, beside)),
        "remove": told(libc.unlink(own)),
        "socket": told(libc.socket(2, 1, 0)),
        "source": told(libc.open(str(target.with_name("source.gguf")).encode(), os.O_WRONLY, 0)),
    }
    descriptor = os.open(str(target), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        written = 0
        while written < 1 << 20:
            written += os.write(descriptor, bytes(1000))
    except OSError as error:
        outcomes["limit"] = f"{error.strerror} after {written}"
    try:
        socket.socket()
    except OSError as error:
        outcomes["hook"] = type(error).__name__
    return outcomes


def main() -> None:
    result, behaviour, target, limit_bytes = sys.argv[1:]
    if behaviour == "early":
        sys.exit(7)
    stdin, stdout = claim_pipes()
    hello: dict[str, object] = {}
    if behaviour == "guarded":
        policy = replace(QUANTIZE_POLICY, writable_files=(target,), file_size_bytes=int(limit_bytes))
        hello["capabilities"] = apply_guard(policy).to_json()
    serve(_Handler(Path(result), behaviour, Path(target)), stdin, stdout, hello=hello, heartbeat_s=0.2)


if __name__ == "__main__":
    main()

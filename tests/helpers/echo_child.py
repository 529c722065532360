"""A child process for tests: answers, misbehaves and tries what a guarded child must not do.

Run as a script with the names of what to do: ``guard`` applies the guard first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.worker.guard import DOCUMENT_POLICY, apply_guard
from muniment_runtime.worker.host import claim_pipes, serve
from muniment_runtime.worker.protocol import Emit, Reply


def _attempt(name: str, path: str) -> str:
    """Try something and return ``done`` or why not. Native attempts go around Python's own hook."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        match name:
            case "socket":
                socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
            case "write":
                Path(path).write_text("x", "ascii")
            case "exec":
                subprocess.run(["/bin/true"], check=True)
            case "native_socket":
                return _native(libc.socket(2, 1, 0))
            case "native_unix_socket":
                return _native(libc.socket(1, 1, 0))
            case "native_write":
                return _native(libc.open(path.encode(), os.O_CREAT | os.O_WRONLY, 0o600))
            case "native_io_uring":
                return _native(libc.syscall(425, 1, ctypes.create_string_buffer(256)))
            case "read":
                Path(path).read_bytes()
            case _:
                return "unknown"
    except OSError as error:
        return type(error).__name__
    return "done"


def _native(result: int) -> str:
    return "done" if result >= 0 else os.strerror(ctypes.get_errno())


def _misbehave(op: str) -> None:
    match op:
        case "print":
            sys.stdout.write("noise\n")
            os.write(1, b"more noise\n")
        case "garbage":
            os.write(int(os.environ["ECHO_PIPE"]), b"garbage on the pipe")
        case "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "native_loop":
            # A native call that keeps the interpreter's lock, and with it every thread of this process.
            ctypes.PyDLL(None).sleep(60)
        case "abort":
            os.abort()


class EchoHandler:
    """Does what the request says."""

    def handle(self, op: str, args: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Reply:
        match op:
            case "echo":
                raw = args.get("raw")
                return {"args": {k: v for k, v in args.items() if k != "raw"}}, raw if isinstance(raw, bytes) else None
            case "count":
                for number in range(int(str(args["to"]))):
                    emit({"number": number}, None)
                return {}, None
            case "wait":
                emit({"begun": True}, None)
                while not cancelled():
                    time.sleep(0.01)
                return {"cancelled": True}, None
            case "deaf":
                emit({"begun": True}, None)
                time.sleep(60)
            case "known":
                raise KnownError("E-DOC-TEST", page=3)
            case "bug":
                raise ValueError("canary-document-text")
            case "attempt":
                return {"outcome": _attempt(str(args["name"]), str(args["path"]))}, None
            case _:
                emit({"begun": True}, None)
                _misbehave(op)
        return {}, None

    def close(self) -> None:
        sys.stderr.write("closed\n")
        sys.stderr.flush()


def main() -> None:
    if "mute" in sys.argv:
        time.sleep(60)
    if "early" in sys.argv:
        sys.exit(7)
    stdin, stdout = claim_pipes()
    os.environ["ECHO_PIPE"] = str(stdout.fileno())
    hello: dict[str, object] = {}
    if "guard" in sys.argv:
        hello["capabilities"] = apply_guard(DOCUMENT_POLICY).to_json()
    serve(EchoHandler(), stdin, stdout, hello=hello, heartbeat_s=0.2)


if __name__ == "__main__":
    main()

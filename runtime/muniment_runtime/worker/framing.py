"""Frames on the pipes between a parent and its child process.

A frame is one kind byte (``J`` JSON object, ``R`` raw bytes), the payload's length as four big-endian bytes, and the
payload. Lengths are checked against a cap before a byte of the payload is read, and whatever the other side sends,
the reader ends in a message, a clean end, or ``FramingError``. Never pickle: decoding must not be able to run code.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Mapping
from typing import IO

from muniment_resources.errors import BugError
from muniment_runtime.worker.protocol import Json, Reply

__all__ = ["JSON_LIMIT_BYTES", "RAW_LIMIT_BYTES", "FrameReader", "FrameWriter", "FramingError", "encode_message"]

JSON_LIMIT_BYTES = 8 * 1024 * 1024
"""Text of a whole page, a prompt of 100,000 characters or a token list fit many times over."""
RAW_LIMIT_BYTES = 256 * 1024 * 1024
"""A page picture of 8,000 x 8,000 pixels with four channels."""

_HEADER = struct.Struct(">cI")
_KIND_JSON = b"J"
_KIND_RAW = b"R"
_PIECE_BYTES = 1024 * 1024


class FramingError(Exception):
    """The byte stream does not follow the protocol. Carries a short reason without any payload."""


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _decode(payload: bytes) -> Json:
    try:
        value = json.loads(payload, parse_constant=_refuse_constant)
    # Nesting that exceeds the interpreter's recursion limit is not a ValueError.
    except (ValueError, RecursionError):
        raise FramingError("payload is not JSON") from None
    if not isinstance(value, dict):
        raise FramingError("payload is not an object")
    return value


def _frame(kind: bytes, payload: bytes, limit_bytes: int) -> bytes:
    if len(payload) > limit_bytes:
        raise FramingError(f"frame of {len(payload)} bytes exceeds {limit_bytes}")
    return _HEADER.pack(kind, len(payload)) + payload


def encode_message(message: Mapping[str, object], raw: bytes | None = None) -> bytes:
    """Return the frames of one message: the JSON object, marked ``"raw": true`` and followed by ``raw`` if given.

    ASCII escapes keep lone surrogates, which damaged documents do contain, from breaking the encoder.

    Raises:
        FramingError: A payload is larger than its cap.
        BugError: The message holds something that JSON cannot express.
    """
    whole = dict(message)
    whole.pop("raw", None)
    if raw is not None:
        whole["raw"] = True
    try:
        payload = json.dumps(whole, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise BugError(f"message cannot be encoded: {type(error).__name__}") from None
    frames = _frame(_KIND_JSON, payload, JSON_LIMIT_BYTES)
    return frames if raw is None else frames + _frame(_KIND_RAW, raw, RAW_LIMIT_BYTES)


class FrameReader:
    """Reads messages from a binary stream, one owner thread.

    Args:
        stream: Blocking stream; short reads are fine.
        json_limit_bytes: Largest JSON payload that is accepted.
        raw_limit_bytes: Largest raw payload that is accepted.
    """

    def __init__(
        self, stream: IO[bytes], json_limit_bytes: int = JSON_LIMIT_BYTES, raw_limit_bytes: int = RAW_LIMIT_BYTES
    ) -> None:
        self._stream = stream
        self._limits = {_KIND_JSON: json_limit_bytes, _KIND_RAW: raw_limit_bytes}

    def read(self) -> Reply | None:
        """Return the next message, or ``None`` when the stream ended between messages.

        Raises:
            FramingError: Unknown kind, too long, truncated, not JSON, or a raw frame that nobody announced.
        """
        payload = self._payload(_KIND_JSON, may_end=True)
        if payload is None:
            return None
        message = _decode(payload)
        if message.pop("raw", False) is not True:
            return message, None
        return message, self._payload(_KIND_RAW, may_end=False)

    def _payload(self, kind: bytes, *, may_end: bool) -> bytes | None:
        header = self._exactly(_HEADER.size)
        if not header and may_end:
            return None
        if len(header) < _HEADER.size:
            raise FramingError("stream ended inside a header")
        got, length = _HEADER.unpack(header)
        if got != kind:
            raise FramingError("unexpected kind of frame")
        if length > self._limits[kind]:
            raise FramingError(f"frame of {length} bytes exceeds {self._limits[kind]}")
        payload = self._exactly(length)
        if len(payload) < length:
            raise FramingError("stream ended inside a payload")
        return payload

    def _exactly(self, length: int) -> bytes:
        """Return ``length`` bytes, fewer only at the end of the stream.

        Grows piece by piece: a lying header must not make this process reserve what never arrives.
        """
        parts: list[bytes] = []
        missing = length
        while missing:
            try:
                part = self._stream.read(min(missing, _PIECE_BYTES))
            except (OSError, ValueError):
                part = b""
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


class FrameWriter:
    """Writes messages to a buffered binary stream from any thread, one whole message at a time."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, object], raw: bytes | None = None) -> None:
        """Write one message and flush it.

        Raises:
            OSError: The other side is gone.
            FramingError, BugError: As ``encode_message``; nothing was written.
        """
        frames = encode_message(message, raw)
        with self._lock:
            try:
                self._stream.write(frames)
                self._stream.flush()
            except ValueError:
                # A closed file object raises ValueError; for callers it is the same as a broken pipe.
                raise BrokenPipeError("stream is closed") from None

    def close(self, wait_s: float) -> bool:
        """Close the stream unless another thread is still stuck in a write after ``wait_s``; return success."""
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            self._stream.close()
        except OSError:
            # Closing flushes; a pipe without a reader refuses that, and the descriptor is closed all the same.
            return True
        finally:
            self._lock.release()
        return True

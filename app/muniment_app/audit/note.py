"""Signed notes and checkpoints (C2SP signed-note and tlog-checkpoint), with one Ed25519 signature each.

A note is a text, an empty line and one signature line: ``— <key name> <base64(key id || signature)>``. Reading is
strict: what this module would not have written byte for byte is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from muniment_resources.errors import BugError

__all__ = [
    "Checkpoint",
    "Ed25519Signer",
    "NoteError",
    "Signer",
    "key_id",
    "open_checkpoint",
    "open_note",
    "origin",
    "sign_checkpoint",
    "sign_note",
    "verifier_key",
]

_ED25519 = b"\x01"
_DASH = "\u2014"
_SIGNATURE_BYTES = 64


class NoteError(Exception):
    """A note is malformed, signed by another key, or its signature does not match."""


class Signer(Protocol):
    """Signs with a key that this Protocol never hands out."""

    @property
    def public_key(self) -> bytes:
        """The raw Ed25519 public key, 32 bytes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature."""
        ...


class Ed25519Signer:
    """A signer over a 32-byte seed."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def public_key(self) -> bytes:
        """The raw public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature (deterministic, RFC 8032)."""
        return self._key.sign(message)


@dataclass(frozen=True)
class Checkpoint:
    """A signed statement: the log called ``origin`` had ``size`` events and this Merkle root."""

    origin: str
    size: int
    root: bytes


def origin(log_id: str) -> str:
    """Return the origin line and key name of a log."""
    return f"local/muniment/{log_id}"


def key_id(name: str, public_key: bytes) -> bytes:
    r"""Return SHA-256(name || "\n" || 0x01 || key)[:4], as the signed-note specification says."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public_key).digest()[:4]


def verifier_key(name: str, public_key: bytes) -> str:
    """Return the key in its usual text form ``name+id+base64``: what people compare to know whose log it is."""
    return f"{name}+{key_id(name, public_key).hex()}+{_encode(_ED25519 + public_key)}"


def sign_note(text: str, name: str, signer: Signer) -> bytes:
    """Sign a text that ends in a newline and holds no empty line."""
    if not text.endswith("\n") or "\n\n" in text:
        raise BugError("note text must end in one newline and hold no empty line")
    message = text.encode()
    signature = key_id(name, signer.public_key) + signer.sign(message)
    return message + f"\n{_DASH} {name} {_encode(signature)}\n".encode()


def open_note(note: bytes, name: str, public_key: bytes) -> str:
    """Return the text of a note signed by exactly this key.

    Raises:
        NoteError: Anything else.
    """
    try:
        decoded = note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoteError("not UTF-8") from error
    if any(ord(char) < 32 and char != "\n" for char in decoded):
        raise NoteError("control character")
    text, separator, line = decoded.rpartition("\n\n")
    fields = line.split(" ")
    if not separator or not line.endswith("\n") or line.count("\n") != 1 or len(fields) != 3:
        raise NoteError("not a text, an empty line and one signature line")
    if fields[0] != _DASH or fields[1] != name:
        raise NoteError("signed under another name")
    blob = _decode(fields[2].removesuffix("\n"))
    if len(blob) != 4 + _SIGNATURE_BYTES or blob[:4] != key_id(name, public_key):
        raise NoteError("signed by another key")
    text += "\n"
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(blob[4:], text.encode())
    except (InvalidSignature, ValueError) as error:
        raise NoteError("signature does not match") from error
    return text


def sign_checkpoint(log_id: str, size: int, root: bytes, signer: Signer) -> bytes:
    """Return the signed checkpoint of a tree."""
    name = origin(log_id)
    return sign_note(f"{name}\n{size}\n{_encode(root)}\n", name, signer)


def open_checkpoint(note: bytes, log_id: str, public_key: bytes) -> Checkpoint:
    """Read and verify a checkpoint of this log.

    Raises:
        NoteError: The note does not open, or its text is not exactly origin, size and root.
    """
    name = origin(log_id)
    lines = open_note(note, name, public_key).split("\n")
    if len(lines) != 4 or lines[0] != name or lines[3] != "":
        raise NoteError("not a checkpoint of this log")
    size, root = lines[1], _decode(lines[2])
    if not size.isascii() or not size.isdigit() or str(int(size)) != size:
        raise NoteError("size is not a plain decimal number")
    if len(root) != 32:
        raise NoteError("root has a wrong length")
    return Checkpoint(name, int(size), root)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str) -> bytes:
    """Decode base64 that must be spelled canonically (spare bits zero, no white space)."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteError("not base64") from error
    if _encode(data) != text:
        raise NoteError("base64 is not canonical")
    return data

"""Salted commitments: a sensitive value stands in an event only as a hash that hides it.

The opening (salt and text) is kept apart and can be destroyed; the event, and so every proof, stays as it is.
Without the 32 random bytes of salt a guess of the text cannot be tested.
"""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["SALT_BYTES", "commit", "readable"]

SALT_BYTES = 32


def readable(untrusted_text: str) -> str:
    """Return the text with lone surrogates (from file names that are not UTF-8) replaced, so that it has bytes."""
    return untrusted_text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def commit(salt: bytes, field: str, text: bytes) -> str:
    """Return hex HMAC-SHA256(salt, field || 0x00 || text)."""
    return hmac.new(salt, field.encode("ascii") + b"\x00" + text, hashlib.sha256).hexdigest()

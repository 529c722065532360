"""Notes and checkpoints are read only in the one spelling in which they are written."""

from __future__ import annotations

import base64

import pytest

from muniment_app.audit.note import (
    Ed25519Signer,
    NoteError,
    key_id,
    open_checkpoint,
    open_note,
    origin,
    sign_checkpoint,
    sign_note,
    verifier_key,
)
from muniment_resources.errors import BugError

SIGNER = Ed25519Signer(b"1" * 32)
OTHER = Ed25519Signer(b"2" * 32)
LOG = "ab" * 16
NOTE = sign_checkpoint(LOG, 7, b"r" * 32, SIGNER)


def test_a_checkpoint_comes_back() -> None:
    found = open_checkpoint(NOTE, LOG, SIGNER.public_key)
    assert (found.origin, found.size, found.root) == (f"local/muniment/{LOG}", 7, b"r" * 32)


def test_every_bit_counts() -> None:
    passed = []
    for bit in range(len(NOTE) * 8):
        flipped = bytearray(NOTE)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            open_checkpoint(bytes(flipped), LOG, SIGNER.public_key)
        except NoteError:
            continue
        passed.append(bit)
    assert passed == []


def test_other_keys_names_and_logs_are_refused() -> None:
    for note, log, key in (
        (sign_checkpoint(LOG, 7, b"r" * 32, OTHER), LOG, SIGNER.public_key),
        (NOTE, LOG, OTHER.public_key),
        (NOTE, "cd" * 16, SIGNER.public_key),
        (sign_note(f"{origin('cd' * 16)}\n7\nAAAA\n", origin(LOG), SIGNER), LOG, SIGNER.public_key),
    ):
        with pytest.raises(NoteError):
            open_checkpoint(note, log, key)


def _resigned(text: str) -> bytes:
    name = origin(LOG)
    blob = key_id(name, SIGNER.public_key) + SIGNER.sign(text.encode())
    return f"{text}\n\u2014 {name} {base64.b64encode(blob).decode()}\n".encode()


_ROOT = base64.b64encode(b"r" * 32).decode()


@pytest.mark.parametrize(
    "body",
    [
        f"07\n{_ROOT}\n",
        f"+7\n{_ROOT}\n",
        f"-7\n{_ROOT}\n",
        f"\u0667\n{_ROOT}\n",
        f" 7\n{_ROOT}\n",
        f"7\n{_ROOT} \n",
        f"7\n{_ROOT[:-2]}J=\n",
        f"7\n{_ROOT}\nextension\n",
        f"7\n{_ROOT}\n\n",
        f"7\r\n{_ROOT}\n",
        "7\nAAAA\n",
        "7\n",
    ],
)
def test_signed_nonsense_is_refused(body: str) -> None:
    with pytest.raises(NoteError):
        open_checkpoint(_resigned(f"{origin(LOG)}\n{body}"), LOG, SIGNER.public_key)
    assert open_checkpoint(_resigned(f"{origin(LOG)}\n7\n{_ROOT}\n"), LOG, SIGNER.public_key).size == 7


@pytest.mark.parametrize("extra", [b"\n", b" ", b"\xe2\x80\x94 other AAAA\n", b"\x00", b"\xff"])
def test_nothing_may_follow_or_precede(extra: bytes) -> None:
    for note in (NOTE + extra, extra + NOTE, NOTE[:-1]):
        with pytest.raises(NoteError):
            open_checkpoint(note, LOG, SIGNER.public_key)


def test_text_that_would_be_ambiguous_is_not_signed() -> None:
    for text in ("no newline", "two\n\nparts\n", "end\n\n"):
        with pytest.raises(BugError):
            sign_note(text, "name", SIGNER)
    assert open_note(sign_note("a\nb\n", "name", SIGNER), "name", SIGNER.public_key) == "a\nb\n"


def test_verifier_key_is_the_usual_text_form() -> None:
    name, identity, encoded = verifier_key("name", SIGNER.public_key).split("+", 2)
    assert name == "name"
    assert identity == key_id("name", SIGNER.public_key).hex()
    assert base64.b64decode(encoded) == b"\x01" + SIGNER.public_key

"""The verifier's own Ed25519 against the test vectors of RFC 8032 and against the library that signs."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muniment_resources.verify.verify import ORDER, P, ed25519_verify

VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bb"
        "e24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302"
        "aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed"
        "28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_vectors_of_the_rfc(key: str, message: str, signature: str) -> None:
    public, text, signed = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert ed25519_verify(public, text, signed)
    assert not ed25519_verify(public, text + b"\x00", signed)


def test_signatures_of_the_library_pass_and_flipped_ones_do_not() -> None:
    source = random.Random(8032)
    for _ in range(100):
        private = Ed25519PrivateKey.from_private_bytes(source.randbytes(32))
        public, message = private.public_key().public_bytes_raw(), source.randbytes(source.randrange(200))
        signature = private.sign(message)
        assert ed25519_verify(public, message, signature)
        parts = [bytearray(public), bytearray(message + b"x"), bytearray(signature)]
        chosen = source.randrange(3)
        bit = source.randrange(len(parts[chosen]) * 8)
        parts[chosen][bit // 8] ^= 1 << bit % 8
        flipped = [bytes(part) for part in parts]
        if chosen != 1:
            flipped[1] = message
        assert not ed25519_verify(*flipped)


def test_other_spellings_of_the_same_numbers_are_refused() -> None:
    private = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
    public, signature = private.public_key().public_bytes_raw(), private.sign(b"m")
    s = int.from_bytes(signature[32:], "little")
    assert not ed25519_verify(public, b"m", signature[:32] + (s + ORDER).to_bytes(32, "little"))
    for key in (P, P + 1, 2**255 + 1, 2):
        # Above the field, minus zero, and a number that is no y of a point.
        assert not ed25519_verify(key.to_bytes(32, "little"), b"m", signature)
    for wrong in (b"", signature[:-1], signature + b"\x00", bytes(64)):
        assert not ed25519_verify(public, b"m", wrong)
    assert not ed25519_verify(public[:-1], b"m", signature)

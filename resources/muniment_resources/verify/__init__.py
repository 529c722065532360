"""What goes into every audit bundle so that a stranger can check it: the verifier and the description of the format."""

from __future__ import annotations

from importlib import resources

__all__ = ["bundle_texts"]

_FILES = ("SPEC.md", "verify.py")


def bundle_texts() -> dict[str, bytes]:
    """Return the files by the name that they have inside a bundle, the same bytes on every system."""
    folder = resources.files("muniment_resources") / "verify"
    return {name: (folder / name).read_bytes().replace(b"\r\n", b"\n") for name in _FILES}

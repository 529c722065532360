"""Removes characters from untrusted text that steer a display or a reader instead of being text. Pure."""

from __future__ import annotations

import re

from muniment_retrieval.pdf.layout import SOFT_HYPHEN

__all__ = ["clean_line", "clean_name"]

# Controls, bidi marks and overrides, invisible joiners and fillers, interlinear marks, surrogates, non-characters,
# tag characters and the long variation selectors (both are used to smuggle text past a person's eye).
_STEERING = re.compile(
    "[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)


def clean_line(untrusted_text: str) -> str:
    """Return one line of document text without steering characters; tabs become spaces, soft hyphens stay."""
    return _STEERING.sub("", untrusted_text.replace("\t", " "))


def clean_name(untrusted_name: str, limit: int) -> str:
    """Return a name, title or label on one line, without steering characters, cut to ``limit`` characters."""
    return " ".join(_STEERING.sub(" ", untrusted_name.replace(SOFT_HYPHEN, "")).split())[:limit]

"""The two error families of the program.

``KnownError`` is the world: a missing file, a full disk, a question that is too long. It is expected, carries a
stable code and parameters, and its sentence comes from the text catalogue in the user's language.
``BugError`` is us. It lives in the lowest layer because runtime and retrieval both raise it and must not know
each other, and because codes and sentences are one resource: a code without a sentence is a failing test.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BugError", "KnownError"]


class KnownError(Exception):
    """An expected condition of the world.

    Args:
        code: Stable code such as ``E-DOC-PASSWORD``; key ``errors.<code>`` in the text catalogue.
        params: Values for the placeholders of the sentence. Plain numbers and strings only: they cross pipes.
    """

    def __init__(self, code: str, **params: str | int | float) -> None:
        super().__init__(code)
        self.code = code
        self.params: Mapping[str, str | int | float] = params

    def __str__(self) -> str:
        """Code and parameter names only: parameter values may hold file names, which logs must not carry."""
        return f"{self.code}({', '.join(sorted(self.params))})"


class BugError(Exception):
    """A condition that the program itself should have made impossible."""

"""User-visible text: one catalogue for the command line, the window and errors, in every language."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from muniment_resources.errors import BugError, KnownError

__all__ = ["LANGUAGES", "Translator", "catalogue", "detect_language"]

LANGUAGES = ("en", "zh_CN")


def catalogue(language: str) -> dict[str, str]:
    """Return all texts of one language as ``area.key -> text``.

    Each file ``i18n/<language>/<area>.toml`` holds one flat table; the area is the file's name.

    Raises:
        BugError: The language is not one of ``LANGUAGES``.
    """
    if language not in LANGUAGES:
        raise BugError(f"unknown language {language!r}")
    texts: dict[str, str] = {}
    folder = resources.files("muniment_resources") / "i18n" / language
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            area = entry.name.removesuffix(".toml")
            for key, text in tomllib.loads(entry.read_text("utf-8")).items():
                texts[f"{area}.{key}"] = str(text)
    return texts


class Translator:
    """Looks up texts of one language and fills their ``{placeholders}``.

    A text that depends on a count has a second entry ``key.one`` for exactly one; the count is ``n``.
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._texts: Mapping[str, str] = catalogue(language)

    def text(self, key: str, /, **params: object) -> str:
        """Return the text for ``key``.

        Raises:
            BugError: No such key, or a placeholder has no value.
        """
        if params.get("n") == 1 and f"{key}.one" in self._texts:
            key = f"{key}.one"
        try:
            template = self._texts[key]
        except KeyError:
            raise BugError(f"no text {key!r} in {self.language}") from None
        if not params:
            return template
        try:
            return string.Formatter().vformat(template, (), params)
        except (KeyError, IndexError, ValueError) as error:
            raise BugError(f"text {key!r} in {self.language}: {error}") from error

    def error(self, error: KnownError) -> str:
        """Return the sentence for a known error (what happened, why, what to do).

        A parameter that is a code itself, such as the reason of a failed fetch, is put into words by the entry
        ``<code>.<parameter>.<value>`` where there is one.
        """
        params = {
            name: self._texts.get(f"errors.{error.code}.{name}.{value}", value) for name, value in error.params.items()
        }
        return self.text(f"errors.{error.code}", **params)


def detect_language(candidates: Iterable[str | None]) -> str:
    """Return the first supported language named by locale strings such as ``zh_CN.UTF-8``; else English."""
    for candidate in candidates:
        if not candidate:
            continue
        if candidate.lower().startswith("zh"):
            return "zh_CN"
        if candidate.lower().startswith(("en", "c")):
            return "en"
    return "en"

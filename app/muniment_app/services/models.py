"""The model service: store, catalogue and fetcher behind one interface, with every change in the audit log."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path

from muniment_app.services.api import Cancelled, ModelInfo, Record
from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, CatalogueEntry
from muniment_runtime.model.fetch import ModelFetcher
from muniment_runtime.model.requantize import Requantizer
from muniment_runtime.model.store import BeforeVisible, InstalledModel, ModelStore

__all__ = ["StoreModelService"]

Progress = Callable[[int, int], None]

# Refusals that say something about a file, as opposed to a cancelled or interrupted step.
_REFUSALS = frozenset({"E-MODEL-MALFORMED", "E-MODEL-HASH", "E-MODEL-SPLIT"})


class StoreModelService:
    """Implements ``ModelService``.

    Events are written when a step is fully checked and before its effect is visible, so that nothing is installed
    or removed without a record. Fields carry no paths; the name of a user's file is a sensitive value.

    Args:
        store: Installed models.
        catalogue: Known models.
        fetcher: Adds catalogue models.
        requantizer: Makes smaller quantizations of installed models.
        audit: Writes one event durably.
    """

    def __init__(
        self,
        store: ModelStore,
        catalogue: Catalogue,
        fetcher: ModelFetcher,
        requantizer: Requantizer,
        audit: Record,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._fetcher = fetcher
        self._requantizer = requantizer
        self._audit = audit

    def list(self) -> builtins.list[ModelInfo]:
        """Return the catalogue in its order, then imported and requantized files by name."""
        installed = {model.model_id: model for model in self._store.installed()}
        infos = [self._catalogue_info(entry, installed.pop(entry.model_id, None)) for entry in self._catalogue]
        return infos + [self._own_info(model) for model in installed.values()]

    def add(self, name: str, on_progress: Progress, cancelled: Cancelled) -> ModelInfo:
        """Fetch a catalogue model, or return at once when it is installed.

        Raises:
            KnownError: As ``ModelFetcher.add``; ``E-AUDIT-WRITE``.
        """
        try:
            model = self._fetcher.add(name, on_progress, cancelled, self._writer("model.installed"))
        except KnownError as error:
            self._refused(error, {"model": name}, {})
            raise
        return self._info(model)

    def import_file(self, path: Path, on_progress: Progress, cancelled: Cancelled) -> ModelInfo:
        """Bring in a local GGUF file.

        Raises:
            KnownError: As ``ModelStore.import_file``; ``E-AUDIT-WRITE``.
        """
        try:
            model = self._store.import_file(path, on_progress, cancelled, self._writer("model.imported"))
        except KnownError as error:
            self._refused(error, {}, {"file": path.name})
            raise
        return self._info(model)

    def requantize(self, name: str, quantization: str, on_progress: Progress, cancelled: Cancelled) -> ModelInfo:
        """Make a smaller quantization of an installed model, or return at once when it is there.

        Raises:
            KnownError: As ``Requantizer.make``; ``E-AUDIT-WRITE``.
        """
        asked: dict[str, object] = {"file_type": quantization.strip().upper()}

        def write(model: InstalledModel) -> None:
            assert model.base is not None
            base = {"base": model.base.model_id, "base_sha256": model.base.sha256}
            self._audit("model.requantized", _fields(model) | base | asked, {})

        try:
            model = self._requantizer.make(name, quantization, on_progress, cancelled, write)
        except KnownError as error:
            if error.code == "E-QUANTIZE-FAILED":
                failed = {"model": name, "code": error.code, "cause": str(error.params["cause"])}
                self._audit("model.requantize_failed", failed | asked, {})
            raise
        return self._info(model)

    def verify(self, name: str | None, on_progress: Progress) -> dict[str, bool]:
        """Hash one installed model, or all; progress counts the bytes of all of them.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-AUDIT-WRITE``.
        """
        models = [self._store.get(name)] if name is not None else self._store.installed()
        total, before, results = sum(model.size_bytes for model in models), 0, {}
        for model in models:
            intact = self._store.verify(model.model_id, _shifted(on_progress, before, total))
            self._audit("model.verified", _fields(model) | {"intact": intact}, {})
            results[model.model_id] = intact
            before += model.size_bytes
        return results

    def remove(self, name: str) -> None:
        """Delete an installed model.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-MODEL-BUSY``, ``E-AUDIT-WRITE``.
        """
        self._store.remove(name, self._writer("model.removed"))

    def _writer(self, event: str) -> BeforeVisible:
        def write(model: InstalledModel) -> None:
            self._audit(event, _fields(model), {})

        return write

    def _refused(self, error: KnownError, fields: dict[str, object], secrets: dict[str, str]) -> None:
        if error.code in _REFUSALS:
            what = {"what": error.params["what"]} if "what" in error.params else {}
            self._audit("model.refused", fields | {"code": error.code} | what, secrets)

    def _info(self, model: InstalledModel) -> ModelInfo:
        entry = self._catalogue.find(model.model_id)
        return self._catalogue_info(entry, model) if entry is not None else self._own_info(model)

    def _catalogue_info(self, entry: CatalogueEntry, model: InstalledModel | None) -> ModelInfo:
        return ModelInfo(
            model_id=entry.model_id,
            family=entry.family,
            quantization=entry.quantization,
            size_bytes=entry.size_bytes,
            languages=entry.languages,
            licence=entry.licence,
            installed=model is not None,
            starter=entry.starter,
            path=str(self._store.path(entry.model_id)) if model is not None else None,
        )

    def _own_info(self, model: InstalledModel) -> ModelInfo:
        """Describe an imported file, or one made here: that one is under the licence of its base."""
        entry = self._store.entry(model)
        return ModelInfo(
            model_id=model.model_id,
            family=entry.family if entry else model.architecture,
            quantization=model.quantization,
            size_bytes=model.size_bytes,
            languages=entry.languages if entry else (),
            licence=entry.licence if entry else "",
            installed=True,
            starter=False,
            path=str(self._store.path(model.model_id)),
            base=model.base.model_id if model.base else None,
        )


def _shifted(on_progress: Progress, before: int, total: int) -> Progress:
    """Report one file's progress as part of several files' progress."""
    return lambda done, _: on_progress(min(before + done, total), total)


def _fields(model: InstalledModel) -> dict[str, object]:
    return {
        "model": model.model_id,
        "sha256": model.sha256,
        "bytes": model.size_bytes,
        "quantization": model.quantization,
        "source": model.source,
    }

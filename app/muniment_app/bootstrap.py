"""The composition root: the one place that names concrete classes and wires them.

Imported only when services are needed: it pulls in cryptography, SQLite and the process supervisor, which must delay
neither the window's first picture nor ``--help``.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import psutil

from muniment_app import __version__
from muniment_app.audit.events import EventType, FieldValue
from muniment_app.audit.head import HeadFile
from muniment_app.audit.log import AuditLog, SystemClock
from muniment_app.audit.note import Ed25519Signer
from muniment_app.services.admission import LedgerAdmission
from muniment_app.services.api import Receipt, Record, Services
from muniment_app.services.ask import Asking
from muniment_app.services.audit import LogAuditService
from muniment_app.services.learning import LoadLearner
from muniment_app.services.library import DocumentService
from muniment_app.services.loading import Loader
from muniment_app.services.measurements import Measurements
from muniment_app.services.model_host import ModelHost
from muniment_app.services.models import StoreModelService
from muniment_app.services.plan import LocalPlanService
from muniment_app.services.reader import CagedReader
from muniment_app.services.trials import Trials
from muniment_app.workspace.keys import FileKeyStore
from muniment_app.workspace.paths import Home, model_cache_folders, shared_folder
from muniment_app.workspace.workspace import Workspace, open_workspace
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from muniment_retrieval.search import Searcher
from muniment_retrieval.store.library import Library
from muniment_retrieval.store.stemming import Stemmer
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.prober import Prober
from muniment_runtime.backends.probing import PROBE_ROLE
from muniment_runtime.backends.worker import WorkerBackend
from muniment_runtime.contracts import HeadroomProbe, ModelSpec
from muniment_runtime.headroom.device import DeviceProbe
from muniment_runtime.headroom.holder import holder_alive, own_holder
from muniment_runtime.headroom.probe import default_probe
from muniment_runtime.headroom.reservation import ReservationLedger, ReservedProbe
from muniment_runtime.model.catalogue import load_catalogue
from muniment_runtime.model.fetch import ModelFetcher
from muniment_runtime.model.quantizer import WorkerQuantizer
from muniment_runtime.model.requantize import Requantizer
from muniment_runtime.model.store import ModelStore
from muniment_runtime.planner.plan import default_margin
from muniment_runtime.worker.spawn import ProcessSpawner
from muniment_runtime.worker.supervisor import Supervisor

__all__ = ["build_services"]

log = logging.getLogger(__name__)

INFERENCE_ROLE = "inference"


def physical_cores() -> int:
    """Return the number of physical cores: more threads than these slow llama.cpp down."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def installed_specs(store: ModelStore) -> list[ModelSpec]:
    """Describe the installed models; one that changed on disk or is damaged is left out, and logged."""
    specs: list[ModelSpec] = []
    for model in store.installed():
        try:
            specs.append(store.spec(model.model_id))
        except (KnownError, OSError) as error:
            log.warning("model.left_out cause=%s", error if isinstance(error, KnownError) else type(error).__name__)
    return specs


def memory_to_take(probe: HeadroomProbe) -> int:
    """Return the bytes that work beside the model may take now: headroom less the reserve."""
    headroom = probe.measure()
    return headroom.available_bytes - default_margin(headroom)


def engine_version() -> str:
    """Return name and version of the engine, by which dry runs are kept."""
    try:
        return f"llama-cpp-python {metadata.version('llama-cpp-python')}"
    except metadata.PackageNotFoundError:
        return "none"


def dry_runner(spawner: ProcessSpawner, role: str | None) -> Prober | None:
    """Return what runs configurations dry, ``None`` where there is no engine to ask."""
    if role is None or (role == PROBE_ROLE and find_spec("llama_cpp") is None):
        return None
    return Prober(spawner, role)


def open_audit(workspace: Workspace) -> AuditLog:
    """Open the audit log of a workspace."""
    return AuditLog.open(
        workspace.database_path("audit"),
        workspace.keys.database_key,
        Ed25519Signer(workspace.keys.signing_seed),
        SystemClock(),
        head=HeadFile(workspace.head_path),
        workspace_id=workspace.workspace_id,
        app_version=__version__,
    )


def recorder(audit: AuditLog) -> Record:
    """Return the function by which services record events: durable when it returns."""

    def record(type_: str, fields: dict[str, object], secrets: dict[str, str]) -> Receipt:
        receipt = audit.append(EventType(type_), cast("Mapping[str, FieldValue]", fields), secrets)
        return Receipt(receipt.seq, receipt.leaf)

    return record


def build_services(
    home: Home,
    workspace_name: str,
    spawner: ProcessSpawner | None = None,
    inference_role: str = INFERENCE_ROLE,
    translator: Translator | None = None,
    probe: HeadroomProbe | None = None,
    probe_role: str | None = PROBE_ROLE,
    shared: Path | None = None,
) -> Services:
    """Open a workspace and wire everything that works on it.

    Args:
        home: The data folder.
        workspace_name: Which workspace.
        spawner: Starts child processes; tests give one with other commands.
        inference_role: Role of the inference child; tests give a scripted one.
        probe: Measures headroom; the machine's own by default.
        translator: Language of what is written for people, such as the report of an audit bundle.
        probe_role: Role of the child that runs configurations dry; ``None`` plans by formula alone.
        shared: Folder that all instances of this user share; the system's place for such things by default.

    Raises:
        KnownError: ``E-HOME``, ``E-WORKSPACE-*``, ``E-STORE-*``, ``E-AUDIT-*``.
    """
    with ExitStack() as undo:
        workspace = open_workspace(home, workspace_name, FileKeyStore(home.keys))
        audit = open_audit(workspace)
        undo.callback(audit.close)
        record = recorder(audit)
        record("app.started", {"version": __version__}, {})
        record("workspace.created" if workspace.created else "workspace.opened", {}, {})
        spawner = spawner or ProcessSpawner()

        documents = Library(workspace.database_path("library"), workspace.keys.database_key)
        undo.callback(documents.close)
        stemmer = Stemmer()
        undo.callback(stemmer.close)
        library = DocumentService(
            documents,
            Searcher(documents, stemmer),
            functools.partial(CagedReader, spawner),
            record,
            lambda: shutil.disk_usage(workspace.folder).free,
            time.monotonic,
        )
        undo.callback(library.close)

        catalogue = load_catalogue()
        store = ModelStore(home.models, catalogue)
        fetcher = ModelFetcher(store, catalogue, cache_folders=model_cache_folders(os.environ))
        probe = probe or default_probe()
        requantizer = Requantizer(
            store,
            functools.partial(WorkerQuantizer, spawner),
            functools.partial(memory_to_take, probe),
            physical_cores(),
        )
        models = StoreModelService(store, catalogue, fetcher, requantizer, record)
        specs: Callable[[], Sequence[ModelSpec]] = functools.partial(installed_specs, store)

        inference = Supervisor(spawner, inference_role)

        def start_backend() -> Backend:
            return WorkerBackend(inference.child())

        threads = physical_cores()
        ledger = ReservationLedger(shared or shared_folder(), holder_alive, own_holder())
        measurements = Measurements(home.measurements, engine_version())
        trials = Trials(measurements, dry_runner(spawner, probe_role), threads)
        undo.callback(trials.close)
        host = ModelHost(
            start_backend,
            inference.close,
            record,
            time.monotonic,
            LedgerAdmission(ledger, probe),
            LoadLearner(measurements),
        )
        planned = ReservedProbe(DeviceProbe(probe, host.devices), ledger)
        plan = LocalPlanService(specs, planned, host.running, host.config, trials, threads=threads)
        ask = Asking(library, Loader(plan, specs, host, record), host, record, time.monotonic)
        closing = undo.pop_all()

    def close() -> None:
        # Reverse order of start; the log closes last, so that every end is still recorded.
        with closing:
            host.close()
            record("app.stopped", {}, {})

    return Services(
        index=library,
        library=library,
        pages=library,
        ask=ask,
        plan=plan,
        models=models,
        audit=LogAuditService(audit, translator),
        close=close,
    )

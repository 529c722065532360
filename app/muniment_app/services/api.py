"""What the window and the command line may ask of the program: requests, results and service Protocols.

All calls block; the window runs them on its executors. Callbacks come on the calling thread. Every method may
raise ``KnownError``; anything else is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from muniment_retrieval.model import Citation, DocumentInfo, Evidence, Passage, RenderedPage, Sentence
from muniment_runtime.contracts import Headroom, LoadedModel, Pins, Plan, Profile
from muniment_runtime.planner.demand import Demand
from muniment_runtime.planner.residual import Residual, ResidualKey

__all__ = [
    "Answer",
    "AnswerStatus",
    "AskEvent",
    "AskPhase",
    "AskRequest",
    "AskService",
    "AuditEvent",
    "AuditReport",
    "AuditService",
    "IndexProgress",
    "IndexService",
    "LibraryService",
    "ModelInfo",
    "ModelService",
    "PageService",
    "PlanService",
    "PlanSummary",
    "Receipt",
    "Record",
    "Services",
    "Timings",
    "Usage",
]

Cancelled = Callable[[], bool]
PasswordPrompt = Callable[[str, bool], str | None]
"""Called with (file name, whether an earlier try was wrong); ``None`` means: leave this file out."""


@dataclass(frozen=True)
class IndexProgress:
    """Sent while indexing: at least once a page batch. ``finished`` carries the document's final record."""

    file: str
    file_number: int
    files: int
    page: int
    pages: int
    seconds_left: float | None
    finished: DocumentInfo | None = None


Record = Callable[[str, dict[str, object], dict[str, str]], "Receipt"]
"""Writes one event durably: (type, clear fields, sensitive values).

It is on disk when this returns; ``E-AUDIT-WRITE`` means that it is not, and that its effect must not happen.
"""


class IndexService(Protocol):
    """Brings documents in."""

    def index(
        self,
        paths: Sequence[Path],
        on_progress: Callable[[IndexProgress], None],
        password: PasswordPrompt,
        cancelled: Cancelled,
    ) -> list[DocumentInfo]:
        """Index files and folders; one record per file found, rejected ones included.

        Raises:
            KnownError: ``E-INDEX-MISSING``, ``E-INDEX-NO-PDF``, ``E-DISK-SPACE``.
        """
        ...


class LibraryService(Protocol):
    """What is in the workspace, and passages without a model."""

    def documents(self) -> list[DocumentInfo]:
        """Return all documents, in order of arrival."""
        ...

    def find(self, reference: str) -> DocumentInfo:
        """Return the one document with this id, id prefix or file name.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``, ``E-DOC-AMBIGUOUS``.
        """
        ...

    def remove(self, document_id: str) -> None:
        """Remove a document and everything derived from it (not the file itself)."""
        ...

    def page_text(self, document_id: str, page: int) -> str:
        """Return the stored text of a page.

        Raises:
            KnownError: ``E-DOC-PAGE`` when there is no such page.
        """
        ...

    def page_size(self, document_id: str, page: int) -> tuple[float, float]:
        """Return width and height of a page as it is shown, in points; zeros when the page could not be read.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``, ``E-DOC-PAGE``.
        """
        ...

    def search(self, query: str, k: int = 8, documents: Sequence[str] = ()) -> list[Passage]:
        """Return the best passages, best first; ``documents`` limits to these ids."""
        ...


class PageService(Protocol):
    """Pictures of pages, made by a caged worker."""

    def render(self, document_id: str, page: int, scale: float) -> RenderedPage:
        """Render a page at ``scale`` pixels per point.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``, ``E-DOC-PAGE``, ``E-DOC-MOVED``, ``E-DOC-PASSWORD``.
        """
        ...

    def capabilities(self) -> dict[str, bool]:
        """Return which layers of the cage round document parsers are really active here (name to active)."""
        ...


class AnswerStatus(StrEnum):
    """How a question ended."""

    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    ERROR = "error"


class AskPhase(StrEnum):
    """What is happening to the question."""

    SEARCHING = "searching"
    PLANNING = "planning"
    LOADING = "loading"
    READING = "reading"
    WRITING = "writing"
    CHECKING = "checking"


@dataclass(frozen=True)
class AskEvent:
    """Progress of a question.

    Attributes:
        phase: What is being done.
        fraction: 0..1 while reading, else ``None``.
        untrusted_text: New text while writing; shown as plain text, replaced by the checked answer at the end.
        passages: Number of passages found, once known.
    """

    phase: AskPhase
    fraction: float | None = None
    untrusted_text: str = ""
    passages: int | None = None


@dataclass(frozen=True)
class AskRequest:
    """A question. ``documents`` are ids, empty means all."""

    question: str
    profile: Profile = Profile.REALTIME
    max_tokens: int = 160
    documents: tuple[str, ...] = ()
    pins: Pins = field(default_factory=Pins)


@dataclass(frozen=True)
class PlanSummary:
    """The plan an answer ran under."""

    model: str
    quantization: str
    context: int
    kv_type: str
    sequences: int
    rung: int
    reason: str
    need_bytes: int
    headroom_bytes: int


@dataclass(frozen=True)
class Timings:
    """Real times of one question in seconds; ``prefill_s`` is the pure prompt evaluation inside ``ttft_s``."""

    retrieve_s: float
    load_s: float
    prefill_s: float
    ttft_s: float
    tpot_s: float
    total_s: float


@dataclass(frozen=True)
class Usage:
    """Tokens really sent and received."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Receipt:
    """Where an event stands in the audit log: sequence number and leaf hash (hex)."""

    seq: int
    leaf: str


@dataclass(frozen=True)
class Answer:
    """The checked result of a question.

    Attributes:
        reason: For ``not_found``, ``refused`` and ``error``: code of the sentence in the catalogue.
        nearest: For ``not_found``: the nearest passages.
        plan, timings, usage: ``None`` when no model was called.
        documents_pending: Documents that were not yet fully searchable.
    """

    status: AnswerStatus
    answer: str
    sentences: tuple[Sentence, ...]
    citations: tuple[Citation, ...]
    evidence: tuple[Evidence, ...]
    left_out: int
    plan: PlanSummary | None
    timings: Timings
    usage: Usage
    audit: Receipt
    reason: str | None = None
    reason_params: Mapping[str, str | int | float] = field(default_factory=dict)
    nearest: tuple[Passage, ...] = ()


class AskService(Protocol):
    """Answers questions with evidence."""

    def ask(self, request: AskRequest, on_event: Callable[[AskEvent], None], cancelled: Cancelled) -> Answer:
        """Answer one question.

        Raises:
            KnownError: ``E-ASK-EMPTY``, ``E-ASK-LONG``, ``E-MODEL-NONE``, ``E-AUDIT-WRITE``, ``E-ASK-CANCELLED``.
        """
        ...


class PlanService(Protocol):
    """What would run now, and why. Loads nothing."""

    def headroom(self) -> Headroom:
        """Measure headroom now."""
        ...

    def plan(
        self,
        profile: Profile = Profile.REALTIME,
        pins: Pins | None = None,
        headroom_bytes: int | None = None,
        demand: Demand | None = None,
    ) -> Plan:
        """Plan for the installed models; ``headroom_bytes`` asks "what if", ``demand`` is what a question needs.

        Raises:
            KnownError: ``E-MODEL-NONE``.
        """
        ...

    def running(self) -> LoadedModel | None:
        """Return what is loaded now, read back from the worker."""
        ...

    def learned(self) -> Mapping[ResidualKey, Residual]:
        """Return how far loads on this device were off, by architecture, backend and system."""
        ...


@dataclass(frozen=True)
class ModelInfo:
    """One line of the model list: a catalogue entry, an installed file, or both.

    Attributes:
        base: Id of the model that this one was made from by quantizing again on this device, else ``None``.
    """

    model_id: str
    family: str
    quantization: str
    size_bytes: int
    languages: tuple[str, ...]
    licence: str
    installed: bool
    starter: bool
    path: str | None
    base: str | None = None


class ModelService(Protocol):
    """Installed models and the catalogue."""

    def list(self) -> list[ModelInfo]:
        """Return catalogue entries and imported files."""
        ...

    def add(self, name: str, on_progress: Callable[[int, int], None], cancelled: Cancelled) -> ModelInfo:
        """Fetch a catalogue model; (bytes done, bytes in all) as progress; resumes.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-MODEL-HASH``, ``E-MODEL-FETCH``, ``E-DISK-SPACE``, ``E-CANCELLED``.
        """
        ...

    def import_file(self, path: Path, on_progress: Callable[[int, int], None], cancelled: Cancelled) -> ModelInfo:
        """Bring in a local GGUF file after a strict check of its header.

        Raises:
            KnownError: ``E-MODEL-FILE``, ``E-MODEL-MALFORMED``, ``E-MODEL-HASH``, ``E-DISK-SPACE``.
        """
        ...

    def requantize(
        self, name: str, quantization: str, on_progress: Callable[[int, int], None], cancelled: Cancelled
    ) -> ModelInfo:
        """Make a smaller quantization of an installed model on this device, labelled as made from quantized weights.

        Returns at once when it has been made already. Progress counts bytes of the base's weights.

        Raises:
            KnownError: ``E-MODEL-UNKNOWN``, ``E-MODEL-CHANGED``, ``E-QUANTIZE-TYPE``, ``E-QUANTIZE-DERIVED``,
                ``E-QUANTIZE-LARGER``, ``E-QUANTIZE-MEMORY``, ``E-DISK-SPACE``, ``E-CANCELLED``, ``E-QUANTIZE-FAILED``.
        """
        ...

    def verify(self, name: str | None, on_progress: Callable[[int, int], None]) -> dict[str, bool]:
        """Hash installed files again; model id to whether it is intact."""
        ...

    def remove(self, name: str) -> None:
        """Delete an installed model."""
        ...


@dataclass(frozen=True)
class AuditEvent:
    """One event as shown: ``fields`` without sensitive values; ``opened`` holds those whose opening is kept."""

    seq: int
    ts: str
    type: str
    leaf: str
    fields: Mapping[str, object]
    opened: Mapping[str, str]


@dataclass(frozen=True)
class AuditReport:
    """Result of a verification. ``first_bad`` is the first event that does not verify, ``None`` when all do."""

    ok: bool
    events: int
    checkpoints: int
    first_bad: int | None
    redacted: int
    problem: str | None = None


class AuditService(Protocol):
    """The record of every decision."""

    def count(self) -> int:
        """Return the number of events."""
        ...

    def events(self, offset: int = 0, limit: int = 100, newest_first: bool = True) -> list[AuditEvent]:
        """Return a window of events."""
        ...

    def verify(self) -> AuditReport:
        """Check every event, the tree and every checkpoint."""
        ...

    def export(self, target: Path, openings: str = "none") -> Path:
        """Write a bundle that a stranger can verify; ``openings`` is ``all`` or ``none``. Returns its path.

        Raises:
            KnownError: ``E-AUDIT-EXPORT``, ``E-DISK-SPACE``.
        """
        ...


@dataclass(frozen=True)
class Services:
    """Everything the window and the command line work with, wired by ``bootstrap``."""

    index: IndexService
    library: LibraryService
    pages: PageService
    ask: AskService
    plan: PlanService
    models: ModelService
    audit: AuditService
    close: Callable[[], None]

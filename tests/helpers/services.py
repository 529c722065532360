"""A small deterministic implementation of the service Protocols in memory, with an invented library.

Pages are painted, events are played in order, and a test can hold any call at a gate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter

from muniment_app.services.api import (
    Answer,
    AnswerStatus,
    AskEvent,
    AskPhase,
    AskRequest,
    AuditEvent,
    AuditReport,
    IndexProgress,
    ModelInfo,
    PlanSummary,
    Receipt,
    Services,
    Timings,
    Usage,
)  # fmt: skip
from muniment_resources.errors import KnownError
from muniment_resources.units import format_bytes
from muniment_retrieval.model import (
    Box,
    Citation,
    DocumentInfo,
    DocumentStatus,
    Evidence,
    Passage,
    RenderedPage,
    Sentence,
    Support,
)  # fmt: skip
from muniment_runtime.contracts import (
    Candidate,
    Headroom,
    KvType,
    Limit,
    LoadedModel,
    Need,
    NeedBasis,
    Pins,
    Plan,
    Prediction,
    Pressure,
    Profile,
    RunConfig,
    Signal,
)  # fmt: skip
from muniment_runtime.planner.demand import Demand
from muniment_runtime.planner.residual import Residual, ResidualKey

MIB = 1 << 20
PAGE_PT = (595.0, 842.0)
MARK: Box = (72.0, 300.0, 520.0, 316.0)
SECOND_MARK: Box = (80.0, 500.0, 300.0, 514.0)
LINES = (
    ("Annual report 2025 · Harbour Lantern Ltd", 20.0),
    ("4  Revenue and operating result", 14.0),
    ("", 10.5),
    ("The company operates ferries and coastal freight on four routes. The year", 10.5),
    ("was marked by two new contracts and by a mild winter.", 10.5),
    ("", 10.5),
    ("Freight volumes rose on every route; passenger numbers stayed flat.", 10.5),
)


def document(number: int, name: str, pages: int, status: DocumentStatus = DocumentStatus.READY) -> DocumentInfo:
    readable = {DocumentStatus.READY: pages, DocumentStatus.PARTIAL: pages - 4}.get(status, 0)
    return DocumentInfo(
        f"doc{number}", name, f"/documents/{name}", f"{number:064x}", 100_000, status, pages, readable, 0
    )


def passage(number: int, doc: DocumentInfo, page: int, text: str, boxes: tuple[Box, ...] = (MARK,)) -> Passage:
    return Passage(number, doc.document_id, doc.name, page, str(page), "Revenue", text, 0, 0.7, 0.8, boxes)


REPORT = document(1, "annual-report-2025.pdf", 212)
CONTRACT = document(2, "租赁合同-2025.pdf", 18)
MEMO = document(3, "risk-memo.pdf", 96, DocumentStatus.PARTIAL)
MEMO = replace(MEMO, reason="E-UI-TEST-UNKNOWN")
BROKEN = replace(document(4, "scan-0042.pdf", 0, DocumentStatus.REJECTED), reason="E-DOC-DAMAGED")
LIBRARY = [REPORT, CONTRACT, MEMO, BROKEN]

QUOTE_1 = "Net revenue for 2025 was 1,161 million crowns, up 8 % from 1,075 million."
QUOTE_2 = "Growth came mainly from the services segment (+14 %)."


def answered() -> Answer:
    passages = [
        passage(12, REPORT, 57, QUOTE_2, (SECOND_MARK,)), passage(11, REPORT, 24, QUOTE_1),
        passage(13, CONTRACT, 3, "租金自 2025 年 3 月 1 日起按季度支付。"),
        passage(14, MEMO, 41, "Services margin narrowed."),
    ]  # fmt: skip
    evidence = tuple(
        Evidence(n if used else 0, item, item.text, 40, used)
        for n, (item, used) in enumerate(zip(passages, (True, True, True, False), strict=True), 1)
    )
    return Answer(
        AnswerStatus.ANSWERED,
        "Net revenue was 1,161 million crowns in 2025. The rise came mainly from services. It will go on.",
        (
            Sentence("Net revenue was 1,161 million crowns in 2025.", Support.EXACT, (1,)),
            Sentence("The rise came mainly from the services segment.", Support.STRONG, (2,)),
            Sentence("It will go on next year.", Support.NONE, ()),
        ),
        (
            Citation(1, REPORT.document_id, REPORT.name, 24, QUOTE_1, (MARK,), Support.EXACT, 2),
            Citation(2, REPORT.document_id, REPORT.name, 57, QUOTE_2, (SECOND_MARK,), Support.STRONG, 1),
        ),
        evidence,
        1,
        PlanSummary("qwen2.5-coder-0.5b", "Q4_K_M", 4096, "f16", 1, 0, "best", 700 * MIB, 3200 * MIB),
        Timings(0.02, 0.0, 0.7, 0.9, 0.0704, 3.1),
        Usage(900, 60),
        Receipt(1284, "9f2c41aa" * 8),
    )


def not_found() -> Answer:
    nearest = (
        passage(21, REPORT, 88, "The board receives a fixed fee; details are in note 12."),
        passage(22, REPORT, 90, "Remuneration principles were approved by the meeting."),
        passage(23, MEMO, 7, "Key persons are listed in the annex."),
        passage(24, MEMO, 8, "A fourth passage that is not shown."),
    )
    base = answered()
    return replace(
        base, status=AnswerStatus.NOT_FOUND, answer="", sentences=(), citations=(), evidence=(), left_out=0, plan=None,
        reason="E-ANSWER-UNSUPPORTED", nearest=nearest,
    )  # fmt: skip


def need(weights: int, kv: int) -> Need:
    return Need(weights * MIB, kv * MIB, 0, 96 * MIB, 2 * MIB, 38 * MIB, 11 * MIB)


def plan(available: int = 3277 * MIB) -> Plan:
    room = Headroom(
        available,
        (
            Limit("memory_available", 5120 * MIB),
            Limit("cgroup:/user.slice", 4096 * MIB),
            Limit("cgroup:/user.slice/app", available),
        ),
        16384 * MIB,
        Pressure.OK,
        "cgroup:/user.slice/app",
        (Signal("stall_some_percent", 0.4), Signal("swap_in_bytes_per_s", 3.0 * MIB)),
    )

    def make(model: str, quant: str, context: int, sequences: int, cost: Need, fits: bool, reason: str) -> Candidate:
        config = RunConfig(model, context, KvType.F16, sequences)
        known = Prediction(1.1, 0.07, 14.2, 0.71, "measured" if fits else "hypothesis")
        total = format_bytes(cost.total_bytes)
        params: dict[str, str | int | float] = {
            "missing_bytes": cost.total_bytes, "missing": total, "chosen": "qwen2.5-coder-1.5b-instruct",
            "model": model, "quantization": quant, "context": context, "need": total,
            "headroom": format_bytes(available), "margin": "512 MiB",
        }  # fmt: skip
        return Candidate(config, quant, cost, known, fits, reason, params)

    candidates = (
        make("qwen2.5-coder-7b-instruct", "Q4_K_M", 16384, 1, need(4460, 896), False, "needs_more_memory"),
        make("qwen2.5-coder-1.5b-instruct", "Q4_K_M", 8192, 1, need(1065, 224), True, "chosen"),
        make("qwen2.5-coder-0.5b-instruct", "Q4_K_M", 8192, 2, need(469, 192), True, "smaller_than_chosen"),
        make("smollm2-135m-instruct", "Q4_1", 2048, 1, need(94, 46), True, "smaller_than_chosen"),
    )
    chosen = tried(candidates[1])
    return Plan(Profile.REALTIME, room, 512 * MIB, Pins(), (candidates[0], chosen, *candidates[2:]), 1, 0, (2, 3), 8192)


def tried(candidate: Candidate) -> Candidate:
    """The candidate after a dry run that gave the same need; its closed form was 3 MiB short of compute memory."""
    estimate = candidate.need._replace(compute_bytes=candidate.need.compute_bytes - 3 * MIB)
    return candidate._replace(need=candidate.need._replace(basis=NeedBasis.ORACLE), formula=estimate)


def imagined(profile: Profile, headroom_bytes: int) -> Plan:
    """The plan of a device that has this headroom and no more: the best of four models that fits 512 MiB below it."""
    base = plan(headroom_bytes)
    room = Headroom(headroom_bytes, (Limit("what_if", headroom_bytes),), headroom_bytes, Pressure.OK, "what_if")
    missing = [item.need.total_bytes + base.margin_bytes - headroom_bytes for item in base.candidates]
    fitting = [index for index, short in enumerate(missing) if short <= 0]
    candidates = []
    for index, (item, short) in enumerate(zip(base.candidates, missing, strict=True)):
        reason = "chosen" if fitting[:1] == [index] else "smaller_than_chosen" if short <= 0 else "needs_more_memory"
        params = {**item.reason_params, "missing": format_bytes(short), "missing_bytes": short}
        if fitting:
            params["chosen"] = base.candidates[fitting[0]].config.model_id
        candidates.append(item._replace(fits=short <= 0, reason=reason, reason_params=params))
    chosen = fitting[0] if fitting else None
    unblock = 0 if fitting else min(missing)
    return Plan(profile, room, base.margin_bytes, Pins(), tuple(candidates), chosen, unblock, tuple(fitting[1:]))


class Fake:
    """All seven services in one object; knobs are attributes."""

    def __init__(self, documents: Sequence[DocumentInfo] = LIBRARY, installed: bool = True) -> None:
        self.library = list(documents)
        self.installed = installed
        self.answer: Answer | Exception = answered()
        self.stream = ["Net revenue ", "was 1,161 ", "million."]
        self.current_plan: Plan | KnownError = plan()
        self.loaded: LoadedModel | None = LoadedModel(
            "qwen2.5-coder-1.5b-instruct", 8192, 1, 151_936, 1.4, 389 * MIB, 1066 * MIB,
            Need(1066 * MIB, 224 * MIB, 0, 96 * MIB, 2 * MIB, 0, 0, NeedBasis.MEASURED),
        )  # fmt: skip
        self.imagine = imagined
        self.held: Plan | None = None
        self.planned: list[tuple[Profile, int]] = []
        self.residuals = {ResidualKey("qwen2", "llama_cpp", "linux"): Residual(5, 3 * MIB, 11 * MIB)}
        self.report = AuditReport(True, 1284, 3, None, 0)
        self.total = 1284
        self.rendered: list[tuple[str, int, float]] = []
        self.render_error: KnownError | None = None
        self.asked: list[AskRequest] = []
        self.indexed: list[list[Path]] = []
        self.passwords: list[str | None] = []
        self.encrypted = False
        self.exports: list[tuple[Path, str]] = []
        self.gates: dict[str, threading.Event] = {}
        self.entered: dict[str, threading.Event] = {}
        self.closed = False

    def hold(self, name: str) -> threading.Event:
        """Make the named call wait until the returned event is set."""
        self.gates[name], self.entered[name] = threading.Event(), threading.Event()
        return self.gates[name]

    def wait(self, name: str, cancelled: Callable[[], bool] = lambda: False) -> None:
        if name not in self.gates:
            return
        self.entered[name].set()
        for _ in range(2000):
            if self.gates[name].wait(0.01) or cancelled():
                return
        raise AssertionError("a gate was never opened")

    def services(self) -> Services:
        return Services(_Index(self), _Library(self), _Pages(self), _Ask(self), _Plan(self), _Models(self),
                        _Audit(self), self._close)  # fmt: skip

    def _close(self) -> None:
        self.closed = True


class _Part:
    def __init__(self, fake: Fake) -> None:
        self.fake = fake


class _Index(_Part):
    def index(
        self,
        paths: Sequence[Path],
        on_progress: Callable[[IndexProgress], None],
        password: Callable[[str, bool], str | None],
        cancelled: Callable[[], bool],
    ) -> list[DocumentInfo]:
        self.fake.indexed.append(list(paths))
        found = []
        for number, path in enumerate(paths, 1):
            on_progress(IndexProgress(path.name, number, len(paths), 41, 96, 125.0))
            self.fake.wait("index", cancelled)
            if cancelled():
                raise KnownError("E-CANCELLED")
            info = document(100 + number, path.name, 96)
            if self.fake.encrypted:
                for wrong in (False, True):
                    self.fake.passwords.append(password(path.name, wrong))
                    if self.fake.passwords[-1] in (None, "right"):
                        break
                if self.fake.passwords[-1] != "right":
                    info = replace(info, status=DocumentStatus.REJECTED, reason="E-DOC-PASSWORD")
            self.fake.library.append(info)
            found.append(info)
            on_progress(IndexProgress(path.name, number, len(paths), 96, 96, 0.0, info))
        return found


class _Library(_Part):
    def documents(self) -> list[DocumentInfo]:
        self.fake.wait("documents")
        return list(self.fake.library)

    def find(self, reference: str) -> DocumentInfo:
        return next(item for item in self.fake.library if reference in (item.document_id, item.name))

    def remove(self, document_id: str) -> None:
        self.fake.library = [item for item in self.fake.library if item.document_id != document_id]

    def page_text(self, document_id: str, page: int) -> str:
        return f"page {page}"

    def page_size(self, document_id: str, page: int) -> tuple[float, float]:
        return PAGE_PT

    def search(self, query: str, k: int = 8, documents: Sequence[str] = ()) -> list[Passage]:
        return list(not_found().nearest[:k])


class _Pages(_Part):
    def capabilities(self) -> dict[str, bool]:
        return {"seccomp": True}

    def render(self, document_id: str, page: int, scale: float) -> RenderedPage:
        self.fake.rendered.append((document_id, page, scale))
        self.fake.wait("render")
        if self.fake.render_error:
            raise self.fake.render_error
        return paint_page(page, scale)


def paint_page(page: int, scale: float) -> RenderedPage:
    """Paint an invented page; the quote stands at ``MARK``."""
    width, height = round(PAGE_PT[0] * scale), round(PAGE_PT[1] * scale)
    image = QImage(width, height, QImage.Format.Format_RGB888)
    image.fill(QColor("white"))
    painter = QPainter(image)
    painter.scale(scale, scale)
    painter.setPen(QColor("#202020"))
    top = 90.0
    lines = [*LINES, *((LINES[3 + i % 2]) for i in range(24))]
    for text, points in lines:
        font = QFont("Noto Serif CJK SC")
        font.setPixelSize(round(points))
        painter.setFont(font)
        if abs(top - MARK[1]) < 9:
            text = QUOTE_1  # noqa: PLW2901
            top = MARK[1]
        painter.drawText(QRectF(72, top, 470, points + 8), int(Qt.AlignmentFlag.AlignLeft), text)
        top += points + 9 if points > 11 else 18
    painter.drawText(QRectF(72, 800, 451, 16), int(Qt.AlignmentFlag.AlignHCenter), str(page))
    painter.end()
    rows = bytes(image.constBits())
    stride = image.bytesPerLine()
    rgb = b"".join(rows[row * stride : row * stride + width * 3] for row in range(height))
    return RenderedPage(page, width, height, scale, rgb)


class _Ask(_Part):
    def ask(self, request: AskRequest, on_event: Callable[[AskEvent], None], cancelled: Callable[[], bool]) -> Answer:
        self.fake.asked.append(request)
        if not isinstance(self.fake.answer, Answer):
            raise self.fake.answer
        on_event(AskEvent(AskPhase.SEARCHING, passages=8))
        if self.fake.answer.status is AnswerStatus.ANSWERED:
            on_event(AskEvent(AskPhase.LOADING))
            on_event(AskEvent(AskPhase.READING, fraction=0.4))
            for piece in self.fake.stream:
                on_event(AskEvent(AskPhase.WRITING, untrusted_text=piece))
        self.fake.wait("ask", cancelled)
        if cancelled():
            raise KnownError("E-ASK-CANCELLED")
        on_event(AskEvent(AskPhase.CHECKING))
        return self.fake.answer


class _Plan(_Part):
    def headroom(self) -> Headroom:
        self.fake.wait("headroom")
        return plan().headroom

    def plan(
        self,
        profile: Profile = Profile.REALTIME,
        pins: Pins | None = None,
        headroom_bytes: int | None = None,
        demand: Demand | None = None,
    ) -> Plan:
        if headroom_bytes is not None:
            self.fake.planned.append((profile, headroom_bytes))
            self.fake.wait("imagine")
        if isinstance(self.fake.current_plan, KnownError):
            raise self.fake.current_plan
        if pins is not None and self.fake.held is not None:
            return self.fake.held
        return self.fake.current_plan if headroom_bytes is None else self.fake.imagine(profile, headroom_bytes)

    def running(self) -> LoadedModel | None:
        return self.fake.loaded

    def learned(self) -> dict[ResidualKey, Residual]:
        return dict(self.fake.residuals)


class _Models(_Part):
    def list(self) -> list[ModelInfo]:
        return [
            ModelInfo("qwen2.5-coder-0.5b-instruct-q4_k_m", "qwen2.5", "Q4_K_M", 491_400_064, ("en", "zh"),
                      "Apache-2.0", self.fake.installed, True, None)
        ]  # fmt: skip

    def add(self, name: str, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]) -> ModelInfo:
        on_progress(100 * MIB, 491_400_064)
        self.fake.wait("add", cancelled)
        if cancelled():
            raise KnownError("E-CANCELLED")
        self.fake.installed = True
        return self.list()[0]

    def import_file(
        self, path: Path, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
    ) -> ModelInfo:
        return self.list()[0]

    def requantize(
        self,
        name: str,
        quantization: str,
        on_progress: Callable[[int, int], None],
        cancelled: Callable[[], bool],
    ) -> ModelInfo:
        on_progress(100 * MIB, 491_400_064)
        self.fake.wait("requantize", cancelled)
        if cancelled():
            raise KnownError("E-CANCELLED")
        kind = quantization.upper()
        return replace(
            self.list()[0], model_id=f"qwen2.5-coder-0.5b-instruct-{kind.lower()}-requantized",
            quantization=f"{kind}-from-Q4_K_M", size_bytes=409_000_000, installed=True, starter=False, base=name,
        )  # fmt: skip

    def verify(self, name: str | None, on_progress: Callable[[int, int], None]) -> dict[str, bool]:
        return {}

    def remove(self, name: str) -> None:
        self.fake.installed = False


class _Audit(_Part):
    def count(self) -> int:
        return self.fake.total

    def events(self, offset: int = 0, limit: int = 100, newest_first: bool = True) -> list[AuditEvent]:
        kinds = ("answer.completed", "runtime.decision", "question.asked", "index.built", "model.loaded",
                 "answer.not_found")  # fmt: skip
        first = self.fake.total - offset
        return [
            AuditEvent(
                seq, f"2025-11-03T14:{seq % 60:02d}:10Z", kinds[seq % 6], f"{seq * 2654435761 % 2**32:08x}" * 8,
                {"model": "qwen2.5-coder-1.5b", "citations": 3, "need_bytes": 1_506_000_000},
                {"question": "What was net revenue in 2025?"} if seq % 6 == 2 else {},
            )
            for seq in range(first, max(0, first - limit), -1)
        ]  # fmt: skip

    def verify(self) -> AuditReport:
        self.fake.wait("verify")
        return self.fake.report

    def export(self, target: Path, openings: str = "none") -> Path:
        self.fake.exports.append((target, openings))
        return target

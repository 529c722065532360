"""The resources page: memory now, the need of a plan by every source, all candidates, and what would be otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QTimer
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget
from shiboken6 import isValid

from muniment_app.bridge.formats import count, failure, seconds, size
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.bridge.tasks import Lane, Task, Tasks
from muniment_app.services.api import PlanService, Services
from muniment_app.ui.memory_bar import PARTS, MemoryBar, memory_parts
from muniment_app.ui.resources_candidates import CandidatesCard
from muniment_app.ui.resources_limits import LimitsCard
from muniment_app.ui.resources_need import NeedCard, is_running, with_running
from muniment_app.ui.resources_texts import difference
from muniment_app.ui.resources_whatif import WhatIfCard
from muniment_app.ui.resources_widgets import fit, make_rows, show_rows
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, Swatch, chip, make_button, set_property
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Candidate, Headroom, LoadedModel, Pins, Plan, Pressure
from muniment_runtime.planner.residual import Residual, ResidualKey

__all__ = ["ResourcesPage", "Snapshot", "learned_rows", "read_snapshot"]

_PRESSURE = {Pressure.OK: "good", Pressure.TIGHT: "warn", Pressure.CRITICAL: "bad"}


@dataclass(frozen=True)
class Snapshot:
    """What one look at the machine gave. ``plan`` is ``None`` without a model; ``error`` says why.

    The setting that runs now is among the candidates of the plan, although a question may have needed another one
    than is planned for without a question.
    """

    headroom: Headroom
    plan: Plan | None
    running: LoadedModel | None
    error: KnownError | None = None
    learned: Mapping[ResidualKey, Residual] = field(default_factory=dict)


def read_snapshot(service: PlanService) -> Snapshot:
    """Measure and plan. Runs on a lane."""
    running = service.running()
    try:
        plan = service.plan()
    except KnownError as error:
        return Snapshot(service.headroom(), None, running, error)
    return Snapshot(
        plan.headroom, with_running(plan, _loaded(service, plan, running), running), running, None, service.learned()
    )


def _loaded(service: PlanService, plan: Plan, running: LoadedModel | None) -> Candidate | None:
    """Return the setting that runs, as a plan sees it that is held to it; ``None`` when the plan has it already."""
    if running is None or any(is_running(item, plan, running) for item in plan.candidates):
        return None
    pins = Pins(running.model_id, running.context, running.sequences)
    try:
        held = service.plan(pins=pins)
    except KnownError:
        return None  # removed or changed on disk since it was loaded
    return next((item for item in held.candidates if is_running(item, held, running)), None)


def learned_rows(learned: Mapping[ResidualKey, Residual]) -> list[Row]:
    """Return what loads have taught: measured less expected, by architecture, backend and system."""
    return [
        Row(
            (
                f"{key.architecture} · {key.backend} · {key.system}",
                count(item.samples),
                difference(item.typical_bytes, exact=False),
                difference(item.high_bytes, exact=False),
            )
        )
        for key, item in sorted(learned.items())
    ]


class ResourcesPage(QScrollArea):
    """Cards over one snapshot. Only the what-if card shows anything that is not true now."""

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator, self._tasks = translator, tasks
        self._services: Services | None = None
        self._task: Task | None = None
        self.snapshot: Snapshot | None = None
        text = translator.text
        self.bar = MemoryBar(text("ui.memory"))
        self.title = PlainLabel(role="figure")
        self.subtitle = PlainLabel(role="muted")
        self.pressure = chip()
        self.running = PlainLabel(wrap=True)
        self.limits = LimitsCard(translator)
        self.candidates = CandidatesCard(translator)
        self.candidates.selected.connect(self._show_candidate)
        self.need = NeedCard(translator, self.candidates.select_choice)
        self.what_if = WhatIfCard(translator, tasks)
        # After the layout has made room for what opened.
        self.what_if.opened.connect(lambda: QTimer.singleShot(0, self.what_if, self._reveal))
        names = ("kind", "loads", "typical", "high")
        self.learned = RowsModel([text(f"ui.col_{name}") for name in names], (1, 2, 3), self)
        self._learned_table = make_rows(self.learned, text("ui.learned"), 0)
        about = PlainLabel(text("ui.learned_about"), "small", wrap=True)
        self._learned_card = self._card(text("ui.learned"), self._learned_table, about)
        heads = [text(f"ui.col_{name}") for name in ("part", "size", "bytes")]
        self.parts = RowsModel(heads, (1, 2), self)
        self._parts_table = make_rows(self.parts, text("ui.memory_table"), 0)
        self._legend: dict[str, list[QWidget]] = {}
        self._build()

    def attach(self, services: Services) -> None:
        """Give the services once they exist."""
        self._services = services
        self.what_if.attach(services.plan)
        self.refresh()

    def refresh(self) -> None:
        """Look at the machine again."""
        if self._services is None or self._task is not None:
            return
        service = self._services.plan
        self.refresh_button.setEnabled(False)
        self._task = self._tasks.submit(Lane.READ, lambda _task: read_snapshot(service), self._show, self._on_failed)

    def _show(self, snapshot: Snapshot) -> None:
        # A new language makes a new page; the answer to the old one comes when that is gone.
        if not isValid(self):
            return
        self._task = None
        self.refresh_button.setEnabled(True)
        self.snapshot = snapshot
        text, room, plan = self._translator.text, snapshot.headroom, snapshot.plan
        choice = plan.choice if plan else None
        self.title.setText(size(room.available_bytes))
        self.subtitle.setText(text("ui.headroom_of", total=size(room.total_bytes)))
        set_property(self.pressure, "chip", _PRESSURE[room.pressure])
        self.pressure.setText(text(f"ui.pressure_{room.pressure.value}"))
        self._show_parts(snapshot, choice)
        self.limits.show_headroom(room)
        self._show_running(snapshot)
        show_rows(self.learned, learned_rows(snapshot.learned))
        self._learned_card.setVisible(bool(snapshot.learned))
        fit(self._learned_table)
        self.candidates.show_plan(plan)
        self._show_candidate(self.candidates.current)
        self.what_if.set_now(room, choice)

    def _show_candidate(self, candidate: Candidate | None) -> None:
        """Show the need of one candidate of the snapshot."""
        if self.snapshot is None:
            return
        plan, error = self.snapshot.plan, self.snapshot.error
        if plan is None or candidate is None:
            reason = failure(self._translator, error)[0] if error else ""
            self.need.show_nothing(self._translator.text("ui.no_plan"), reason)
        else:
            self.need.show_candidate(plan, candidate, self.snapshot.running)

    def _reveal(self) -> None:
        self.ensureWidgetVisible(self.what_if, 0, GRID)

    def _show_parts(self, snapshot: Snapshot, choice: Candidate | None) -> None:
        margin = snapshot.plan.margin_bytes if snapshot.plan else 0
        parts = memory_parts(snapshot.headroom, choice.need if choice else None, margin)
        names = {part.key: self._translator.text(f"ui.part_{part.key}") for part in parts}
        self.bar.show_parts(parts, names)
        show_rows(self.parts, [Row((names[part.key], size(part.bytes), count(part.bytes))) for part in parts])
        fit(self._parts_table)
        for key, widgets in self._legend.items():
            for widget in widgets:
                widget.setVisible(key in names)

    def _show_running(self, snapshot: Snapshot) -> None:
        text, loaded = self._translator.text, snapshot.running
        if loaded is None:
            self.running.setText(text("ui.running_none"))
            return
        measured = loaded.anonymous_bytes + loaded.file_bytes
        plan = snapshot.plan
        candidates = plan.candidates if plan else ()
        match = next((item for item in candidates if plan and is_running(item, plan, loaded)), None)
        self.running.setText(
            text(
                "ui.running_text",
                model=loaded.model_id,
                context=count(loaded.context),
                n=loaded.sequences,
                load=seconds(self._translator, loaded.load_s),
                planned=size(match.need.total_bytes) if match else text("ui.unknown"),
                measured=size(measured) if measured else text("ui.unknown"),
                anonymous=size(loaded.anonymous_bytes),
                file=size(loaded.file_bytes),
            )
        )

    def _on_failed(self, error: Exception) -> None:
        if not isValid(self):
            return
        self._task = None
        self.refresh_button.setEnabled(True)
        sentence, code = failure(self._translator, error)
        self.subtitle.setText(f"{sentence} ({code})")

    def _card(self, title: str, *widgets: QWidget) -> Card:
        card = Card(margin=2 * GRID)
        card.column.addWidget(PlainLabel(title, "heading"))
        for widget in widgets:
            card.column.addWidget(widget)
        card.column.addStretch(1)
        return card

    def _memory_card(self) -> Card:
        text = self._translator.text
        self.refresh_button = make_button(text("ui.refresh"), self.refresh)
        self.refresh_button.setToolTip("F5")
        QShortcut(QKeySequence("F5"), self, self.refresh)
        head = QHBoxLayout()
        head.setSpacing(int(1.5 * GRID))
        for widget in (self.title, self.subtitle, self.pressure):
            head.addWidget(widget)
        head.addStretch(1)
        head.addWidget(self.refresh_button)
        legend = QHBoxLayout()
        for key in PARTS:
            self._legend[key] = [Swatch(key), PlainLabel(text(f"ui.part_{key}"), "small")]
            for item in self._legend[key]:
                legend.addWidget(item)
            legend.addSpacing(GRID)
        legend.addStretch(1)
        card = Card(margin=2 * GRID)
        card.column.addLayout(head)
        card.column.addWidget(self.bar)
        card.column.addLayout(legend)
        return card

    def _build(self) -> None:
        text, gap = self._translator.text, int(1.5 * GRID)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(text("ui.resources"))
        right = QVBoxLayout()
        right.setSpacing(gap)
        right.addWidget(self._card(text("ui.running"), self.running))
        right.addWidget(self.limits)
        right.addWidget(self._card(text("ui.memory_table"), self._parts_table), 1)
        halves = QHBoxLayout()
        halves.setSpacing(gap)
        left = QVBoxLayout()
        left.setSpacing(gap)
        left.addWidget(self.need, 1)
        left.addWidget(self._learned_card)
        halves.addLayout(left, 28)
        halves.addLayout(right, 20)
        body = QWidget()
        body.setProperty("role", "page")
        column = QVBoxLayout(body)
        column.setContentsMargins(gap, GRID, gap, gap)
        column.setSpacing(gap)
        column.addWidget(self._memory_card())
        column.addLayout(halves)
        column.addWidget(self.candidates)
        column.addWidget(self.what_if)
        column.addStretch(1)
        self.setWidget(body)
        self.viewport().setAutoFillBackground(False)
        body.setAutoFillBackground(False)

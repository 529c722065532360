"""The resources page: memory now, the equation of the chosen plan, what was rejected and why, what runs."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QTableView, QVBoxLayout, QWidget

from muniment_app.bridge.formats import count, failure, plan_reason, seconds, size
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.bridge.tasks import Lane, Task, Tasks
from muniment_app.services.api import PlanService, Services
from muniment_app.ui.memory_bar import MemoryBar, memory_parts
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, Swatch, chip, make_button, make_table, set_property
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Candidate, Headroom, LoadedModel, Plan, Pressure
from muniment_runtime.headroom.chain import split_name

__all__ = ["ResourcesPage", "Snapshot", "distinct", "equation_rows"]

ROW_PX = 28


@dataclass(frozen=True)
class Snapshot:
    """What one look at the machine gave. ``plan`` is ``None`` without a model; ``error`` says why."""

    headroom: Headroom
    plan: Plan | None
    running: LoadedModel | None
    error: KnownError | None = None


def read_snapshot(service: PlanService) -> Snapshot:
    """Measure and plan. Runs on a lane."""
    running = service.running()
    try:
        plan = service.plan()
    except KnownError as error:
        return Snapshot(service.headroom(), None, running, error)
    return Snapshot(plan.headroom, plan, running)


def equation_rows(translator: Translator, plan: Plan, candidate: Candidate) -> list[Row]:
    """Return the lines of ``need + margin <= headroom`` with readable and exact bytes."""
    text, need, config = translator.text, candidate.need, candidate.config
    lines = [
        (text("ui.part_weights"), need.weights_bytes, "weights"),
        (
            text("ui.eq_kv", n=config.sequences, context=count(config.context), kind=config.kv_type.value),
            need.kv_bytes,
            "kv",
        ),
        (text("ui.eq_recurrent"), need.recurrent_bytes, ""),
        (text("ui.eq_compute"), need.compute_bytes, ""),
        (text("ui.eq_output"), need.output_bytes, ""),
        (text("ui.eq_base"), need.base_bytes, ""),
        (text("ui.eq_residual"), need.residual_bytes, ""),
    ]
    shown = [item for item in lines if item[1] or item[2]]
    rows = [
        Row(("+" if position else "", label, size(amount), count(amount)))
        for position, (label, amount, _) in enumerate(shown)
    ]
    left = plan.headroom.available_bytes - need.total_bytes - plan.margin_bytes
    rows.append(Row(("=", text("ui.eq_need"), size(need.total_bytes), count(need.total_bytes)), "strong"))
    rows.append(Row(("+", text("ui.eq_margin"), size(plan.margin_bytes), count(plan.margin_bytes))))
    available = plan.headroom.available_bytes
    rows.append(Row(("≤" if left >= 0 else ">", text("ui.headroom"), size(available), count(available)), "accent"))
    key, tone = ("ui.eq_left", "good") if left >= 0 else ("ui.eq_missing", "bad")
    rows.append(Row(("", text(key), size(abs(left)), count(abs(left))), tone))
    return rows


def distinct(plan: Plan) -> list[tuple[Candidate, int]]:
    """Return the candidates that a reader can tell apart, each with the number of those like it.

    Candidates that differ only in the sizes of their steps get one row: that of the choice, or else the first.
    """
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for item in plan.candidates:
        config = item.config
        key = (config.model_id, config.context, config.sequences, config.kv_type, item.fits)
        groups.setdefault(key, []).append(item)
    return [
        (next((item for item in group if item is plan.choice), group[0]), len(group) - 1) for group in groups.values()
    ]


class ResourcesPage(QScrollArea):
    """Cards over one snapshot."""

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
        self.choice = PlainLabel(role="heading", wrap=True)
        self.why = PlainLabel(role="muted", wrap=True)
        self.running = PlainLabel(wrap=True)
        bytes_head = (text("ui.col_size"), text("ui.col_bytes"))
        self.parts = RowsModel((text("ui.col_part"), *bytes_head), (1, 2), self)
        self.limits = RowsModel((text("ui.col_limit"), text("ui.col_bytes"), ""), (1,), self)
        self.binding = PlainLabel(role="muted", wrap=True)
        self.equation = RowsModel(("", text("ui.col_line"), *bytes_head), (2, 3), self)
        heads = ("model", "context", "sequences", "kv", "need", "first_word", "speed", "verdict", "reason")
        self.candidates = RowsModel([text(f"ui.col_{head}") for head in heads], (1, 2, 4, 5, 6), self)
        self._tables: list[QTableView] = []
        self._legend = QHBoxLayout()
        self._build()

    def attach(self, services: Services) -> None:
        """Give the services once they exist."""
        self._services = services
        self.refresh()

    def refresh(self) -> None:
        """Look at the machine again."""
        if self._services is None or self._task is not None:
            return
        service = self._services.plan
        self.refresh_button.setEnabled(False)
        self._task = self._tasks.submit(Lane.READ, lambda _task: read_snapshot(service), self._show, self._on_failed)

    def _show(self, snapshot: Snapshot) -> None:
        self._task = None
        self.refresh_button.setEnabled(True)
        self.snapshot = snapshot
        text, room, plan = self._translator.text, snapshot.headroom, snapshot.plan
        candidate = plan.choice if plan else None
        self.title.setText(size(room.available_bytes))
        self.subtitle.setText(text("ui.headroom_of", total=size(room.total_bytes)))
        kinds = {Pressure.OK: "good", Pressure.TIGHT: "warn", Pressure.CRITICAL: "bad"}
        set_property(self.pressure, "chip", kinds[room.pressure])
        self.pressure.setText(text(f"ui.pressure_{room.pressure.value}"))
        self._show_parts(snapshot, candidate)
        self.binding.setText(self._limit("binding", room.binding, room.available_bytes))
        self.limits.set_rows(
            [
                Row(
                    (
                        self._limit("limit", limit.name, limit.bytes),
                        count(limit.bytes),
                        text("ui.binds") if limit.name == room.binding else "",
                    ),
                    "accent" if limit.name == room.binding else "",
                    self._limit("limit", limit.name, limit.bytes),
                )
                for limit in room.limits
            ]
        )
        self._show_plan(snapshot, candidate)
        self._show_running(snapshot)
        for table in self._tables:
            model = table.model()
            table.setFixedHeight(34 + ROW_PX * max(1, model.rowCount()) + 4)
            table.resizeColumnsToContents()

    def _show_parts(self, snapshot: Snapshot, candidate: Candidate | None) -> None:
        margin = snapshot.plan.margin_bytes if snapshot.plan else 0
        parts = memory_parts(snapshot.headroom, candidate.need if candidate else None, margin)
        names = {part.key: self._translator.text(f"ui.part_{part.key}") for part in parts}
        self.bar.show_parts(parts, names)
        self.parts.set_rows([Row((names[part.key], size(part.bytes), count(part.bytes))) for part in parts])
        while (item := self._legend.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        for part in parts:
            self._legend.addWidget(Swatch(part.key))
            self._legend.addWidget(PlainLabel(names[part.key], "small"))
            self._legend.addSpacing(GRID)
        self._legend.addStretch(1)

    def _show_plan(self, snapshot: Snapshot, candidate: Candidate | None) -> None:
        text, plan = self._translator.text, snapshot.plan
        if plan is None:
            error = snapshot.error
            self.choice.setText(text("ui.no_plan"))
            self.why.setText(failure(self._translator, error)[0] if error else "")
            self.equation.set_rows([])
            self.candidates.set_rows([])
            return
        if candidate is None:
            self.choice.setText(text("ui.nothing_fits"))
            self.why.setText(text("ui.unblock", size=size(plan.unblock_bytes)))
        else:
            self.choice.setText(self._name(candidate))
            self.why.setText(plan_reason(self._translator, candidate.reason, candidate.reason_params))
        cheapest = min(plan.candidates, key=lambda item: item.need.total_bytes, default=None)
        shown = candidate or cheapest
        self.equation.set_rows(equation_rows(self._translator, plan, shown) if shown else [])
        self.candidates.set_rows(
            [self._candidate_row(item, alike, item is plan.choice) for item, alike in distinct(plan)]
        )

    def _show_running(self, snapshot: Snapshot) -> None:
        text, loaded = self._translator.text, snapshot.running
        if loaded is None:
            self.running.setText(text("ui.running_none"))
            return
        measured = loaded.anonymous_bytes + loaded.file_bytes
        match = next(
            (
                item
                for item in (snapshot.plan.candidates if snapshot.plan else ())
                if item.config.model_id == loaded.model_id
                and item.config.context == loaded.context
                and item.config.sequences == loaded.sequences
            ),
            None,
        )
        planned = size(match.need.total_bytes) if match else text("ui.unknown")
        self.running.setText(
            text(
                "ui.running_text",
                model=loaded.model_id,
                context=count(loaded.context),
                n=loaded.sequences,
                load=seconds(self._translator, loaded.load_s),
                planned=planned,
                measured=size(measured) if measured else text("ui.unknown"),
                anonymous=size(loaded.anonymous_bytes),
                file=size(loaded.file_bytes),
            )
        )

    def _candidate_row(self, item: Candidate, alike: int, chosen: bool) -> Row:
        text, config, prediction = self._translator.text, item.config, item.prediction
        verdict = "ui.verdict_chosen" if chosen else "ui.verdict_fits" if item.fits else "ui.verdict_rejected"
        tone = "accent" if chosen else "" if item.fits else "quiet"
        reason = plan_reason(self._translator, item.reason, item.reason_params)
        if alike:
            reason = f"{reason} · {text('ui.candidates_like', n=alike)}"
        mark = "" if prediction.basis == "measured" else " ?"
        first = "–" if prediction.ttft_s is None else seconds(self._translator, prediction.ttft_s) + mark
        speed = "–" if prediction.tokens_per_s is None else f"{prediction.tokens_per_s:.1f}{mark}"
        cells = (
            f"{config.model_id}",
            count(config.context),
            str(config.sequences),
            config.kv_type.value,
            size(item.need.total_bytes),
            first,
            speed,
            text(verdict),
            reason,
        )
        return Row(cells, tone, f"{self._name(item)} · {text(verdict)} · {reason}")

    def _name(self, item: Candidate) -> str:
        config = item.config
        return self._translator.text(
            "ui.plan_name",
            model=config.model_id,
            quantization=item.quantization,
            context=count(config.context),
            kv=config.kv_type.value,
            n=config.sequences,
        )

    def _limit(self, kind: str, name: str, amount_bytes: int) -> str:
        """Return the sentence about a link of the limit chain (``limit``) or about the one that binds."""
        key, detail = split_name(name)
        return self._translator.text(f"plan.{kind}.{key}", detail=detail, size=size(amount_bytes))

    def _on_failed(self, error: Exception) -> None:
        self._task = None
        self.refresh_button.setEnabled(True)
        sentence, code = failure(self._translator, error)
        self.subtitle.setText(f"{sentence} ({code})")

    def _table(self, model: RowsModel, name: str, stretch: int) -> QTableView:
        table = make_table(model, name, stretch, ROW_PX)
        table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._tables.append(table)
        return table

    def _card(self, title: str, *widgets: QWidget) -> Card:
        card = Card(margin=2 * GRID)
        card.column.addWidget(PlainLabel(title, "heading"))
        for widget in widgets:
            card.column.addWidget(widget)
        card.column.addStretch(1)
        return card

    def _build(self) -> None:
        text = self._translator.text
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(text("ui.resources"))
        self.refresh_button = make_button(text("ui.refresh"), self.refresh)
        self.refresh_button.setToolTip("F5")
        QShortcut(QKeySequence("F5"), self, self.refresh)
        body = QWidget()
        body.setProperty("role", "page")
        column = QVBoxLayout(body)
        column.setContentsMargins(int(1.5 * GRID), GRID, int(1.5 * GRID), int(1.5 * GRID))
        column.setSpacing(int(1.5 * GRID))
        head = QHBoxLayout()
        head.setSpacing(int(1.5 * GRID))
        head.addWidget(self.title)
        head.addWidget(self.subtitle)
        head.addWidget(self.pressure)
        head.addStretch(1)
        head.addWidget(self.refresh_button)
        memory = Card(margin=2 * GRID)
        memory.column.addLayout(head)
        memory.column.addWidget(self.bar)
        memory.column.addLayout(self._legend)
        column.addWidget(memory)
        grid = QGridLayout()
        grid.setSpacing(int(1.5 * GRID))
        plan = self._card(text("ui.plan"), self.choice, self.why, self._table(self.equation, text("ui.plan"), 1))
        limits = self._card(text("ui.limits"), self.binding, self._table(self.limits, text("ui.limits"), 0))
        running = self._card(text("ui.running"), self.running)
        parts = self._card(text("ui.memory_table"), self._table(self.parts, text("ui.memory_table"), 0))
        grid.addWidget(plan, 0, 0, 2, 1)
        grid.addWidget(running, 0, 1)
        grid.addWidget(limits, 1, 1)
        grid.setRowStretch(1, 1)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        column.addLayout(grid)
        candidates = self._table(self.candidates, text("ui.candidates"), 8)
        note = PlainLabel(text("ui.hypothesis_note"), "small", wrap=True)
        column.addWidget(self._card(text("ui.candidates"), candidates, note))
        column.addWidget(parts)
        column.addStretch(1)
        self.setWidget(body)
        self.viewport().setAutoFillBackground(False)
        body.setAutoFillBackground(False)

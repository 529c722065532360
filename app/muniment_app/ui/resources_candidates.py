"""All candidates of a plan with their verdicts, in the order in which they matter."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QItemSelectionModel, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from muniment_app.bridge.formats import count, seconds
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.ui.resources_texts import NONE, RUNNING, model_name, need_text, plan_name, reason_text
from muniment_app.ui.resources_widgets import fit, make_rows, show_rows
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Candidate, Plan

__all__ = ["CandidatesCard", "Group", "candidate_row", "groups_of"]

Group = tuple[Candidate, int]
"""A candidate and the number of those like it that differ only in the size of their steps."""

_MOST_ROWS = 10
_NEVER = 1 << 62
"""Sorts a candidate that a rule rejects, whatever memory there is, behind those that lack memory."""


def groups_of(plan: Plan) -> list[Group]:
    """Return the candidates that a reader can tell apart: choice, what runs, ladder, what else fits, the rejected.

    What fits beside the ladder keeps the planner's order; the rejected come by the memory that they lack. Candidates
    that differ only in the size of their steps get one row: that of the choice, of a rung, or else the first.
    """
    place = {plan.chosen: -2} if plan.chosen is not None else {}
    for step, index in enumerate(plan.ladder):
        place.setdefault(index, step)
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, item in enumerate(plan.candidates):
        config = item.config
        kind = RUNNING if item.reason == RUNNING else item.fits
        key = (config.model_id, item.quantization, config.context, config.sequences, config.kv_type, kind)
        groups.setdefault(key, []).append(index)
    found: list[tuple[tuple[int, int, int], int, int]] = []
    for members in groups.values():
        best = min(members, key=lambda index: (place.get(index, len(place)), index))
        found.append((_order(plan.candidates[best], place.get(best), best), best, len(members) - 1))
    return [(plan.candidates[index], alike) for _, index, alike in sorted(found)]


def candidate_row(translator: Translator, plan: Plan, group: Group, steps: Mapping[int, int]) -> Row:
    """Return the row of a candidate; ``steps`` numbers the rungs of the ladder by the identity of the candidate."""
    text, (item, alike) = translator.text, group
    config, prediction = item.config, item.prediction
    chosen = item is plan.choice
    if chosen:
        verdict = text("ui.verdict_overridden" if plan.pins.override and not item.fits else "ui.verdict_chosen")
    elif item.reason == RUNNING:
        verdict = text("ui.verdict_running")
    elif id(item) in steps:
        verdict = text("ui.verdict_step", step=steps[id(item)])
    else:
        verdict = text("ui.verdict_fits" if item.fits else "ui.verdict_rejected")
    tone = "accent" if chosen else "" if item.fits else "quiet"
    reason = reason_text(translator, item)
    mark = "" if prediction.basis == "measured" else " ?"
    first = NONE if prediction.ttft_s is None else seconds(translator, prediction.ttft_s) + mark
    speed = NONE if prediction.tokens_per_s is None else f"{prediction.tokens_per_s:.1f}{mark}"
    source = text(f"ui.basis_{item.need.basis.value if item.need.total_bytes else 'unknown'}")
    tip = [plan_name(translator, item), f"{text('ui.col_need')}: {need_text(item)} ({source})", verdict, reason]
    if alike:
        tip.append(text("ui.candidates_like", n=alike))
    cells = (
        model_name(config.model_id, item.quantization),
        item.quantization,
        count(config.context),
        config.kv_type.value,
        str(config.sequences),
        need_text(item),
        first,
        speed,
        verdict,
        f"{reason} · {tip[-1]}" if alike else reason,
    )
    return Row(cells, tone, " · ".join(tip))


class CandidatesCard(Card):
    """The table of candidates.

    Signals:
        selected: The reader chose a row; carries the ``Candidate``.
    """

    selected = Signal(object)

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(margin=2 * GRID, parent=parent)
        self._translator = translator
        self._plan: Plan | None = None
        self._quiet = False
        self.groups: list[Group] = []
        text = translator.text
        heads = (
            "model", "quantization", "context", "kv", "sequences", "need", "first_word", "speed", "verdict", "reason",
        )  # fmt: skip
        self.model = RowsModel([text(f"ui.col_{head}") for head in heads], (2, 4, 5, 6, 7), self)
        self.table = make_rows(self.model, text("ui.candidates"), len(heads) - 1)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._tell())
        self.summary = PlainLabel(role="muted")
        self.detail = PlainLabel(wrap=True)
        self.detail.setAlignment(Qt.AlignmentFlag.AlignTop)
        # Room for two lines, so that nothing below moves from row to row.
        self.detail.setMinimumHeight(2 * self.detail.fontMetrics().lineSpacing() + GRID)
        head = QHBoxLayout()
        head.addWidget(PlainLabel(text("ui.candidates"), "heading"))
        head.addSpacing(GRID)
        head.addWidget(self.summary)
        head.addStretch(1)
        self.column.addLayout(head)
        self.column.addWidget(self.table)
        self.column.addWidget(self.detail)
        self.column.addWidget(PlainLabel(text("ui.candidates_note"), "small", wrap=True))

    @property
    def current(self) -> Candidate | None:
        """The candidate of the selected row; without one the choice, or what comes nearest to fitting."""
        rows = self.table.selectionModel().selectedRows()
        if rows:
            return self.groups[rows[0].row()][0]
        return self.groups[0][0] if self.groups else None

    def show_plan(self, plan: Plan | None) -> None:
        """Show the candidates of a plan. The selected setting stays selected while the plan still has it."""
        before = self.current if self.table.selectionModel().hasSelection() else None
        followed = before is not None and self._plan is not None and before is self._plan.choice
        self._plan, self.groups = plan, groups_of(plan) if plan else []
        fitting = sum(1 + alike for item, alike in self.groups if item.fits)
        total = len(plan.candidates) if plan else 0
        self.summary.setText(self._translator.text("ui.candidates_count", n=total, fitting=fitting) if plan else "")
        steps = {id(plan.candidates[index]): step for step, index in enumerate(plan.ladder, 1)} if plan else {}
        scrolled = self.table.verticalScrollBar().value()
        self._quiet = True
        rows = [candidate_row(self._translator, plan, group, steps) for group in self.groups] if plan else []
        show_rows(self.model, rows)
        self._select(None if followed else before)
        self._quiet = False
        self._show_detail()
        fit(self.table, most=_MOST_ROWS)
        self.table.verticalScrollBar().setValue(scrolled)

    def select_choice(self) -> None:
        """Select the chosen candidate."""
        if self.groups:
            self.table.selectRow(0)
            self.table.scrollToTop()

    def _select(self, wanted: Candidate | None) -> None:
        key = None if wanted is None else wanted.config._replace(ubatch=0, batch=0)
        same = (row for row, (item, _) in enumerate(self.groups) if item.config._replace(ubatch=0, batch=0) == key)
        row = next(same, 0)
        selection = self.table.selectionModel()
        index = self.model.index(row, 0)
        if not index.isValid():
            return
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        selection.setCurrentIndex(index, flags)

    def _show_detail(self) -> None:
        """Say the selected row in full: its cells may be cut."""
        rows = self.table.selectionModel().selectedRows()
        self.detail.setText(self.model.rows[rows[0].row()].tip if rows else "")

    def _tell(self) -> None:
        self._show_detail()
        current = self.current
        if not self._quiet and current is not None and self.table.selectionModel().hasSelection():
            self.selected.emit(current)


def _order(item: Candidate, place: int | None, index: int) -> tuple[int, int, int]:
    if place is not None:
        return 0, place, index
    if item.reason == RUNNING:
        return 0, -1, index
    if item.fits:
        return 1, 0, index
    missing = item.reason_params.get("missing_bytes")
    return 2, missing if isinstance(missing, int) else _NEVER, index

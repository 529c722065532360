"""The need of one candidate, line by line: estimate, dry run and measurement side by side, and the equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PySide6.QtWidgets import QHBoxLayout, QWidget

from muniment_app.bridge.formats import count, size
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.ui.resources_texts import RUNNING, amount, difference, plan_name, reason_text
from muniment_app.ui.resources_widgets import fit, make_rows, make_switch, show_rows
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, chip, make_button, set_property
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Candidate, LoadedModel, Need, NeedBasis, Plan

__all__ = ["Figures", "NeedCard", "figures_of", "is_running", "need_rows", "notes", "with_running"]


@dataclass(frozen=True)
class Figures:
    """What is known about the need of one candidate, by source. ``None`` where a source says nothing.

    Attributes:
        estimate: The closed form.
        trial: The library's own dry run.
        reported: What the library reported for the load that runs now, when that is this candidate.
        private_bytes, file_bytes: By how much the system saw the worker grow in that load; both 0 without a
            measurement. The process itself is not in it, nor temporary memory before the first full prompt.
        running: This candidate is what runs now.
    """

    estimate: Need | None
    trial: Need | None
    reported: Need | None = None
    private_bytes: int = 0
    file_bytes: int = 0
    running: bool = False

    @property
    def deciding(self) -> Need | None:
        """The figures that the plan stands on: the dry run where there is one."""
        return self.trial or self.estimate

    @property
    def growth_bytes(self) -> int | None:
        """What the system measured in all."""
        return (self.private_bytes + self.file_bytes) or None

    @property
    def measured(self) -> bool:
        """Whether library or system measured anything."""
        return self.reported is not None or self.growth_bytes is not None


def is_running(candidate: Candidate, plan: Plan, loaded: LoadedModel | None) -> bool:
    """Return whether a candidate is what runs now: same model, context and sequences.

    What runs does not tell its cache type. Where candidates differ in nothing else, the one whose cache has the size
    that the library reported is meant.
    """
    if loaded is None or not _matches(candidate, loaded):
        return False
    if loaded.reported is None:
        return True
    kv = loaded.reported.kv_bytes
    closest = min(abs(item.need.kv_bytes - kv) for item in plan.candidates if _matches(item, loaded))
    return abs(candidate.need.kv_bytes - kv) == closest


def figures_of(candidate: Candidate, plan: Plan, loaded: LoadedModel | None) -> Figures:
    """Sort what is known about a candidate by its source. A need of 0 bytes means that nobody knows it."""
    known = candidate.need if candidate.need.total_bytes else None
    basis = candidate.need.basis
    estimate = candidate.formula or (known if basis is NeedBasis.FORMULA else None)
    trial = None if basis is NeedBasis.FORMULA else known
    if loaded is None or not is_running(candidate, plan, loaded):
        return Figures(estimate, trial)
    return Figures(estimate, trial, loaded.reported, loaded.anonymous_bytes, loaded.file_bytes, running=True)


def with_running(plan: Plan, running: Candidate | None, loaded: LoadedModel | None) -> Plan:
    """Return the plan with what runs now among its candidates: a question may have needed another context."""
    if running is None or any(is_running(item, plan, loaded) for item in plan.candidates):
        return plan
    shown = running._replace(fits=True, reason=RUNNING, reason_params={})
    return replace(plan, candidates=(*plan.candidates, shown))


def need_rows(translator: Translator, plan: Plan, candidate: Candidate, figures: Figures, exact: bool) -> list[Row]:
    """Return the lines of ``need + margin <= headroom`` with one column for each source, then the measured growth.

    Cells are sign, line, estimate, dry run, measured and difference. The library reports its buffers alone, so they
    have a sum of their own, and the equation holds in the columns of estimate and dry run. The difference is the
    measurement against what the plan stands on; before any load, the dry run against the estimate. ``exact`` gives
    bytes instead of MiB.
    """
    text, config = translator.text, candidate.config
    kv = text("ui.eq_kv", n=config.sequences, context=count(config.context), kind=config.kv_type.value)
    buffers: dict[str, Callable[[Need], int]] = {
        text("ui.part_weights"): lambda need: need.weights_bytes,
        kv: lambda need: need.kv_bytes,
        text("ui.eq_recurrent"): lambda need: need.recurrent_bytes,
        text("ui.eq_compute"): lambda need: need.compute_bytes,
        text("ui.eq_output"): lambda need: need.output_bytes,
    }
    rest: dict[str, Callable[[Need], int]] = {
        text("ui.eq_base"): lambda need: need.base_bytes,
        text("ui.eq_residual"): lambda need: need.residual_bytes,
    }
    planned = (figures.estimate, figures.trial)
    rows: list[Row] = []
    for label, line in buffers.items():
        values = [_value(source, line) for source in (*planned, figures.reported)]
        if any(values) or label != text("ui.eq_recurrent"):
            rows.append(_row(("+" if rows else "", label), values, _gap(figures, values), exact))
    sums = [_value(source, _buffers) for source in (*planned, figures.reported)]
    rows.append(_row(("=", text("ui.eq_buffers")), sums, _gap(figures, sums), exact))
    for label, line in rest.items():
        values = [*(_value(source, line) for source in planned), None]
        rows.append(_row(("+", label), values, _gap(figures, values), exact))
    totals = [*(source.total_bytes if source else None for source in planned), None]
    rows.append(_row(("=", text("ui.eq_need")), totals, _gap(figures, totals), exact, "strong"))
    room, margin = plan.headroom.available_bytes, plan.margin_bytes
    fits = figures.deciding is None or figures.deciding.total_bytes + margin <= room
    rows.append(_row(("+", text("ui.eq_margin")), _where(totals, margin), None, exact))
    rows.append(_row(("≤" if fits else ">", text("ui.headroom")), _where(totals, room), None, exact, "accent"))
    lefts = [None if total is None else (room - total - margin) * (1 if fits else -1) for total in totals]
    key, tone = ("ui.eq_left", "good") if fits else ("ui.eq_missing", "bad")
    rows.append(_row(("", text(key)), lefts, None, exact, tone))
    rows.append(_row(("", text("ui.eq_growth")), [None, None, figures.growth_bytes], None, exact, "quiet"))
    return rows


def notes(translator: Translator, plan: Plan, candidate: Candidate, loaded: LoadedModel | None) -> str:
    """Return what the figures are worth, in sentences: their source, the measurement or why there is none."""
    text, found = translator.text, figures_of(candidate, plan, loaded)
    if found.deciding is None:
        sentences = [text("ui.need_unknown")]
    elif found.trial is None:
        sentences = [text("ui.need_estimated")]
    else:
        sentences = [text("ui.need_tried" if found.estimate else "ui.need_tried_only")]
    sentences.append(_measurement(translator, found, loaded))
    residual = candidate.need.residual_bytes
    if residual:
        key = "ui.residual_more" if residual > 0 else "ui.residual_less"
        sentences.append(text(key, size=size(abs(residual))))
    if found.reported is not None and found.deciding is not None:
        sentences.append(text("ui.difference_measured"))
    elif found.trial is not None and found.estimate is not None and not found.running:
        sentences.append(text("ui.difference_trial"))
    return "\n".join(sentences)


class NeedCard(Card):
    """One candidate: what it is, why it was or was not chosen, and its need.

    Args:
        back: Called when the reader wants the chosen plan again.
    """

    def __init__(self, translator: Translator, back: Callable[[], None], parent: QWidget | None = None) -> None:
        super().__init__(margin=2 * GRID, parent=parent)
        self._translator = translator
        self._shown: tuple[Plan, Candidate, LoadedModel | None] | None = None
        text = translator.text
        self.name = PlainLabel(role="heading", wrap=True)
        self.reason = PlainLabel(role="muted", wrap=True)
        self.basis, self.override = chip(), chip(text("ui.overridden"), "warn")
        self.override.hide()
        self.notes = PlainLabel(role="small", wrap=True)
        heads = ("", *(text(f"ui.col_{name}") for name in ("line", "estimate", "trial", "measured", "difference")))
        self.model = RowsModel(heads, (2, 3, 4, 5), self)
        self.table = make_rows(self.model, text("ui.plan"), 1)
        self.exact = make_switch(text("ui.exact_bytes"), lambda _on: self._fill())
        self.back = make_button(text("ui.show_choice"), back)
        kept = self.back.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self.back.setSizePolicy(kept)
        head = QHBoxLayout()
        head.addWidget(PlainLabel(text("ui.plan"), "heading"))
        for mark in (self.basis, self.override):
            head.addWidget(mark)
        head.addStretch(1)
        for button in (self.back, self.exact):
            head.addWidget(button)
        self.column.addLayout(head)
        parts: tuple[QWidget, ...] = (self.name, self.reason, self.table, self.notes)
        for part in parts:
            self.column.addWidget(part)
        self.column.addStretch(1)

    def show_nothing(self, title: str, reason: str) -> None:
        """Say why there is no plan."""
        self._shown = None
        self.name.setText(title)
        self.reason.setText(reason)
        self.notes.setText("")
        for widget in (self.basis, self.override, self.back):
            widget.hide()
        self._fill()

    def show_candidate(self, plan: Plan, candidate: Candidate, loaded: LoadedModel | None) -> None:
        """Show one candidate of a plan, and what it costs as far as that is known."""
        text = self._translator.text
        self._shown = (plan, candidate, loaded)
        self.back.setVisible(plan.choice is not None and candidate is not plan.choice)
        self.override.setVisible(plan.pins.override and candidate is plan.choice)
        if plan.choice is None and candidate.reason == "needs_more_memory":
            self.name.setText(text("ui.nothing_fits_for", plan=plan_name(self._translator, candidate)))
            self.reason.setText(text("ui.unblock", size=size(plan.unblock_bytes)))
        else:
            self.name.setText(plan_name(self._translator, candidate))
            self.reason.setText(reason_text(self._translator, candidate))
        found = figures_of(candidate, plan, loaded)
        word, tone = _basis(found)
        self.basis.setText(text(f"ui.basis_{word}"))
        set_property(self.basis, "chip", tone)
        self.basis.show()
        self._fill()

    def _fill(self) -> None:
        rows: Sequence[Row] = ()
        if self._shown is not None:
            plan, candidate, loaded = self._shown
            found = figures_of(candidate, plan, loaded)
            exact = self.exact.isChecked()
            rows = need_rows(self._translator, plan, candidate, found, exact)
            unit = self._translator.text("ui.in_bytes" if exact else "ui.in_mib")
            self.notes.setText(f"{unit} {notes(self._translator, plan, candidate, loaded)}")
        show_rows(self.model, rows)
        fit(self.table)


def _matches(candidate: Candidate, loaded: LoadedModel) -> bool:
    config = candidate.config
    return (config.model_id, config.context, config.sequences) == (loaded.model_id, loaded.context, loaded.sequences)


def _value(source: Need | None, line: Callable[[Need], int]) -> int | None:
    return None if source is None else line(source)


def _buffers(need: Need) -> int:
    """Return what the library allocates: all but the process itself and what was learned."""
    return need.total_bytes - need.base_bytes - need.residual_bytes


def _where(totals: Sequence[int | None], value: int) -> list[int | None]:
    """Return the value for every column that has a total."""
    return [None if total is None else value for total in totals]


def _gap(figures: Figures, values: Sequence[int | None]) -> int | None:
    estimate, trial, measured = values
    if figures.running:
        decided = estimate if trial is None else trial
        return None if measured is None or decided is None else measured - decided
    return None if trial is None or estimate is None else trial - estimate


def _row(names: tuple[str, str], values: Sequence[int | None], gap: int | None, exact: bool, tone: str = "") -> Row:
    return Row((*names, *(amount(value, exact) for value in values), difference(gap, exact)), tone)


def _basis(figures: Figures) -> tuple[str, str]:
    """Return the word and the tone for what the figures stand on."""
    if figures.deciding is None:
        return "unknown", "warn"
    if figures.measured:
        return "measured", "good"
    return ("formula", "warn") if figures.trial is None else ("oracle", "plain")


def _measurement(translator: Translator, figures: Figures, loaded: LoadedModel | None) -> str:
    text = translator.text
    if loaded is None:
        return text("ui.unmeasured_idle")
    if not figures.running:
        return text("ui.unmeasured_other", model=loaded.model_id, context=count(loaded.context), n=loaded.sequences)
    sentences = [text("ui.measured_lines")] if figures.reported else []
    if figures.growth_bytes is not None:
        grown, private, file = (size(n) for n in (figures.growth_bytes, figures.private_bytes, figures.file_bytes))
        sentences.append(text("ui.measured_growth", size=grown, private=private, file=file))
    return "\n".join(sentences) if sentences else text("ui.unmeasured_silent")

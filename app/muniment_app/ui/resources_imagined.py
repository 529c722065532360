"""The plan for an imagined headroom: what would run, its equation, and the steps below it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from muniment_app.bridge.formats import count, plan_reason, size
from muniment_app.bridge.models import Row, RowsModel
from muniment_app.ui.resources_texts import model_name, need_text, plan_name
from muniment_app.ui.resources_widgets import fit, make_rows, show_rows
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, set_property
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Candidate, NeedBasis, Plan

__all__ = ["ImaginedView", "balance_rows", "change", "ladder_rows"]

_LADDER_ROWS = 6


def balance_rows(translator: Translator, plan: Plan) -> list[Row]:
    """Return need, margin, imagined headroom and what is left of the choice, or of what comes nearest to fitting."""
    text = translator.text
    known = [item for item in plan.candidates if item.need.total_bytes]
    item = plan.choice or min(known, key=lambda item: item.need.total_bytes, default=None)
    room, margin = plan.headroom.available_bytes, plan.margin_bytes
    if item is None:
        return []
    need = item.need.total_bytes
    left = room - need - margin
    label = "ui.eq_need_formula" if item.need.basis is NeedBasis.FORMULA else "ui.eq_need_oracle"
    key, tone = ("ui.eq_left", "good") if left >= 0 else ("ui.eq_missing", "bad")
    return [
        Row(("", text(label), size(need), count(need)), "strong"),
        Row(("+", text("ui.eq_margin"), size(margin), count(margin))),
        Row(("≤" if left >= 0 else ">", text("ui.imagined_memory"), size(room), count(room)), "accent"),
        Row(("", text(key), size(abs(left)), count(abs(left))), tone),
    ]


def ladder_rows(translator: Translator, plan: Plan) -> list[Row]:
    """Return the steps down from the choice, the next first: what changes, the need then, and what it frees."""
    if plan.choice is None:
        return []
    rows, before = [], plan.choice
    for step, index in enumerate(plan.ladder, 1):
        item = plan.candidates[index]
        freed = before.need.total_bytes - item.need.total_bytes
        cells = (str(step), change(translator, before, item), need_text(item), size(freed))
        rows.append(Row(cells, "", plan_name(translator, item)))
        before = item
    return rows


def change(translator: Translator, before: Candidate, after: Candidate) -> str:
    """Return in words what a step changes: the new model if it is another, then each setting before and after."""
    old, new = before.config, after.config
    words = []
    if (old.model_id, before.quantization) != (new.model_id, after.quantization):
        words.append(f"{model_name(new.model_id, after.quantization)} {after.quantization}")
    pairs = {
        "sequences": (str(old.sequences), str(new.sequences)),
        "ubatch": (count(old.ubatch), count(new.ubatch)),
        "context": (count(old.context), count(new.context)),
        "kv": (old.kv_type.value, new.kv_type.value),
    }
    changed = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    words += [translator.text(f"ui.change_{key}", before=one, after=other) for key, (one, other) in changed.items()]
    return " · ".join(words)


class ImaginedView(QWidget):
    """A hint until something is imagined, then its plan under a line that says so."""

    def __init__(self, translator: Translator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._translator = translator
        text = translator.text
        self.plan: Plan | None = None
        self.banner = PlainLabel(wrap=True)
        self.choice = PlainLabel(role="heading", wrap=True)
        self.reason = PlainLabel(role="muted", wrap=True)
        self.compared = PlainLabel(wrap=True)
        heads = ("", *(text(f"ui.col_{name}") for name in ("line", "size", "bytes")))
        self.balance = RowsModel(heads, (2, 3), self)
        names = ("step", "change", "need", "frees")
        self.ladder = RowsModel([text(f"ui.col_{name}") for name in names], (0, 2, 3), self)
        self._balance = make_rows(self.balance, text("ui.imagined_balance"), 1)
        self._ladder = make_rows(self.ladder, text("ui.imagined_ladder"), 1)
        self._ladder.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self._below = PlainLabel(role="heading")
        # Both tables keep their height, so that nothing jumps while the slider moves.
        fit(self._balance, 4, 4)
        fit(self._ladder, _LADDER_ROWS, _LADDER_ROWS)
        kept = self._ladder.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self._ladder.setSizePolicy(kept)
        self._build()

    def clear(self) -> None:
        """Show the hint: nothing is imagined."""
        self.plan = None
        self._show(False)

    def show_plan(self, plan: Plan, now: Candidate | None) -> None:
        """Show an imagined plan beside the name of what is chosen now."""
        text = self._translator.text
        self.plan = plan
        room = size(plan.headroom.available_bytes)
        self._say(text("ui.imagined_text", size=room, profile=text(f"ui.profile_{plan.profile.value}")), "warn")
        chosen = plan.choice
        if chosen is None:
            self.choice.setText(text("ui.imagined_nothing"))
            missing = text("ui.imagined_missing", size=size(plan.unblock_bytes)) if plan.unblock_bytes else ""
            self.reason.setText(missing)
        else:
            self.choice.setText(plan_name(self._translator, chosen))
            self.reason.setText(plan_reason(self._translator, chosen.reason, chosen.reason_params))
        self.compared.setText(self._comparison(chosen, now))
        show_rows(self.balance, balance_rows(self._translator, plan))
        show_rows(self.ladder, ladder_rows(self._translator, plan))
        steps = len(self.ladder.rows)
        self._below.setText(text("ui.ladder_count", n=steps) if steps else text("ui.ladder_none"))
        fit(self._ladder, _LADDER_ROWS, _LADDER_ROWS)
        self._ladder.setVisible(bool(steps))

    def show_failure(self, sentence: str, code: str) -> None:
        """Say why there is no imagined plan."""
        self.plan = None
        self._say(f"{sentence} ({code})", "bad")
        for label in (self.choice, self.reason, self.compared, self._below):
            label.setText("")
        self.balance.set_rows([])
        self.ladder.set_rows([])

    def _say(self, sentence: str, kind: str) -> None:
        set_property(self._frame, "card", kind)
        set_property(self.banner, "tone", kind)
        self.banner.setText(sentence)
        self._show(True)

    def _comparison(self, chosen: Candidate | None, now: Candidate | None) -> str:
        text = self._translator.text
        if now is None:
            return text("ui.compared_none")
        if chosen is not None and chosen.config == now.config:
            return text("ui.compared_same")
        return text("ui.compared", plan=plan_name(self._translator, now))

    def _build(self) -> None:
        text = self._translator.text
        self._hint = PlainLabel(text("ui.imagined_hint"), "muted", wrap=True)
        self._frame = Card("warn", int(1.5 * GRID))
        self._frame.column.addWidget(self.banner)
        left = QVBoxLayout()
        left.setSpacing(GRID)
        for widget in (self.choice, self.reason, self.compared, self._balance):
            left.addWidget(widget)
        left.addStretch(1)
        right = QVBoxLayout()
        right.setSpacing(GRID)
        right.addWidget(self._below)
        right.addWidget(self._ladder)
        right.addStretch(1)
        halves = QHBoxLayout()
        halves.setSpacing(3 * GRID)
        halves.addLayout(left, 1)
        halves.addLayout(right, 1)
        self._shown = QWidget()
        column = QVBoxLayout(self._shown)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(int(1.5 * GRID))
        column.addWidget(self._frame)
        column.addLayout(halves)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._hint)
        outer.addWidget(self._shown)
        self._show(False)

    def _show(self, imagined: bool) -> None:
        self._hint.setVisible(not imagined)
        self._shown.setVisible(imagined)

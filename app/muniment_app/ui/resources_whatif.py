"""What if other memory were free: another headroom or profile is planned for, nothing is loaded or changed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QSlider, QSpinBox, QVBoxLayout, QWidget
from shiboken6 import isValid

from muniment_app.bridge.formats import failure, size
from muniment_app.bridge.tasks import Lane, Task, Tasks
from muniment_app.services.api import PlanService
from muniment_app.ui.headroom_scan import LogScale, Scan
from muniment_app.ui.headroom_strip import HeadroomStrip, span_lines
from muniment_app.ui.resources_imagined import ImaginedView
from muniment_app.ui.resources_texts import model_name
from muniment_app.ui.resources_widgets import Segments
from muniment_app.ui.theme import GRID
from muniment_app.ui.widgets import Card, PlainLabel, chip, make_button
from muniment_resources.i18n import Translator
from muniment_resources.units import MIB
from muniment_runtime.contracts import Candidate, Headroom, Plan, Profile

__all__ = ["WhatIfCard"]

LEAST_BYTES = 256 * MIB
_STEPS = 240
_STEP_BYTES = 16 * MIB
_DEBOUNCE_MS = 120

Wanted = tuple[Profile, int]


class WhatIfCard(Card):
    """Slider, profile, the strip of choices and the imagined plan. Closed until asked for; nothing runs before.

    The live figures of the page are never touched: all that is imagined stands in this card.

    Signals:
        opened: The card has opened and wants to be seen.
    """

    opened = Signal()

    def __init__(self, translator: Translator, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(margin=2 * GRID, parent=parent)
        self._translator, self._tasks = translator, tasks
        self._service: PlanService | None = None
        self._scale = LogScale(LEAST_BYTES, 2 * LEAST_BYTES)
        self._now_bytes = LEAST_BYTES
        self._now: Candidate | None = None
        self._asking: Task | None = None
        self._asked: Wanted | None = None
        self._scanning: Task | None = None
        self._scan: Scan | None = None
        self._scanned: Profile | None = None
        self._setting = False
        self.wanted: Wanted | None = None
        """What is imagined; ``None`` means now."""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_DEBOUNCE_MS)
        self._timer.timeout.connect(self._ask)
        self._build()

    def attach(self, service: PlanService) -> None:
        """Give the service once it exists."""
        self._service = service

    def set_now(self, headroom: Headroom, choice: Candidate | None) -> None:
        """Take what is true now: the end of the scale, the mark on it, and what to compare with."""
        self._now_bytes, self._now = headroom.available_bytes, choice
        self._scale = LogScale(LEAST_BYTES, max(headroom.total_bytes, 2 * LEAST_BYTES))
        self.strip.show_scale(self._scale, self._now_bytes)
        self.spin.setMaximum(self._scale.high_bytes // MIB)
        self._show_amount(self._now_bytes if self.wanted is None else self.wanted[1])
        self._start_scan()

    def set_open(self, opened: bool) -> None:
        """Open or close the card; closing it goes back to now."""
        if not opened:
            self.back_to_now()
            self._stop_scan()
        self.content.setVisible(opened)
        if opened:
            self.opened.emit()
        self.toggle.setText(self._translator.text("ui.what_if_close" if opened else "ui.what_if_open"))
        self.toggle.setAccessibleName(self.toggle.text())
        if opened:
            self._start_scan()

    def imagine(self, headroom_bytes: int) -> None:
        """Ask what would run with this headroom."""
        self.wanted = (Profile(self.profile.value), headroom_bytes)
        self._show_amount(headroom_bytes)
        self.strip.show_imagined(headroom_bytes)
        self.marker.show()
        self.back.setEnabled(True)
        self._timer.start()

    def back_to_now(self) -> None:
        """Forget what was imagined; an answer that is still on its way is dropped."""
        self._timer.stop()
        self.wanted = None
        if self._asking is not None:
            self._asking.cancel()
        self.profile.choose(Profile.REALTIME.value)
        self._show_amount(self._now_bytes)
        self.strip.show_imagined(None)
        self.marker.hide()
        self.back.setEnabled(False)
        self.result.clear()
        self._start_scan()

    def showEvent(self, event: QShowEvent) -> None:
        """Go on computing when the page is shown again."""
        super().showEvent(event)
        self._start_scan()

    def hideEvent(self, event: QHideEvent) -> None:
        """Compute nothing that nobody sees."""
        super().hideEvent(event)
        self._stop_scan()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the wheel for the page: over slider and spin box it must not imagine anything by accident."""
        if event.type() is QEvent.Type.Wheel and watched in (self.spin, self.slider):
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    def _ask(self) -> None:
        """Plan for what is wanted. One question at a time; a newer wish waits for it and then replaces it."""
        if self._service is None or self.wanted is None or self._asking is not None:
            return
        service, self._asked = self._service, self.wanted
        profile, headroom_bytes = self.wanted
        self._asking = self._tasks.submit(
            Lane.READ,
            lambda _task: service.plan(profile, headroom_bytes=headroom_bytes),
            self._on_plan,
            self._on_failed,
        )

    def _on_plan(self, plan: Plan) -> None:
        if self._current():
            self.result.show_plan(plan, self._now)

    def _on_failed(self, error: Exception) -> None:
        if self._current():
            self.result.show_failure(*failure(self._translator, error))

    def _current(self) -> bool:
        """Return whether the answer that came is still wanted; if not, ask again for what is."""
        self._asking = None
        # A new language makes a new page; the answer to the old one comes when that is gone.
        if self.wanted is None or not isValid(self):
            return False
        if self.wanted != self._asked:
            self._timer.start()
        return self.wanted == self._asked

    def _start_scan(self) -> None:
        """Compute where the choice changes, once for each profile and each look at the machine."""
        if self._service is None or not self.content.isVisible():
            return
        self._stop_scan()
        profile = Profile(self.profile.value)
        if profile is not self._scanned:
            self.strip.show_spans(())
            self.words.setText(self._translator.text("ui.scan_running"))
        self._scanned = profile
        self._scan = Scan(self._scale)
        self._next_point(self._scan, profile)

    def _stop_scan(self) -> None:
        self._scan = None
        if self._scanning is not None:
            self._scanning.cancel()
            self._scanning = None

    def _next_point(self, scan: Scan, profile: Profile) -> None:
        """Plan for one point at a time, so that other reads and the reader's own question come in between."""
        service, point = self._service, scan.next_bytes()
        if service is None or scan is not self._scan:
            return
        if point is None:
            self._scanning = None
            self.strip.show_spans(scan.spans())
            self.words.setText(" · ".join(span_lines(self._translator, self.strip.spans)))
            return

        def plan(task: Task) -> Plan | None:
            return None if task.cancelled() else service.plan(profile, headroom_bytes=point)

        def done(found: Plan | None) -> None:
            if found is not None and scan is self._scan and isValid(self):
                scan.add(point, _name(found.choice))
                self._next_point(scan, profile)

        self._scanning = self._tasks.submit(Lane.READ, plan, done, lambda error: self._on_scan_failed(scan, error))

    def _on_scan_failed(self, scan: Scan, error: Exception) -> None:
        if scan is self._scan and isValid(self):
            self._scan = self._scanning = None
            self.words.setText(failure(self._translator, error)[0])

    def _show_amount(self, amount_bytes: int) -> None:
        """Set slider and spin box without taking it for the reader's wish."""
        self._setting = True
        self.slider.setValue(round(self._scale.fraction(amount_bytes) * _STEPS))
        self.spin.setValue(round(amount_bytes / MIB))
        self._setting = False
        self.slider.setAccessibleDescription(size(amount_bytes))
        self.readable.setText(size(amount_bytes))

    def _on_slider(self, position: int) -> None:
        if not self._setting:
            ends = {0: self._scale.low_bytes, _STEPS: self._scale.high_bytes}
            rounded = round(self._scale.amount(position / _STEPS) / _STEP_BYTES) * _STEP_BYTES
            self.imagine(ends.get(position, rounded))

    def _on_spin(self, mib: int) -> None:
        if not self._setting:
            self.imagine(mib * MIB)

    def _on_profile(self, _value: str) -> None:
        self.imagine(self._now_bytes if self.wanted is None else self.wanted[1])
        self._start_scan()

    def _build(self) -> None:
        text = self._translator.text
        self.marker = chip(text("ui.imagined"), "warn")
        self.marker.hide()
        self.toggle = make_button(text("ui.what_if_open"), lambda: self.set_open(self.content.isHidden()))
        self.back = make_button(text("ui.back_to_now"), self.back_to_now)
        self.back.setEnabled(False)
        options = [(profile.value, text(f"ui.profile_{profile.value}")) for profile in Profile]
        self.profile = Segments(text("ui.profile"), options, self._on_profile)
        for value, button in self.profile.buttons.items():
            button.setToolTip(text(f"ui.profile_{value}_note"))
        self.spin = self._make_spin()
        self.slider = self._make_slider()
        self.readable = PlainLabel(role="heading")
        self.readable.setMinimumWidth(72)
        self.strip = HeadroomStrip(self._translator)
        self.words = PlainLabel(role="small", wrap=True)
        self.result = ImaginedView(self._translator)
        head = QHBoxLayout()
        head.addWidget(PlainLabel(text("ui.what_if"), "heading"))
        head.addSpacing(GRID // 2)
        head.addWidget(self.marker)
        head.addWidget(PlainLabel(text("ui.what_if_about"), "muted"), 1)
        head.addWidget(self.toggle)
        self.column.addLayout(head)
        controls = QHBoxLayout()
        controls.setSpacing(GRID)
        controls.addWidget(PlainLabel(text("ui.imagined_memory"), "muted"))
        controls.addWidget(self.spin)
        controls.addWidget(self.readable)
        controls.addSpacing(2 * GRID)
        controls.addWidget(PlainLabel(text("ui.profile"), "muted"))
        controls.addWidget(self.profile)
        controls.addStretch(1)
        controls.addWidget(self.back)
        scale = QVBoxLayout()
        scale.setSpacing(0)
        scale.addWidget(self.slider)
        scale.addWidget(self.strip)
        self.content = QWidget()
        column = QVBoxLayout(self.content)
        column.setContentsMargins(0, GRID, 0, 0)
        column.setSpacing(GRID)
        column.addLayout(controls)
        column.addLayout(scale)
        column.addWidget(self.words)
        column.addWidget(self.result)
        self.column.addWidget(self.content)
        self.content.hide()

    def _make_spin(self) -> QSpinBox:
        name = self._translator.text("ui.imagined_memory")
        spin = QSpinBox()
        spin.setRange(LEAST_BYTES // MIB, 2 * LEAST_BYTES // MIB)
        spin.setSingleStep(64)
        spin.setSuffix(" MiB")
        spin.setGroupSeparatorShown(True)
        # A number half typed is no wish.
        spin.setKeyboardTracking(False)
        spin.setAlignment(Qt.AlignmentFlag.AlignRight)
        spin.setAccessibleName(name)
        spin.lineEdit().setAccessibleName(name)
        spin.lineEdit().setTextMargins(0, 0, GRID, 0)
        spin.installEventFilter(self)
        spin.valueChanged.connect(self._on_spin)
        return spin

    def _make_slider(self) -> QSlider:
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, _STEPS)
        slider.setPageStep(_STEPS // 16)
        slider.setAccessibleName(self._translator.text("ui.imagined_memory"))
        slider.installEventFilter(self)
        slider.valueChanged.connect(self._on_slider)
        return slider


def _name(choice: Candidate | None) -> str:
    if choice is None:
        return ""
    return f"{model_name(choice.config.model_id, choice.quantization)} {choice.quantization}"

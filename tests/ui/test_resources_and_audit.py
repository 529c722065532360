"""Resources and audit pages show what the services said, number for number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from muniment_app.bridge.formats import count, size
from muniment_app.services.api import AuditReport
from muniment_app.ui.audit_page import verdict
from muniment_app.ui.dialogs import ExportDialog
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.memory_bar import memory_parts
from muniment_app.ui.resources_limits import device_rows, limit_rows, signal_rows
from muniment_resources.errors import KnownError
from muniment_resources.i18n import LANGUAGES, Translator, catalogue
from muniment_runtime.contracts import Limit, Profile, Signal
from tests.helpers.services import Fake, imagined, plan
from tests.ui.conftest import Opener


def open_resources(qtbot: QtBot, window: MainWindow) -> None:
    window.show_page(1)
    qtbot.waitUntil(lambda: window.resources.snapshot is not None and window.resources.refresh_button.isEnabled())


def open_audit(qtbot: QtBot, window: MainWindow) -> None:
    """Both the start and the change of page read the log anew; wait until the second has come back."""
    window.show_page(2)
    qtbot.waitUntil(lambda: len(window.audit.model.events) >= 100 and not window._tasks.busy())


def test_bar_and_its_table_twin_cover_the_memory_exactly(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    bar = window.resources.bar
    assert sum(part.bytes for part in bar.parts) == plan().headroom.total_bytes
    twin = [int(row.cells[2].replace(",", "")) for row in window.resources.parts.rows]
    assert twin == [part.bytes for part in bar.parts]
    widths = [rect.width() for _, rect in bar.segments()]
    assert widths[0] / sum(widths) == pytest.approx(bar.parts[0].bytes / plan().headroom.total_bytes)


def test_reserve_never_exceeds_what_is_free() -> None:
    short = plan(1600 << 20)
    choice = short.candidates[1]
    parts = {part.key: part.bytes for part in memory_parts(short.headroom, choice.need, short.margin_bytes)}
    assert parts["reserve"] == short.headroom.available_bytes - choice.need.total_bytes
    assert "free" not in parts


def test_limits_name_the_one_that_binds_with_exact_bytes(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    limits = window.resources.limits
    assert [row.cells[3] for row in limits.limits.rows] == ["", "", "binds"]
    assert limits.limits.rows[2].cells[:3] == ("Control group /user.slice/app", "3.2 GiB", count(3277 << 20))
    assert limits.limits.rows[2].tip == "Left under the limit of control group /user.slice/app: 3.2 GiB"
    assert "/user.slice/app sets the bound" in limits.binding.text()
    assert [row.cells for row in limits.signals.rows] == [
        ("Some programs waited for memory (10 s)", "0.4 %"), ("Read back from swap", "3.0 MiB/s"),
    ]  # fmt: skip
    assert limits.signals.rows[0].tip == "Time in which some programs waited for memory (last 10 s): 0.4 %"


def test_signals_devices_and_unknown_limits_are_shown_with_their_unit() -> None:
    room = replace(
        plan().headroom,
        limits=(Limit("never_heard_of:7", 5 << 30),),
        signals=(Signal("new_percent", 0.44), Signal("new_bytes_per_s", 3.0 * 2**20), Signal("odd", 1.5)),
        device_limits=(Limit("never_heard_of_either", 1 << 30),),
    )
    translator = Translator("zh_CN")
    assert [row.cells for row in signal_rows(translator, room)] == [
        ("new_percent", "0.4 %"), ("new_bytes_per_s", "3.0 MiB/秒"), ("odd", "1.5"),
    ]  # fmt: skip
    assert limit_rows(translator, room)[0].cells == ("never_heard_of:7", "5.0 GiB", count(5 << 30), "")
    assert device_rows(translator, room)[0].cells == ("never_heard_of_either", "1.0 GiB", count(1 << 30))


def test_running_model_is_shown_planned_and_measured(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    choice = plan().choice
    assert choice is not None
    assert f"Planned {size(choice.need.total_bytes)}" in window.resources.running.text()
    assert f"Grew the process by {size((389 + 1066) << 20)}" in window.resources.running.text()


def test_without_a_model_headroom_is_still_shown(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_resources(qtbot, window)
    fake.current_plan = KnownError("E-MODEL-NONE")
    fake.loaded = None
    window.resources.refresh()
    qtbot.waitUntil(lambda: window.resources.need.name.text() == "No plan yet")
    assert window.resources.title.text() == "3.2 GiB"
    assert window.resources.need.model.rows == ()
    assert window.resources.candidates.model.rows == ()


def test_nothing_fits_names_what_comes_nearest_and_the_missing_bytes(
    qtbot: QtBot, window: MainWindow, fake: Fake
) -> None:
    fake.current_plan = imagined(Profile.REALTIME, 600 << 20)
    open_resources(qtbot, window)
    need = window.resources.need
    qtbot.waitUntil(lambda: need.name.text().startswith("Nothing fits now. Nearest: smollm2-135m-instruct"))
    missing = plan().candidates[3].need.total_bytes + (512 << 20) - (600 << 20)
    assert size(missing) in need.reason.text()
    assert need.model.rows[-2].cells[1:3] == ("Missing", f"{missing / 2**20:.1f}")
    assert need.model.rows[-2].tone == "bad"


def test_a_refresh_that_finds_the_same_moves_nothing(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    page = window.resources
    page.verticalScrollBar().setValue(120)
    page.candidates.table.selectRow(2)
    resets: list[str] = []
    models = (page.parts, page.limits.limits, page.need.model, page.candidates.model)
    for model in models:
        model.modelReset.connect(lambda: resets.append("reset"))
    height = page.what_if.geometry().bottom()
    before = page.snapshot
    page.refresh()
    qtbot.waitUntil(lambda: page.snapshot is not before)
    assert resets == []
    assert page.verticalScrollBar().value() == 120
    assert page.what_if.geometry().bottom() == height
    assert page.candidates.table.selectionModel().selectedRows()[0].row() == 2


def test_a_snapshot_that_outlives_its_page_is_dropped(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_resources(qtbot, window)
    qtbot.waitUntil(lambda: not window._tasks.busy())
    fake.current_plan = KnownError("E-MODEL-NONE")
    gate, page = fake.hold("headroom"), window.resources
    page.refresh()
    qtbot.waitUntil(fake.entered["headroom"].is_set)
    window.set_language("zh_CN")
    qtbot.waitUntil(lambda: not isValid(page))
    gate.set()
    qtbot.waitUntil(lambda: window.resources.need.name.text() == "暂无方案")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_and_signal_has_a_short_name(language: str) -> None:
    texts = catalogue(language)
    limits = {key.removeprefix("plan.limit.") for key in texts if key.startswith("plan.limit.")}
    signals = {key.removeprefix("plan.signal.") for key in texts if key.startswith("plan.signal.")}
    assert len(limits) > 3
    assert len(signals) > 3
    assert [key for key in limits if f"ui.limit_{key}" not in texts] == []
    assert [key for key in signals if f"ui.signal_{key}" not in texts] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_page_needs_no_horizontal_scrolling_at_1280_by_720(
    qtbot: QtBot, opener: Opener, fake: Fake, language: str
) -> None:
    window = opener(fake, language)
    window.resize(1280, 720)
    open_resources(qtbot, window)
    window.resources.what_if.set_open(True)
    window.resources.what_if.imagine(2 << 30)
    qtbot.waitUntil(lambda: window.resources.what_if.result.plan is not None)
    assert window.resources.horizontalScrollBar().maximum() == 0


def test_events_are_fetched_in_windows(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_audit(qtbot, window)
    fetched = len(window.audit.model.events)
    assert fetched < fake.total
    window.audit.table.scrollToBottom()
    qtbot.waitUntil(lambda: len(window.audit.model.events) > fetched)
    numbers = [event.seq for event in window.audit.model.events]
    assert numbers == list(range(fake.total, fake.total - len(numbers), -1))


def test_details_show_opened_texts(qtbot: QtBot, window: MainWindow) -> None:
    open_audit(qtbot, window)
    row = next(row for row, event in enumerate(window.audit.model.events) if event.opened)
    window.audit.table.selectRow(row)
    assert "What was net revenue in 2025?" in window.audit.details.toPlainText()
    assert window.audit.model.events[row].leaf in window.audit.details.toPlainText()


def test_verify_says_intact_or_names_the_first_bad_event(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    window.show_page(2)
    qtbot.waitUntil(window.audit.verify_button.isEnabled)
    window.audit.verify_button.click()
    qtbot.waitUntil(lambda: window.audit.result.text().startswith("Intact · 1,284 events · 3 checkpoints · checked "))
    fake.report = AuditReport(False, 1284, 3, 812, 0, "changed")
    qtbot.waitUntil(window.audit.verify_button.isEnabled)
    window.audit.verify_button.click()
    bad = "Event 812 does not verify. All events before it are intact. Cause: an event was changed."
    qtbot.waitUntil(lambda: window.audit.result.text() == bad)
    assert window.audit.result.property("tone") == "bad"


def test_verdict_of_the_first_event_and_of_a_broken_tree() -> None:
    first = verdict(Translator("en"), AuditReport(False, 5, 1, 0, 0), "14:05")
    assert first == "Event 0, the very first, does not verify."
    tree = verdict(Translator("en"), AuditReport(False, 5, 1, None, 0, "truncated"), "14:05")
    assert "an old copy was put back" in tree


def test_export_passes_target_and_choice(qtbot: QtBot, window: MainWindow, fake: Fake, tmp_path: Path) -> None:
    window.audit.export(tmp_path / "bundle", "all")
    qtbot.waitUntil(lambda: str(tmp_path / "bundle") in window.audit.result.text())
    assert fake.exports == [(tmp_path / "bundle", "all")]
    window.audit.choose_export()
    dialog = window.audit.findChild(ExportDialog)
    assert isinstance(dialog, ExportDialog)
    assert dialog.without.isChecked(), "texts leave the device only on purpose"
    dialog.reject()

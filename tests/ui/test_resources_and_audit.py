"""Resources and audit pages show what the services said, number for number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from muniment_app.bridge.formats import count, size
from muniment_app.services.api import AuditReport
from muniment_app.ui.audit_page import verdict
from muniment_app.ui.dialogs import ExportDialog
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.memory_bar import memory_parts
from muniment_app.ui.resources_page import equation_rows
from muniment_resources.errors import KnownError
from muniment_resources.i18n import Translator
from tests.helpers.services import Fake, plan


def open_resources(qtbot: QtBot, window: MainWindow) -> None:
    window.show_page(1)
    qtbot.waitUntil(lambda: window.resources.snapshot is not None and window.resources.refresh_button.isEnabled())


def open_audit(qtbot: QtBot, window: MainWindow) -> None:
    """Both the start and the change of page read the log anew; wait until the second has come back."""
    window.show_page(2)
    qtbot.waitUntil(lambda: len(window.audit.model.events) >= 100 and not window._tasks.busy())


def test_equation_adds_up_to_the_plan(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    expected = plan()
    choice = expected.choice
    assert choice is not None
    rows = {row.cells[1]: row.cells for row in window.resources.equation.rows}
    need = choice.need
    assert rows["Weights"][3] == count(need.weights_bytes)
    assert rows["KV cache · 1 × 8,192 tokens · f16"][3] == count(need.kv_bytes)
    assert rows["Need"][3] == count(need.total_bytes)
    assert rows["Margin that stays free"][3] == count(expected.margin_bytes)
    assert rows["Headroom"][0] == "≤"
    assert rows["Headroom"][3] == count(expected.headroom.available_bytes)
    left = expected.headroom.available_bytes - need.total_bytes - expected.margin_bytes
    assert rows["Left over"][3] == count(left)
    lines = [int(row.cells[3].replace(",", "")) for row in window.resources.equation.rows]
    assert sum(lines[:-4]) == need.total_bytes
    assert window.resources.title.text() == size(expected.headroom.available_bytes)


def test_a_plan_that_does_not_fit_shows_what_is_missing() -> None:
    short = plan(1000 << 20)
    rows = equation_rows(Translator("en"), short, short.candidates[1])
    assert rows[-2].cells[0] == ">"
    assert rows[-1].cells[1] == "Missing"
    assert rows[-1].tone == "bad"


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


def test_binding_limit_candidates_and_running_model_are_shown(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_resources(qtbot, window)
    page = window.resources
    assert [row.cells[2] for row in page.limits.rows] == ["", "", "binds"]
    assert page.limits.rows[2].cells[:2] == (
        f"Left under the limit of control group /user.slice/app: {size(3277 << 20)}", count(3277 << 20)
    )  # fmt: skip
    assert "/user.slice/app sets the bound" in page.binding.text()
    verdicts = [row.cells[7] for row in page.candidates.rows]
    assert verdicts == ["rejected", "chosen", "fits", "fits"]
    assert page.candidates.rows[0].cells[5] == "1.1 s ?"
    assert page.candidates.rows[1].cells[5] == "1.1 s"
    choice = plan().choice
    assert choice is not None
    assert f"Planned {size(choice.need.total_bytes)}" in page.running.text()
    assert f"measured {size((389 + 1066) << 20)}" in page.running.text()


def test_without_a_model_headroom_is_still_shown(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_resources(qtbot, window)
    fake.current_plan = KnownError("E-MODEL-NONE")
    fake.loaded = None
    window.resources.refresh()
    qtbot.waitUntil(lambda: window.resources.choice.text() == "No plan yet")
    assert window.resources.title.text() == "3.2 GiB"
    assert window.resources.equation.rows == ()


def test_nothing_fits_names_the_missing_bytes(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    fake.current_plan = replace(plan(100 << 20), chosen=None, unblock_bytes=187 << 20)
    open_resources(qtbot, window)
    qtbot.waitUntil(lambda: window.resources.choice.text() == "Nothing fits now")
    assert "187 MiB" in window.resources.why.text()


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

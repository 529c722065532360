"""Need by every source, and the candidates it is shown for: figure for figure against known plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from muniment_app.bridge.formats import count
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.resources_candidates import groups_of
from muniment_app.ui.resources_need import figures_of, is_running, need_rows, notes
from muniment_app.ui.resources_texts import difference, model_name, need_text
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import KvType, LoadedModel, Need, NeedBasis, Pins, Plan
from tests.helpers.services import MIB, Fake, imagined, plan

EN = Translator("en")
LOADED = LoadedModel(
    "qwen2.5-coder-1.5b-instruct", 8192, 1, 151_936, 1.4, 389 * MIB, 1066 * MIB,
    Need(1066 * MIB, 224 * MIB, 0, 96 * MIB, 2 * MIB, 0, 0, NeedBasis.MEASURED),
)  # fmt: skip


def table(shown: Plan, index: int, loaded: LoadedModel | None, exact: bool = False) -> dict[str, tuple[str, ...]]:
    candidate = shown.candidates[index]
    rows = need_rows(EN, shown, candidate, figures_of(candidate, shown, loaded), exact)
    return {row.cells[1]: (row.cells[0], *row.cells[2:]) for row in rows}


def open_resources(qtbot: QtBot, window: MainWindow) -> None:
    window.show_page(1)
    qtbot.waitUntil(lambda: window.resources.snapshot is not None and window.resources.refresh_button.isEnabled())


def test_estimate_dry_run_and_measurement_stand_beside_each_other() -> None:
    assert table(plan(), 1, LOADED) == {
        "Weights": ("", "1,065.0", "1,065.0", "1,066.0", "+1.00"),
        "KV cache · 1 × 8,192 tokens · f16": ("+", "224.0", "224.0", "224.0", "0.00"),
        "Temporary · compute": ("+", "93.0", "96.0", "96.0", "0.00"),
        "Temporary · output": ("+", "2.0", "2.0", "2.0", "0.00"),
        "Buffers": ("=", "1,384.0", "1,387.0", "1,388.0", "+1.00"),
        "Process base": ("+", "38.0", "38.0", "–", "–"),
        "Learned correction": ("+", "11.0", "11.0", "–", "–"),
        "Need": ("=", "1,433.0", "1,436.0", "–", "–"),
        "Margin that stays free": ("+", "512.0", "512.0", "–", "–"),
        "Headroom": ("≤", "3,277.0", "3,277.0", "–", "–"),
        "Left over": ("", "1,332.0", "1,329.0", "–", "–"),
        "The load grew the process by": ("", "–", "–", "1,455.0", "–"),
    }
    assert notes(EN, plan(), plan().candidates[1], LOADED).splitlines()[1:3] == [
        "Measured lines are the buffers as the engine reported them for the load that runs now.",
        "By that load the process grew by 1.4 GiB (389 MiB private, 1.0 GiB file-backed), as the system measured. "
        "The process itself is not in it, nor temporary memory before the first full prompt.",
    ]


def test_exact_bytes_add_up_in_every_column() -> None:
    shown = plan()
    rows = table(shown, 1, LOADED, exact=True)
    cells = {label: [int(cell.replace(",", "")) for cell in row[1:4] if cell != "–"] for label, row in rows.items()}
    weights, kv, compute, output = list(cells.values())[:4]
    for column in (0, 1, 2):
        lines = sum(line[column] for line in (weights, kv, compute, output))
        assert lines == cells["Buffers"][column]
    for column in (0, 1):
        rest = cells["Process base"][column] + cells["Learned correction"][column]
        assert cells["Buffers"][column] + rest == cells["Need"][column]
        spent = cells["Need"][column] + cells["Margin that stays free"][column] + cells["Left over"][column]
        assert spent == cells["Headroom"][column]
    assert cells["Need"][1] == shown.candidates[1].need.total_bytes


def test_before_a_load_the_difference_is_dry_run_against_estimate() -> None:
    rows = table(plan(), 1, None)
    assert rows["Temporary · compute"][1:] == ("93.0", "96.0", "–", "+3.00")
    assert rows["Need"][3:] == ("–", "+3.00")
    assert rows["The load grew the process by"] == ("", "–", "–", "–", "–")
    assert notes(EN, plan(), plan().candidates[1], None).splitlines() == [
        "The plan stands on the dry run: the engine itself worked these sizes out without loading anything.",
        "Nothing is measured: no model is loaded.",
        "Learned correction: earlier loads on this device took 11 MiB more than computed.",
        "Difference: dry run against estimate.",
    ]


def test_a_difference_too_small_for_the_unit_carries_no_sign() -> None:
    assert [difference(value, exact=False) for value in (1802, -1802, 12_000, -12_000, None)] == [
        "0.00", "0.00", "+0.01", "−0.01", "–"
    ]  # fmt: skip
    assert difference(-1802, exact=True) == "−1,802"


def test_an_estimate_alone_says_that_it_is_one() -> None:
    rows = table(plan(), 2, LOADED)
    assert rows["Need"] == ("=", "808.0", "–", "–", "–")
    told = notes(EN, plan(), plan().candidates[2], LOADED)
    assert told.startswith("The need is an estimate")
    assert "qwen2.5-coder-1.5b-instruct with 8,192 tokens × 1 is loaded" in told
    assert need_text(plan().candidates[2]) == "≈ 808 MiB"
    assert need_text(plan().candidates[1]) == "1.4 GiB"


def test_a_model_that_no_formula_covers_has_no_estimate() -> None:
    base = plan()
    candidate = base.candidates[1]._replace(formula=None)
    shown = replace(base, candidates=(base.candidates[0], candidate, *base.candidates[2:]))
    assert table(shown, 1, None)["Need"] == ("=", "–", "1,436.0", "–", "–")
    assert "no formula covers this model" in notes(EN, shown, candidate, None)


def test_a_need_that_nobody_knows_is_no_zero() -> None:
    base = plan()
    unknown = base.candidates[0]._replace(need=Need(0, 0, 0, 0, 0, 0, 0), reason="not_probed")
    shown = replace(base, candidates=(unknown, *base.candidates[1:]))
    rows = table(shown, 0, None)
    assert rows["Need"] == ("=", "–", "–", "–", "–")
    assert rows["Left over"] == ("", "–", "–", "–", "–")
    assert notes(EN, shown, unknown, None).startswith("Nobody knows the need")
    assert need_text(unknown) == "–"


@pytest.mark.parametrize(
    "loaded",
    [
        replace(LOADED, model_id="another"),
        replace(LOADED, context=4096),
        replace(LOADED, sequences=2),
    ],
    ids=["model", "context", "sequences"],
)
def test_a_load_of_another_setting_measures_nothing_here(loaded: LoadedModel) -> None:
    assert not is_running(plan().candidates[1], plan(), loaded)
    assert table(plan(), 1, loaded)["Buffers"][3] == "–"


def test_the_size_of_the_cache_tells_which_of_two_settings_runs() -> None:
    base = plan()
    plain = base.candidates[1]
    small = plain.need._replace(kv_bytes=119 * MIB)
    packed = plain._replace(config=plain.config._replace(kv_type=KvType.Q8_0), need=small)
    shown = replace(base, candidates=(*base.candidates, packed))
    assert is_running(plain, shown, LOADED)
    assert not is_running(packed, shown, LOADED)


def test_what_only_one_of_engine_and_system_told_is_shown_alone() -> None:
    silent = replace(LOADED, anonymous_bytes=0, file_bytes=0)
    assert table(plan(), 1, silent)["Buffers"][3:] == ("1,388.0", "+1.00")
    assert table(plan(), 1, silent)["The load grew the process by"][3] == "–"
    untold = replace(LOADED, reported=None)
    assert table(plan(), 1, untold)["Buffers"][3:] == ("–", "–")
    assert table(plan(), 1, untold)["The load grew the process by"][3] == "1,455.0"
    nothing = replace(silent, reported=None)
    assert "neither the engine nor the system" in notes(EN, plan(), plan().candidates[1], nothing)


def test_a_setting_that_a_question_needed_is_shown_and_measured(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    base = plan()
    short = base.candidates[1]._replace(config=base.candidates[1].config._replace(context=1024), reason="chosen")
    fake.held = replace(base, candidates=(short,), chosen=0, ladder=())
    assert fake.loaded is not None
    fake.loaded = replace(fake.loaded, context=1024)
    open_resources(qtbot, window)
    page, before = window.resources, window.resources.snapshot
    page.refresh()
    qtbot.waitUntil(lambda: page.snapshot is not before)
    row = page.candidates.model.rows[1]
    assert (row.cells[2], row.cells[8]) == ("1,024", "runs now")
    assert row.cells[9] == "Runs now, in a setting that a question needed."
    assert page.need.basis.text() == "dry run"
    page.candidates.table.selectRow(1)
    assert page.need.basis.text() == "measured"
    assert page.need.model.rows[0].cells[4] == "1,066.0"
    assert f"Planned {need_text(short)}" in page.running.text()


def test_what_loads_have_taught_is_shown(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    assert [row.cells for row in window.resources.learned.rows] == [
        ("qwen2 · llama_cpp · linux", "5", "+3.00", "+11.00")
    ]


def test_an_insisted_choice_shows_what_is_missing_and_is_marked(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    short = plan(1600 * MIB)
    insisted = short.candidates[1]._replace(fits=False, reason="overridden")
    candidates = (short.candidates[0], insisted, *short.candidates[2:])
    fake.current_plan = replace(short, candidates=candidates, pins=Pins(context=8192, override=True), ladder=())
    open_resources(qtbot, window)
    page = window.resources
    qtbot.waitUntil(page.need.override.isVisible)
    assert page.candidates.model.rows[0].cells[8] == "you insisted"
    assert page.need.model.rows[-3].cells[0] == ">"
    assert page.need.model.rows[-2].cells[1:4] == ("Missing", "345.0", "348.0")


def test_candidates_come_choice_first_then_ladder_then_what_lacks_least() -> None:
    shown = imagined(plan().profile, 1100 * MIB)
    names = [item.config.model_id for item, _ in groups_of(shown)]
    assert names == [
        "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct",
        "qwen2.5-coder-7b-instruct",
    ]  # fmt: skip
    fitting = replace(plan(), ladder=(3,))
    assert [item.config.model_id for item, _ in groups_of(fitting)][:3] == [
        "qwen2.5-coder-1.5b-instruct", "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct",
    ]  # fmt: skip


def test_hundreds_of_settings_that_differ_in_steps_become_few_rows() -> None:
    base = plan()
    many = tuple(
        item._replace(config=item.config._replace(ubatch=ubatch, context=context))
        for item in base.candidates
        for context in (2048, 4096, 8192, 16384, 32768)
        for ubatch in range(64, 640, 64)
    )
    groups = groups_of(replace(base, candidates=many, chosen=100, ladder=(101, 150)))
    assert len(groups) == 20
    assert sum(1 + alike for _, alike in groups) == len(many) == 180
    assert groups[0][0] is many[100]
    assert groups[1][0] is many[150]


def test_rows_say_need_verdict_and_reason(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    rows = window.resources.candidates.model.rows
    assert [row.cells[8] for row in rows] == ["chosen", "fits, step 1", "fits, step 2", "rejected"]
    assert [row.cells[5] for row in rows] == ["1.4 GiB", "≈ 808 MiB", "≈ 287 MiB", "≈ 5.4 GiB"]
    assert [row.cells[6] for row in rows] == ["1.1 s", "1.1 s", "1.1 s", "1.1 s ?"]
    assert rows[3].cells[9] == "Does not fit: 5.4 GiB more must be free."
    assert window.resources.candidates.summary.text() == "4 settings, 3 fit"


def test_selecting_a_row_by_key_or_mouse_shows_its_need(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    page = window.resources
    view = page.candidates.table
    assert page.need.name.text().startswith("qwen2.5-coder-1.5b-instruct")
    assert not page.need.back.isVisible()
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert page.need.name.text().startswith("qwen2.5-coder-0.5b-instruct")
    assert page.need.model.rows[0].cells[2] == "469.0"
    assert page.need.basis.text() == "estimate only"
    cell = view.visualRect(page.candidates.model.index(3, 0)).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=cell)
    assert page.need.name.text().startswith("qwen2.5-coder-7b-instruct")
    assert page.need.reason.text() == "Does not fit: 5.4 GiB more must be free."
    assert "rejected" in page.candidates.detail.text()
    page.need.back.click()
    assert page.need.name.text().startswith("qwen2.5-coder-1.5b-instruct")
    assert page.need.basis.text() == "measured"


def test_the_switch_shows_exact_bytes(qtbot: QtBot, window: MainWindow) -> None:
    open_resources(qtbot, window)
    need = window.resources.need
    assert need.notes.text().startswith("Figures in MiB.")
    need.exact.click()
    assert need.model.rows[0].cells[2:] == (count(1065 * MIB), count(1065 * MIB), count(1066 * MIB), f"+{count(MIB)}")
    assert need.notes.text().startswith("Figures in bytes.")


def test_a_followed_choice_stays_followed_when_it_changes(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    open_resources(qtbot, window)
    page, before = window.resources, window.resources.snapshot
    fake.current_plan = imagined(plan().profile, 1100 * MIB)
    page.refresh()
    qtbot.waitUntil(lambda: page.snapshot is not before)
    assert page.need.name.text().startswith("smollm2-135m-instruct")


def test_a_models_name_is_shown_without_the_quantization_beside_it() -> None:
    assert model_name("qwen2.5-coder-0.5b-instruct-q4_k_m", "Q4_K_M") == "qwen2.5-coder-0.5b-instruct"
    assert model_name("tiny.Q8_0", "Q8_0") == "tiny"
    assert model_name("q4_k_m", "Q4_K_M") == "q4_k_m"
    assert model_name("model", "") == "model"

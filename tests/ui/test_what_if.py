"""The what-if card asks for exactly what is imagined, shows only the last wish, and never touches the live figures."""

from __future__ import annotations

import itertools

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from muniment_app.ui.headroom_strip import span_lines
from muniment_app.ui.main_window import MainWindow
from muniment_app.ui.resources_imagined import balance_rows, change, ladder_rows
from muniment_app.ui.resources_whatif import WhatIfCard
from muniment_resources.errors import KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import KvType, Plan, Profile
from tests.helpers.services import MIB, Fake, imagined, plan

EN = Translator("en")


@pytest.fixture
def card(qtbot: QtBot, window: MainWindow) -> WhatIfCard:
    """The card, opened, with the strip computed."""
    window.show_page(1)
    page = window.resources
    qtbot.waitUntil(lambda: page.snapshot is not None and page.refresh_button.isEnabled())
    page.what_if.toggle.click()
    qtbot.waitUntil(lambda: bool(page.what_if.strip.spans))
    return page.what_if


def live_texts(window: MainWindow) -> list[object]:
    page = window.resources
    return [
        page.title.text(), page.need.name.text(), page.need.model.rows, page.candidates.model.rows,
        page.limits.limits.rows, page.parts.rows, page.bar.parts,
    ]  # fmt: skip


def shown(card: WhatIfCard) -> Plan:
    assert card.result.plan is not None
    return card.result.plan


def test_nothing_is_planned_before_the_card_is_opened(qtbot: QtBot, window: MainWindow, fake: Fake) -> None:
    window.show_page(1)
    qtbot.waitUntil(lambda: window.resources.snapshot is not None and not window._tasks.busy())
    assert fake.planned == []
    assert not window.resources.what_if.content.isVisible()


def test_an_amount_is_asked_for_and_its_plan_shown(
    qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard
) -> None:
    live = live_texts(window)
    fake.planned.clear()
    card.spin.setValue(1100)
    qtbot.waitUntil(lambda: card.result.plan is not None)
    assert (Profile.REALTIME, 1100 * MIB) in fake.planned
    assert card.result.choice.text().startswith("smollm2-135m-instruct")
    assert "Imagined, not now: a device with 1.1 GiB" in card.result.banner.text()
    assert card.marker.isVisible()
    assert card.readable.text() == "1.1 GiB"
    assert live_texts(window) == live


def test_slider_and_profile_ask_too(qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard) -> None:
    card.slider.setFocus()
    QTest.keyClick(card.slider, Qt.Key.Key_Home)
    qtbot.waitUntil(lambda: card.result.plan is not None)
    assert shown(card).headroom.available_bytes == 256 * MIB
    assert card.spin.value() == 256
    assert card.result.choice.text() == "Nothing would fit"
    QTest.keyClick(card.slider, Qt.Key.Key_End)
    qtbot.waitUntil(lambda: shown(card).headroom.available_bytes == 16384 * MIB)
    card.profile.buttons["batch"].click()
    qtbot.waitUntil(lambda: shown(card).profile is Profile.BATCH)
    assert shown(card).headroom.available_bytes == 16384 * MIB
    assert fake.planned.count((Profile.BATCH, 16384 * MIB)) >= 1


def test_only_the_last_of_several_wishes_is_shown(
    qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard
) -> None:
    qtbot.waitUntil(lambda: not window._tasks.busy())
    names: list[str] = []
    card.result.balance.modelReset.connect(lambda: names.append(card.result.choice.text()))
    gate = fake.hold("imagine")
    card.imagine(7000 * MIB)
    qtbot.waitUntil(fake.entered["imagine"].is_set)
    card.imagine(1500 * MIB)
    card.imagine(1100 * MIB)
    gate.set()
    qtbot.waitUntil(lambda: card.result.plan is not None and not window._tasks.busy())
    assert shown(card).headroom.available_bytes == 1100 * MIB
    assert [name.split(" ")[0] for name in names] == ["smollm2-135m-instruct"]


def test_back_to_now_drops_an_answer_on_its_way(qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard) -> None:
    live = live_texts(window)
    qtbot.waitUntil(lambda: not window._tasks.busy())
    gate = fake.hold("imagine")
    card.imagine(1100 * MIB)
    qtbot.waitUntil(fake.entered["imagine"].is_set)
    card.back.click()
    gate.set()
    qtbot.waitUntil(lambda: not window._tasks.busy())
    assert card.result.plan is None
    assert not card.marker.isVisible()
    assert not card.back.isEnabled()
    assert card.spin.value() == 3277
    assert live_texts(window) == live


def test_a_live_refresh_keeps_what_is_imagined_and_the_other_way_round(
    qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard
) -> None:
    card.imagine(1100 * MIB)
    qtbot.waitUntil(lambda: card.result.plan is not None)
    before = window.resources.snapshot
    window.resources.refresh()
    qtbot.waitUntil(lambda: window.resources.snapshot is not before)
    assert card.spin.value() == 1100
    assert shown(card).headroom.available_bytes == 1100 * MIB
    assert window.resources.need.name.text().startswith("qwen2.5-coder-1.5b-instruct")


def test_strip_and_its_words_tell_where_the_choice_changes(card: WhatIfCard) -> None:
    lines = span_lines(EN, card.strip.spans)
    assert [line.split(": ")[1] for line in lines] == [
        "nothing fits", "smollm2-135m-instruct Q4_1", "qwen2.5-coder-0.5b-instruct Q4_K_M",
        "qwen2.5-coder-1.5b-instruct Q4_K_M", "qwen2.5-coder-7b-instruct Q4_K_M",
    ]  # fmt: skip
    assert card.strip.accessibleDescription() == "; ".join(lines)
    assert card.words.text() == " · ".join(lines)
    needs = [item.need.total_bytes + 512 * MIB for item in reversed(plan().candidates)]
    for span, true_bytes in zip(card.strip.spans[1:], sorted(needs), strict=True):
        assert true_bytes <= span.low_bytes <= true_bytes * 1.04
    rects = [rect for _, rect in card.strip.segments()]
    assert all(left.right() == pytest.approx(right.left()) for left, right in itertools.pairwise(rects))


def test_the_strip_stops_when_the_page_is_left(qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard) -> None:
    qtbot.waitUntil(lambda: not window._tasks.busy())
    fake.planned.clear()
    gate = fake.hold("imagine")
    card.profile.buttons["batch"].click()
    qtbot.waitUntil(fake.entered["imagine"].is_set)
    window.show_page(0)
    gate.set()
    qtbot.waitUntil(lambda: not window._tasks.busy())
    assert len(fake.planned) <= 2
    window.show_page(1)
    qtbot.waitUntil(lambda: len(fake.planned) > 17 and bool(card.strip.spans))


def test_an_answer_that_outlives_its_window_is_dropped(
    qtbot: QtBot, window: MainWindow, fake: Fake, card: WhatIfCard
) -> None:
    qtbot.waitUntil(lambda: not window._tasks.busy())
    gate = fake.hold("imagine")
    card.imagine(1100 * MIB)
    qtbot.waitUntil(fake.entered["imagine"].is_set)
    window.set_language("zh_CN")
    qtbot.waitUntil(lambda: not isValid(card))
    gate.set()
    qtbot.waitUntil(lambda: not window._tasks.busy())
    assert window.resources.what_if is not card
    assert window.resources.what_if.result.plan is None


def test_without_a_model_the_card_says_so(qtbot: QtBot, fake: Fake, card: WhatIfCard) -> None:
    fake.current_plan = KnownError("E-MODEL-NONE")
    card.imagine(2048 * MIB)
    qtbot.waitUntil(lambda: "(E-MODEL-NONE)" in card.result.banner.text())
    assert card.result.balance.rows == ()


def test_closing_goes_back_to_now(qtbot: QtBot, card: WhatIfCard) -> None:
    card.imagine(1100 * MIB)
    qtbot.waitUntil(lambda: card.result.plan is not None)
    card.toggle.click()
    assert not card.content.isVisible()
    assert card.wanted is None
    assert card.result.plan is None


def test_the_wheel_imagines_nothing(card: WhatIfCard) -> None:
    targets: tuple[QWidget, ...] = (card.slider, card.spin)
    for widget in targets:
        widget.setFocus()
        at = QPointF(widget.rect().center())
        wheel = QWheelEvent(
            at, widget.mapToGlobal(at), QPoint(0, 0), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(widget, wheel)
    assert card.wanted is None


def test_the_imagined_equation_adds_up() -> None:
    rows = balance_rows(EN, imagined(Profile.REALTIME, 2600 * MIB))
    need, margin, room, left = [int(row.cells[3].replace(",", "")) for row in rows]
    assert need + margin + left == room == 2600 * MIB
    assert rows[0].cells[1] == "Need (dry run)"
    assert balance_rows(EN, imagined(Profile.REALTIME, 2000 * MIB))[0].cells[1] == "Need (dry run)"
    short = balance_rows(EN, imagined(Profile.REALTIME, 600 * MIB))
    assert [row.cells[1] for row in short][0::3] == ["Need (estimate)", "Missing"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_steps_down_say_what_changes_and_what_it_frees(language: str) -> None:
    rows = ladder_rows(Translator(language), imagined(Profile.REALTIME, 2600 * MIB))
    assert [row.cells[0] for row in rows] == ["1", "2"]
    assert [row.cells[2:] for row in rows] == [("≈ 808 MiB", "628 MiB"), ("≈ 287 MiB", "521 MiB")]
    item = plan().candidates[1]
    smaller = item._replace(config=item.config._replace(ubatch=128, kv_type=KvType.Q8_0))
    words = {
        "en": "prefill chunk 512 → 128 · cache type f16 → q8_0",
        "zh_CN": "预填充块 512 → 128 · 缓存类型 f16 → q8_0",
    }
    assert change(Translator(language), item, smaller) == words[language]

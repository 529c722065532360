"""A question from search to checked answer over real documents, workers and log; only the words are scripted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from muniment_app.services.api import Answer, AnswerStatus, AskEvent, AskPhase, AskRequest, Services
from muniment_resources.errors import KnownError
from muniment_resources.samples import sample_paths
from muniment_retrieval.model import Support
from muniment_runtime.contracts import Limit, Pins
from muniment_runtime.headroom.chain import build, what_if
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.planner.serialize import replay
from tests.helpers.real_services import MODEL_ID, real_services, reply

ROOT = Path(__file__).parents[2]
QUESTION = "Until when does the revolving credit facility run?"
LINE = (
    "The revolving credit facility of £75.0 million, which runs until March 2029, was not drawn at the end of the year."
)
REPORT, CONTRACT, _LEDGER = sample_paths()
Open = Callable[..., Services]


def _index(services: Services, *paths: Path) -> None:
    services.index.index(list(paths), lambda _progress: None, lambda _name, _wrong: None, lambda: False)


def _ask(services: Services, question: str = QUESTION, **options: object) -> Answer:
    request = AskRequest(question, **options)  # type: ignore[arg-type]  # options are checked by the dataclass's users
    return services.ask.ask(request, lambda _event: None, lambda: False)


def _types(services: Services) -> list[str]:
    return [event.type for event in services.audit.events(0, 1000, newest_first=False)]


def _inference_children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.is_running() and "inference-fake" in child.cmdline()
    ]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    made: list[Services] = []

    def open_(rules: dict[str, str] | None = None, **options: object) -> Services:
        services = real_services(tmp_path, rules, **options)  # type: ignore[arg-type]  # passed through
        made.append(services)
        return services

    yield open_
    for services in made:
        services.close()


def test_answer_cites_the_page_and_marks_the_line(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")})
    _index(services, REPORT)
    answer = _ask(services)
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.answer == "March 2029"
    (citation,) = answer.citations
    assert (citation.document, citation.page, citation.support) == (REPORT.name, 5, Support.EXACT)
    assert "March 2029" in citation.quote
    # The box lies on the page, and it is the line's own: the stored line under it holds the words.
    x0, y0, x1, y1 = citation.boxes[0]
    assert 0 < x0 < x1 < 600
    assert 0 < y0 < y1 < 850
    assert answer.sentences[0].citations == (1,)
    assert answer.plan is not None
    assert answer.plan.model == MODEL_ID
    assert answer.usage.completion_tokens > 0
    assert answer.timings.total_s >= answer.timings.ttft_s > 0
    assert services.audit.verify().ok


def test_chinese_question_over_the_chinese_contract(opened: Open) -> None:
    question = "质量保证期为多少个月？"
    services = opened({question: reply("质量保证期为36个月，自最终验收合格之日起计算。", "36个月")})
    _index(services, CONTRACT)
    answer = _ask(services, question)
    assert answer.status is AnswerStatus.ANSWERED
    assert (answer.citations[0].document, answer.citations[0].page) == (CONTRACT.name, 4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINE, "March 2031"),
        ("The facility runs until the year 2040 and is fully drawn.", "2040"),
        ("", ""),
        (LINE, "the revolving credit facility"),
    ],
)
def test_what_no_line_proves_is_not_found(opened: Open, line: str, said: str) -> None:
    services = opened({QUESTION: reply(line, said)})
    _index(services, REPORT)
    answer = _ask(services)
    assert answer.status is AnswerStatus.NOT_FOUND
    assert answer.reason == "E-ANSWER-UNSUPPORTED"
    assert answer.answer == ""
    assert len(answer.nearest) == 3
    assert _types(services)[-1] == "answer.not_found"


def test_another_year_than_the_documents_is_not_found(opened: Open) -> None:
    services = opened({"2019": reply(LINE, "March 2029")})
    _index(services, REPORT)
    assert _ask(services, "Until when did the revolving credit facility run in 2019?").status is AnswerStatus.NOT_FOUND


def test_nothing_relevant_calls_no_model(opened: Open) -> None:
    services = opened({})
    _index(services, REPORT)
    answer = _ask(services, "zebra xylophone quasar")
    assert (answer.status, answer.reason) == (AnswerStatus.NOT_FOUND, "E-ANSWER-NOTHING-FOUND")
    assert _inference_children() == []
    assert "worker.started" not in _types(services)


def test_no_documents_is_said(opened: Open) -> None:
    assert _ask(opened({})).reason == "E-ANSWER-NO-DOCUMENTS"


def test_no_model_is_a_known_error_and_recorded(opened: Open) -> None:
    services = opened({}, with_model=False)
    _index(services, REPORT)
    with pytest.raises(KnownError) as caught:
        _ask(services)
    assert caught.value.code == "E-MODEL-NONE"
    assert _types(services)[-1] == "answer.failed"
    assert services.library.search(QUESTION)


def test_nothing_fits_is_refused_with_what_is_missing(opened: Open) -> None:
    services = opened({}, probe=FixedProbe(what_if(64 * 2**20)))
    _index(services, REPORT)
    answer = _ask(services)
    assert (answer.status, answer.reason) == (AnswerStatus.REFUSED, "E-PLAN-NOTHING-FITS")
    assert int(answer.reason_params["missing_mib"]) > 0
    assert _types(services)[-1] == "answer.refused"
    assert _inference_children() == []


def test_pin_that_no_model_meets_is_refused_without_talk_of_memory(opened: Open) -> None:
    services = opened({})
    _index(services, REPORT)
    answer = _ask(services, pins=Pins(context=1 << 18))
    assert (answer.status, answer.reason) == (AnswerStatus.REFUSED, "E-PLAN-UNUSABLE")


def test_a_pin_that_does_not_fit_runs_only_when_the_user_insists_and_that_is_recorded(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")}, probe=FixedProbe(what_if(400 << 20)))
    _index(services, REPORT)
    pins = Pins(model_id=MODEL_ID)
    assert _ask(services, pins=pins).status is AnswerStatus.REFUSED
    answer = _ask(services, pins=replace(pins, override=True))
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.plan is not None
    assert answer.plan.reason == "overridden"
    decisions = [event for event in services.audit.events(0, 100) if event.type == "runtime.decision"]
    assert [event.fields["pins"] for event in decisions] == [
        {"model": MODEL_ID, "override": 1},
        {"model": MODEL_ID},
    ]
    assert [replay(event.fields).chosen for event in decisions] == [decisions[0].fields["chosen"], None]


def test_inside_a_limited_container_questions_are_answered_and_no_path_is_recorded(opened: Open) -> None:
    limits = [Limit("memory_available", 9 << 30), Limit("cgroup:/docker/4f2a", 4 << 30)]
    services = opened({QUESTION: reply(LINE, "March 2029")}, probe=FixedProbe(build(limits, 8 << 30, [])))
    _index(services, REPORT)
    assert _ask(services).status is AnswerStatus.ANSWERED
    (decision,) = [event for event in services.audit.events(0, 100) if event.type == "runtime.decision"]
    assert "docker" not in json.dumps(dict(decision.fields))
    assert replay(decision.fields).chosen == decision.fields["chosen"]


def test_two_running_instances_never_count_the_same_memory(opened: Open, tmp_path: Path) -> None:
    """The second sees what the first has reserved, and gets it when the first is killed."""
    free, shared = 600 << 20, tmp_path / "common"
    command = [sys.executable, "-m", "tests.helpers.holding_child", str(tmp_path / "other"), str(shared), str(free)]
    (tmp_path / "other").mkdir()
    with subprocess.Popen(
        [*command, QUESTION], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        # What the other has taken is gone from the measurement; what it will still need is not.
        services = opened({QUESTION: reply(LINE, "March 2029")}, probe=FixedProbe(what_if(free - taken)), shared=shared)
        _index(services, REPORT)
        assert _ask(services).status is AnswerStatus.REFUSED
        assert services.plan.headroom().binding == "reserved:1"
        other.kill()
        other.wait(10)
        assert services.plan.headroom().available_bytes == free - taken
        assert _ask(services).status is AnswerStatus.ANSWERED


def test_memory_of_a_graphics_device_is_told_once_a_worker_reports_it(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")}, device_bytes=4 << 30)
    _index(services, REPORT)
    assert services.plan.headroom().device_limits == ()
    _ask(services)
    headroom = services.plan.headroom()
    assert headroom.device_limits == (Limit("device:scripted", 3 << 30),)
    # A device is beside the chain of limits, never part of it.
    assert all(not limit.name.startswith("device") for limit in headroom.limits)


def test_pinned_model_that_is_not_there_is_a_known_error(opened: Open) -> None:
    services = opened({})
    _index(services, REPORT)
    with pytest.raises(KnownError) as caught:
        _ask(services, pins=Pins(model_id="no-such-model"))
    assert caught.value.code == "E-PLAN-MODEL"


@pytest.mark.parametrize(
    ("question", "code"), [("", "E-ASK-EMPTY"), ("  \n", "E-ASK-EMPTY"), ("x" * 20_000, "E-ASK-LONG")]
)
def test_questions_without_sense_are_refused(opened: Open, question: str, code: str) -> None:
    with pytest.raises(KnownError) as caught:
        _ask(opened({}), question)
    assert caught.value.code == code


def test_records_come_before_effects(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")})
    _index(services, REPORT)
    seen: dict[AskPhase, list[str]] = {}

    def watch(event: AskEvent) -> None:
        seen.setdefault(event.phase, _types(services))

    answer = services.ask.ask(AskRequest(QUESTION), watch, lambda: False)
    assert seen[AskPhase.SEARCHING][-1] == "question.asked"
    assert seen[AskPhase.LOADING][-1] == "runtime.decision"
    assert seen[AskPhase.WRITING][-1] == "answer.started"
    (last,) = services.audit.events(0, 1)
    assert (last.type, last.seq) == ("answer.completed", answer.audit.seq)


def test_cancel_is_recorded_and_the_next_question_is_answered(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")}, token_delay_s=0.05)
    _index(services, REPORT)
    words: list[str] = []

    def on_event(event: AskEvent) -> None:
        words.append(event.untrusted_text)

    with pytest.raises(KnownError) as caught:
        services.ask.ask(AskRequest(QUESTION), on_event, lambda: any(words))
    assert caught.value.code == "E-ASK-CANCELLED"
    assert _types(services)[-1] == "answer.cancelled"
    assert _ask(services).status is AnswerStatus.ANSWERED


def test_killed_model_process_is_a_state_and_the_next_question_is_answered(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")}, token_delay_s=0.02)
    _index(services, REPORT)
    killed: list[int] = []

    def kill_once(event: AskEvent) -> None:
        if event.untrusted_text and not killed:
            (child,) = _inference_children()
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(KnownError) as caught:
        services.ask.ask(AskRequest(QUESTION), kill_once, lambda: False)
    assert caught.value.code == "E-WORKER-DIED"
    assert _types(services)[-2:] == ["worker.exited", "answer.failed"]
    assert services.plan.running() is None
    assert _ask(services).status is AnswerStatus.ANSWERED


def test_model_is_loaded_once_for_two_questions(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")})
    _index(services, REPORT)
    first, second = _ask(services), _ask(services)
    assert first.timings.load_s > 0
    assert second.timings.load_s == 0
    assert _types(services).count("model.loaded") == 1
    running = services.plan.running()
    assert running is not None
    assert running.model_id == MODEL_ID


def test_question_and_answer_stand_in_no_event_but_open(opened: Open) -> None:
    services = opened({QUESTION: reply(LINE, "March 2029")})
    _index(services, REPORT)
    _ask(services)
    events = services.audit.events(0, 1000)
    clear = " ".join(str(event.fields) for event in events)
    assert "credit" not in clear
    assert "March" not in clear
    assert REPORT.stem not in clear
    opened_texts = {text for event in events for text in event.opened.values()}
    assert {QUESTION, "March 2029", REPORT.name} <= opened_texts


def test_documents_of_another_workspace_are_not_seen(opened: Open) -> None:
    first = opened({}, workspace="one")
    _index(first, REPORT)
    second = opened({}, workspace="two")
    assert second.library.documents() == []
    assert _ask(second).reason == "E-ANSWER-NO-DOCUMENTS"

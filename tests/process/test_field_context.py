"""A prompt larger than the context, as it goes wrong elsewhere: what does not fit is left out, by rank, and said.

Other programs cut the beginning of the prompt, or its middle, or run with a smaller context than they show; the answer
then comes from what was left, and nobody is told.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_app.services.api import Answer, AnswerStatus, AskRequest, AuditEvent, Services
from muniment_app.services.prompting import MAX_QUOTE_TOKENS, render_answer_prompt
from muniment_resources.prompts import answer_prompt
from muniment_runtime.backends.fake import FakeBackend, FakeScript
from muniment_runtime.contracts import Pins, RunConfig
from tests.helpers import pdfs
from tests.helpers.real_services import real_services, reply

QUESTION = "What is the signal word of the northern harbour?"
CANARY = "The signal word of the northern harbour is CORMORANT."
PLANNED = 768
EFFECTIVE = 640
PAGES = 24
WRITTEN = MAX_QUOTE_TOKENS + AskRequest(QUESTION).max_tokens


def _page(number: int) -> pdfs.Draw:
    """A page about the same things in words of its own, so that no page passes for another's twin."""
    words = [f"{chr(ord('a') + number)}{mark}" for mark in string.ascii_lowercase] * 4
    lines = [" ".join(words[start : start + 26]) for start in range(0, len(words), 26)]
    return pdfs.text(f"Page {number} speaks of a signal word and of a northern harbour too.", *lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    first = pdfs.text(CANARY, "Signal word, northern harbour: the signal word of the northern harbour is kept here.")
    pdfs.write(folder / "harbour.pdf", [first, *(_page(number) for number in range(2, PAGES + 1))])
    return folder


class Asked:
    """One question on real services over the document."""

    def __init__(self, services: Services, pdf: Path) -> None:
        services.index.index([pdf], lambda _progress: None, lambda _name, _wrong: None, lambda: False)
        self.ranked = [passage.chunk_id for passage in services.library.search(QUESTION, PAGES)]
        request = AskRequest(QUESTION, pins=Pins(context=PLANNED))
        self.answer: Answer = services.ask.ask(request, lambda _event: None, lambda: False)
        running = services.plan.running()
        assert running is not None
        self.running_context = running.context
        self._events = {event.type: event for event in services.audit.events(0, 1000, newest_first=False)}

    def event(self, type_: str) -> AuditEvent:
        return self._events[type_]


def _ask(folder: Path, tmp_path: Path, context_limit: int = 0) -> Iterator[Asked]:
    # The words come only if the whole system prompt and, after it, the canary stand in what the model was sent.
    rules = {answer_prompt("en").system: reply(CANARY, "CORMORANT")}
    services = real_services(tmp_path, rules, context_limit=context_limit)
    try:
        yield Asked(services, folder / "harbour.pdf")
    finally:
        services.close()


@pytest.fixture
def asked(folder: Path, tmp_path: Path) -> Iterator[Asked]:
    yield from _ask(folder, tmp_path)


@pytest.fixture
def asked_short(folder: Path, tmp_path: Path) -> Iterator[Asked]:
    yield from _ask(folder, tmp_path, context_limit=EFFECTIVE)


def _sent_tokens(answer: Answer) -> int:
    """Count the rendered prompt by the tokenizer of the model that answered."""
    backend = FakeBackend(FakeScript(), enabled=True)
    backend.load(Path(__file__), RunConfig("any", PLANNED))
    prompt = render_answer_prompt("chatml", QUESTION, answer.evidence, AskRequest(QUESTION).max_tokens)
    return len(backend.tokenize(prompt.request.segments))


def _bounded_by_context(answer: Answer, context: int) -> None:
    """The context, and no other limit, kept the next passage out: there was no room for it."""
    first_left_out = next(item for item in answer.evidence if not item.used)
    assert answer.usage.prompt_tokens + WRITTEN + first_left_out.tokens > context


def test_t19_passages_beyond_the_context_are_left_out_by_rank_and_recorded(asked: Asked) -> None:
    answer = asked.answer
    used = [item.passage.chunk_id for item in answer.evidence if item.used]
    assert len(asked.ranked) > len(used) > 1
    assert used == asked.ranked[: len(used)]
    assert answer.left_out == len(answer.evidence) - len(used) > 0
    _bounded_by_context(answer, PLANNED)
    for type_ in ("answer.started", "answer.completed"):
        assert asked.event(type_).fields["left_out"] == answer.left_out
    assert asked.event("answer.started").fields["chunks"] == used


def test_t19_the_canary_in_the_first_passage_and_the_system_prompt_reach_the_model_whole(asked: Asked) -> None:
    answer = asked.answer
    assert answer.evidence[0].passage.page == 1
    assert CANARY in answer.evidence[0].text
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.answer == "CORMORANT"


def test_t19_tokens_sent_are_tokens_planned(asked: Asked) -> None:
    answer = asked.answer
    assert answer.usage.prompt_tokens == _sent_tokens(answer)
    assert answer.plan is not None
    assert answer.usage.prompt_tokens + WRITTEN <= answer.plan.context == PLANNED
    assert asked.event("answer.completed").fields["prompt_tokens"] == answer.usage.prompt_tokens


def test_t19_the_effective_context_is_read_back_and_stands_beside_the_planned_one(asked: Asked) -> None:
    fields = asked.event("model.loaded").fields
    assert (fields["planned_context"], fields["context"]) == (PLANNED, PLANNED)
    assert asked.running_context == PLANNED


def test_t19_a_smaller_context_than_planned_is_recorded_and_bounds_the_prompt(asked_short: Asked) -> None:
    fields = asked_short.event("model.loaded").fields
    assert (fields["planned_context"], fields["context"]) == (PLANNED, EFFECTIVE)
    assert asked_short.running_context == EFFECTIVE
    answer = asked_short.answer
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.usage.prompt_tokens == _sent_tokens(answer)
    assert answer.usage.prompt_tokens + WRITTEN <= EFFECTIVE
    _bounded_by_context(answer, EFFECTIVE)
    assert asked_short.event("answer.started").fields["left_out"] == answer.left_out

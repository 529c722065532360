"""Answers one question: search, plan, load, generate, check. The order of records and effects is fixed here.

Every decision is in the audit log before its effect can be seen: the question before the search, the plan before
the load, ``answer.started`` before the first word, the verdict before the checked answer is returned. When the log
cannot be written, ``E-AUDIT-WRITE`` ends the question and nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn, Protocol

from muniment_app.services.api import (
    Answer,
    AnswerStatus,
    AskEvent,
    AskPhase,
    AskRequest,
    LibraryService,
    PlanSummary,
    Receipt,
    Record,
    Timings,
    Usage,
)
from muniment_app.services.loading import Loader, Refusal
from muniment_app.services.model_host import ModelHost
from muniment_app.services.plan import NEEDED_CONTEXT
from muniment_app.services.prompting import MIN_EVIDENCE_TOKENS, RenderedPrompt, demand_for, render_answer_prompt
from muniment_resources.errors import KnownError
from muniment_retrieval.abstain import Abstention, judge, names_what_is_asked
from muniment_retrieval.cite import CheckedAnswer, check_answer
from muniment_retrieval.evidence import left_out, pack
from muniment_retrieval.model import Citation, Evidence, Line, Passage, Sentence
from muniment_retrieval.reply import parse_reply
from muniment_runtime.contracts import (
    Clock,
    FinishReason,
    GenerateResult,
    ModelSpec,
    Profile,
)
from muniment_runtime.planner.demand import Demand

__all__ = ["MAX_QUESTION_CHARACTERS", "Asking", "Evidencer"]

MAX_QUESTION_CHARACTERS = 4000
SEARCH_K = 24
PASSAGES: Mapping[Profile, int] = MappingProxyType({Profile.REALTIME: 6, Profile.BATCH: 8, Profile.EXTRACTION: 8})
"""Most passages that the model reads. Measured page hits within one document: 150 of 156 short factual questions with
6 and 151 with 8; 36 and 38 of 62 analyst questions; two passages less save a quarter of the time to the first word.
"""


class Evidencer(LibraryService, Protocol):
    """A library that also judges passages and locates quotes."""

    def is_relevant(self, question: str, passages: Sequence[Passage]) -> bool:
        """Whether the passages touch the question at all; if not, no model needs to be asked."""
        ...

    def chunk_lines(self, chunk_id: int) -> Sequence[Line]:
        """Return the lines of a passage with their boxes."""
        ...


@dataclass
class _Run:
    """Working state of one question."""

    request: AskRequest
    question: str
    started: float
    passages: list[Passage]
    retrieve_s: float = 0.0
    load_s: float = 0.0
    plan: PlanSummary | None = None
    evidence: tuple[Evidence, ...] = ()
    left_out: int = 0
    generated: GenerateResult | None = None
    first_word_s: float | None = None
    """From the question to the first word, as the user waits for it: search, load and prefill included."""


class Asking:
    """The ask service.

    Args:
        library: Searches and locates.
        loader: Chooses what runs, and loads it.
        host: Runs it.
        audit: Records every step.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        library: Evidencer,
        loader: Loader,
        host: ModelHost,
        audit: Record,
        clock: Clock,
    ) -> None:
        self._library = library
        self._loader = loader
        self._host = host
        self._audit = audit
        self._clock = clock

    def ask(self, request: AskRequest, on_event: Callable[[AskEvent], None], cancelled: Callable[[], bool]) -> Answer:
        """Answer one question; see ``AskService``."""
        question = request.question.strip()
        if not question:
            raise KnownError("E-ASK-EMPTY")
        if len(question) > MAX_QUESTION_CHARACTERS:
            raise KnownError("E-ASK-LONG", length=len(question), limit=MAX_QUESTION_CHARACTERS)
        run = _Run(request, question, self._clock(), [])
        self._audit(
            "question.asked",
            {"profile": request.profile.value, "documents": len(request.documents), "characters": len(question)},
            {"question": question},
        )
        try:
            return self._answer(run, on_event, cancelled)
        except KnownError as error:
            if error.code not in ("E-AUDIT-WRITE", "E-ASK-CANCELLED"):
                self._audit("answer.failed", {"code": error.code}, {})
            raise

    def _answer(self, run: _Run, on_event: Callable[[AskEvent], None], cancelled: Callable[[], bool]) -> Answer:
        on_event(AskEvent(AskPhase.SEARCHING))
        self._retrieve(run)
        if not run.passages:
            has_documents = bool(self._library.documents())
            return self._not_found(run, "E-ANSWER-NOTHING-FOUND" if has_documents else "E-ANSWER-NO-DOCUMENTS")
        if not self._library.is_relevant(run.question, run.passages):
            return self._not_found(run, "E-ANSWER-NOTHING-FOUND")
        self._stop_if(cancelled)
        on_event(AskEvent(AskPhase.PLANNING, passages=len(run.passages)))
        ready = self._loader.load(
            run.request.profile, run.request.pins, self._demand(run), lambda: on_event(AskEvent(AskPhase.LOADING))
        )
        if isinstance(ready, Refusal):
            return self._refused(run, ready)
        run.plan, run.load_s, spec = ready.plan, ready.load_s, ready.spec
        self._stop_if(cancelled)
        template = spec.template or ""
        self._pack(run, template, ready.loaded.context)
        prompt = render_answer_prompt(template, run.question, run.evidence, run.request.max_tokens)
        self._record_start(run, spec, prompt)
        run.generated = self._generate(run, prompt, on_event, cancelled)
        if run.generated.finish is FinishReason.CANCELLED:
            self._stop()
        on_event(AskEvent(AskPhase.CHECKING))
        return self._verdict(run, prompt)

    def _retrieve(self, run: _Run) -> None:
        started = self._clock()
        run.passages = self._library.search(run.question, SEARCH_K, run.request.documents)
        run.retrieve_s = self._clock() - started
        self._audit(
            "retrieval.done",
            {
                "k": SEARCH_K,
                "found": len(run.passages),
                "chunks": [passage.chunk_id for passage in run.passages],
                "scores": [f"{passage.score:.4f}" for passage in run.passages],
                "micros": round(run.retrieve_s * 1e6),
            },
            {},
        )

    def _demand(self, run: _Run) -> Demand:
        profile = run.request.profile
        read = run.passages[: PASSAGES[profile]]
        return demand_for(run.question, read, run.request.max_tokens, NEEDED_CONTEXT[profile])

    def _pack(self, run: _Run, template: str, context: int) -> None:
        """Choose the passages that fit beside the question and the answer, counted by the model's own tokenizer."""
        empty = render_answer_prompt(template, run.question, (), run.request.max_tokens).request
        written = [segment.text for segment in empty.segments] + [item.text for item in empty.fields]
        limits = empty.max_tokens + sum(item.max_tokens for item in empty.fields)
        budget = context - limits - sum(self._host.count_tokens(written))
        if budget < MIN_EVIDENCE_TOKENS:
            raise KnownError("E-EVIDENCE-BUDGET", context=context)
        run.evidence = tuple(pack(run.passages, budget, self._host.count_tokens, PASSAGES[run.request.profile]))
        run.left_out = left_out(run.evidence)

    def _record_start(self, run: _Run, spec: ModelSpec, prompt: RenderedPrompt) -> None:
        used = [item for item in run.evidence if item.used]
        self._audit(
            "answer.started",
            {
                "model": spec.model_id,
                "model_sha256": spec.sha256,
                "prompt_sha256": prompt.sha256,
                "max_tokens": run.request.max_tokens,
                "temperature": "0",
                "chunks": [item.passage.chunk_id for item in used],
                "pages": [item.passage.page for item in used],
                "documents": [item.passage.document_id for item in used],
                "left_out": run.left_out,
            },
            {},
        )

    def _generate(
        self, run: _Run, prompt: RenderedPrompt, on_event: Callable[[AskEvent], None], cancelled: Callable[[], bool]
    ) -> GenerateResult:
        def on_text(untrusted_text: str) -> None:
            if run.first_word_s is None:
                run.first_word_s = self._clock() - run.started
                # The opening quotation mark was written for the model; people see the quote whole.
                untrusted_text = prompt.reply_start[-1] + untrusted_text
            on_event(AskEvent(AskPhase.WRITING, untrusted_text=untrusted_text))

        on_event(AskEvent(AskPhase.READING, fraction=0.0))
        return self._host.generate(
            prompt.request,
            on_text,
            cancelled,
            lambda done, total: on_event(AskEvent(AskPhase.READING, fraction=done / max(total, 1))),
        )

    def _verdict(self, run: _Run, prompt: RenderedPrompt) -> Answer:
        assert run.generated is not None
        reply = parse_reply(prompt.reply_start + run.generated.untrusted_text)
        answer, line = reply.untrusted_answer, reply.untrusted_line
        checked = check_answer(line, answer, run.evidence, self._library.chunk_lines)
        if not checked.main_supported and names_what_is_asked(run.question, line):
            # The line was well chosen and its figure garbled, or no answer came: the line itself is the answer.
            answer = line
            checked = check_answer(line, answer, run.evidence, self._library.chunk_lines)
        if not checked.main_supported:
            return self._not_found(run, "E-ANSWER-UNSUPPORTED", checked)
        abstention = judge(run.question, answer, _about(checked, run.evidence))
        if abstention is not None:
            return self._not_found(run, "E-ANSWER-UNSUPPORTED", checked, abstention)
        text = " ".join(sentence.text for sentence in checked.sentences)
        receipt = self._record_verdict(run, "answer.completed", checked, text)
        return self._result(run, AnswerStatus.ANSWERED, receipt, sentences=checked.sentences, cited=checked.citations)

    def _record_verdict(
        self, run: _Run, type_: str, checked: CheckedAnswer | None, text: str, why: Mapping[str, str] | None = None
    ) -> Receipt:
        fields: dict[str, object] = {"left_out": run.left_out, **(why or {})}
        if checked is not None:
            fields["support"] = [sentence.support.value for sentence in checked.sentences]
            fields["citations"] = [
                {"n": c.n, "document": c.document_id, "page": c.page, "support": c.support.value}
                for c in checked.citations
            ]
        if run.generated is not None:
            fields.update(
                prompt_tokens=run.generated.prompt_tokens,
                completion_tokens=run.generated.completion_tokens,
                finish=run.generated.finish.value,
                ttft_micros=round(run.generated.ttft_s * 1e6),
                tpot_micros=round(run.generated.tpot_s * 1e6),
            )
        return self._audit(type_, fields, {"answer": text} if text else {})

    def _not_found(
        self, run: _Run, code: str, checked: CheckedAnswer | None = None, abstention: Abstention | None = None
    ) -> Answer:
        text = "" if checked is None else " ".join(sentence.text for sentence in checked.sentences)
        why = {"code": code} if abstention is None else {"code": code, "abstention": abstention.value}
        receipt = self._record_verdict(run, "answer.not_found", checked, text, why)
        return self._result(run, AnswerStatus.NOT_FOUND, receipt, reason=code, nearest=tuple(run.passages[:3]))

    def _refused(self, run: _Run, refusal: Refusal) -> Answer:
        fields: dict[str, object] = {"decision": refusal.decision.seq, "code": refusal.code}
        if "missing_mib" in refusal.params:
            fields["missing_mib"] = refusal.params["missing_mib"]
        receipt = self._audit("answer.refused", fields, {})
        return self._result(run, AnswerStatus.REFUSED, receipt, reason=refusal.code, reason_params=refusal.params)

    def _result(
        self,
        run: _Run,
        status: AnswerStatus,
        receipt: Receipt,
        sentences: tuple[Sentence, ...] = (),
        cited: tuple[Citation, ...] = (),
        reason: str | None = None,
        reason_params: Mapping[str, str | int | float] | None = None,
        nearest: tuple[Passage, ...] = (),
    ) -> Answer:
        done = run.generated
        total_s = self._clock() - run.started
        return Answer(
            status=status,
            answer=" ".join(sentence.text for sentence in sentences),
            sentences=sentences,
            citations=cited,
            evidence=run.evidence,
            left_out=run.left_out,
            plan=run.plan,
            timings=Timings(
                run.retrieve_s,
                run.load_s,
                0.0 if done is None else done.prefill_s,
                run.first_word_s or 0.0,
                0.0 if done is None else done.tpot_s,
                total_s,
            ),
            usage=Usage(0, 0) if done is None else Usage(done.prompt_tokens, done.completion_tokens),
            audit=receipt,
            reason=reason,
            reason_params=reason_params or {},
            nearest=nearest,
        )

    def _stop_if(self, cancelled: Callable[[], bool]) -> None:
        if cancelled():
            self._stop()

    def _stop(self) -> NoReturn:
        self._audit("answer.cancelled", {}, {})
        raise KnownError("E-ASK-CANCELLED")


def _about(checked: CheckedAnswer, evidence: Sequence[Evidence]) -> list[str]:
    """Return what tells what the citations are about: the passages of the cited pages and the documents' names."""
    pages = {(citation.document_id, citation.page) for citation in checked.citations}
    cited = [item.passage for item in evidence if (item.passage.document_id, item.passage.page) in pages]
    return [text for passage in cited for text in (passage.header, passage.text, passage.document)]

"""One generation on a loaded model: prefill in chunks, then token by token, until a stop rule or a cancel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import Clock, FinishReason, GenerateRequest, GenerateResult, NextField
from muniment_runtime.engine.library import Library
from muniment_runtime.engine.llama import Aborted, LlamaModel
from muniment_runtime.engine.sampler import Sampler
from muniment_runtime.engine.textstream import TextStream

__all__ = ["Timer", "check_room", "generate"]


def check_room(prompt_tokens: int, max_tokens: int, context: int) -> None:
    """Refuse what does not fit; nothing is ever cut.

    Raises:
        KnownError: ``E-MODEL-CONTEXT`` with the tokens that are needed and those that there are.
        BugError: Nothing to read or nothing to write.
    """
    if prompt_tokens < 1 or max_tokens < 1:
        raise BugError("a generation needs a prompt and at least one new token")
    if prompt_tokens + max_tokens > context:
        raise KnownError("E-MODEL-CONTEXT", needed=prompt_tokens + max_tokens, context=context)


@dataclass
class Timer:
    """Clock readings of one generation."""

    started_s: float
    prefill_s: float = 0.0
    first_s: float | None = None
    last_s: float = 0.0
    tokens: int = 0

    def token(self, now_s: float) -> None:
        """Note a sampled token."""
        self.tokens += 1
        self.last_s = now_s
        if self.first_s is None:
            self.first_s = now_s

    def result(self, text: str, finish: FinishReason, prompt_tokens: int) -> GenerateResult:
        """Return the result with its figures."""
        first_s = self.first_s
        return GenerateResult(
            untrusted_text=text,
            finish=finish,
            prompt_tokens=prompt_tokens,
            completion_tokens=self.tokens,
            prefill_s=self.prefill_s,
            ttft_s=0.0 if first_s is None else first_s - self.started_s,
            tpot_s=0.0 if first_s is None or self.tokens < 2 else (self.last_s - first_s) / (self.tokens - 1),
        )


def generate(
    library: Library,
    model: LlamaModel,
    request: GenerateRequest,
    on_text: Callable[[str], None],
    cancelled: Callable[[], bool],
    on_progress: Callable[[int, int], None],
    clock: Clock = time.perf_counter,
) -> GenerateResult:
    """Run one request; see ``Backend.generate``. The sequence is empty again afterwards, whatever happened."""
    timer = Timer(clock())
    tokens = model.tokenizer.prompt(request.segments)
    labels = [model.tokenizer.plain(item.text) for item in request.fields]
    room = sum(map(len, labels)) + sum(item.max_tokens for item in request.fields)
    check_room(len(tokens), request.max_tokens + room, model.facts.context)
    parts: list[str] = []

    def emit(text: str) -> None:
        parts.append(text)
        on_text(text)

    finish = FinishReason.STOP
    try:
        with Sampler(library, request.temperature, request.seed) as sampler:
            _prefill(model, tokens, cancelled, on_progress, timer, clock)
            field = NextField("", request.max_tokens, request.stop)
            for label, following in zip([*labels, None], [*request.fields, None], strict=True):
                finish = _decode(model, sampler, field, emit, cancelled, timer, clock)
                if following is None or label is None:
                    break
                # The token that ended the field was never evaluated, so the label takes its place.
                emit(following.text)
                model.evaluate(label, want_logits=True, cancelled=cancelled)
                field = following
    except Aborted:
        finish = FinishReason.CANCELLED
    finally:
        model.clear()
    return timer.result("".join(parts), finish, len(tokens))


def _prefill(
    model: LlamaModel,
    tokens: list[int],
    cancelled: Callable[[], bool],
    on_progress: Callable[[int, int], None],
    timer: Timer,
    clock: Clock,
) -> None:
    for begin in range(0, len(tokens), model.chunk):
        if cancelled():
            raise Aborted
        end = min(begin + model.chunk, len(tokens))
        before_s = clock()
        model.evaluate(tokens[begin:end], want_logits=end == len(tokens), cancelled=cancelled)
        timer.prefill_s += clock() - before_s
        on_progress(end, len(tokens))


def _decode(
    model: LlamaModel,
    sampler: Sampler,
    field: NextField,
    emit: Callable[[str], None],
    cancelled: Callable[[], bool],
    timer: Timer,
    clock: Clock,
) -> FinishReason:
    stream = TextStream(field.stop)
    finish = FinishReason.LENGTH
    for count in range(1, field.max_tokens + 1):
        if cancelled():
            finish = FinishReason.CANCELLED
            break
        token = sampler.next_token(model.context)
        if model.tokenizer.ends(token):
            finish = FinishReason.STOP
            break
        timer.token(clock())
        if text := stream.feed(model.tokenizer.piece(token)):
            emit(text)
        if stream.stopped:
            finish = FinishReason.STOP
            break
        if count < field.max_tokens:
            try:
                model.evaluate([token], want_logits=True, cancelled=cancelled)
            except Aborted:
                finish = FinishReason.CANCELLED
                break
    if rest := stream.finish():
        emit(rest)
    if finish is FinishReason.CANCELLED:
        raise Aborted
    return finish

"""A scripted backend for tests: deterministic, no model. It refuses to exist unless it is asked for by name."""

from __future__ import annotations

import os
import re
import threading
import time
import tomllib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import (
    Clock,
    FinishReason,
    GenerateRequest,
    GenerateResult,
    LoadedModel,
    NextField,
    RunConfig,
    Segment,
)
from muniment_runtime.engine.generation import Timer, check_room
from muniment_runtime.engine.textstream import TextStream
from muniment_runtime.headroom.device import DeviceMemory

__all__ = ["FakeBackend", "FakeRule", "FakeScript", "read_script"]

_WORD = re.compile(r"\s*[\u3400-\u9fff]|\s*[^\s\u3400-\u9fff]+|\s+$")
_CONTROL = re.compile(r"(<\|[a-z_]+\|>)")
_CONTROL_IDS = 100
_VOCABULARY = 1 << 20


@dataclass(frozen=True)
class FakeRule:
    """The reply to prompts that contain a text."""

    contains: str
    reply: str


@dataclass(frozen=True)
class FakeScript:
    """What the backend does.

    Attributes:
        rules: First match wins.
        default: Reply when no rule matches.
        token_delay_s: Time per new token; ends early on cancel.
        prefill_delay_s: Time per prompt chunk of ``ubatch`` tokens.
        die_on: A prompt that contains this text ends the whole process, as a crash would.
        context_limit: A load gives at most this many tokens, whatever was asked; 0 gives what was asked.
        device_bytes: A graphics device of this size is reported, a quarter of it taken; 0 for none.
    """

    rules: tuple[FakeRule, ...] = ()
    default: str = "I do not know."
    token_delay_s: float = 0.0
    prefill_delay_s: float = 0.0
    die_on: str = ""
    context_limit: int = 0
    device_bytes: int = 0


def read_script(path: Path) -> FakeScript:
    """Read a script from TOML: the attributes of ``FakeScript``, rules as ``[[rules]]`` tables."""
    data = tomllib.loads(path.read_text("utf-8"))
    rules = tuple(FakeRule(str(rule["contains"]), str(rule["reply"])) for rule in data.get("rules", ()))
    return FakeScript(
        rules=rules,
        default=str(data.get("default", FakeScript.default)),
        token_delay_s=float(data.get("token_delay_s", 0.0)),
        prefill_delay_s=float(data.get("prefill_delay_s", 0.0)),
        die_on=str(data.get("die_on", "")),
        context_limit=int(data.get("context_limit", 0)),
        device_bytes=int(data.get("device_bytes", 0)),
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _word_id(word: str) -> int:
    return _CONTROL_IDS + zlib.crc32(word.encode("utf-8", "replace")) % (_VOCABULARY - _CONTROL_IDS)


def _control_id(mark: str) -> int:
    return zlib.crc32(mark.encode()) % _CONTROL_IDS


def _reply_tokens(text: str) -> list[bytes]:
    """Split a reply into tokens as real vocabularies do: rare characters come byte by byte."""
    tokens: list[bytes] = []
    for word in _words(text):
        data = word.encode("utf-8")
        tokens += [data] if len(data) == len(word) else [data[at : at + 2] for at in range(0, len(data), 2)]
    return tokens


class FakeBackend:
    """Answers by script with a tokenizer of words.

    Args:
        script: What to say.
        enabled: Must be true; there is no other way to turn it on.
        clock: Seconds for durations.
    """

    def __init__(self, script: FakeScript, *, enabled: bool, clock: Clock = time.perf_counter) -> None:
        if not enabled:
            raise BugError("the scripted backend is for tests only")
        self._script = script
        self._clock = clock
        self._config: RunConfig | None = None

    @property
    def name(self) -> str:
        """See ``Backend.name``."""
        return "fake"

    def devices(self) -> list[DeviceMemory]:
        """See ``Backend.devices``."""
        total = self._script.device_bytes
        return [DeviceMemory("scripted", total * 3 // 4, total)] if total else []

    def load(self, path: Path, config: RunConfig) -> LoadedModel:
        """See ``Backend.load``; the file must exist, its content does not matter."""
        self._config = None
        if not path.is_file():
            raise KnownError("E-MODEL-LOAD", model=config.model_id)
        if 0 < self._script.context_limit < config.context:
            config = config._replace(context=self._script.context_limit)
        self._config = config
        return LoadedModel(config.model_id, config.context, config.sequences, _VOCABULARY, 0.0, 0, 0)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See ``Backend.count_tokens``."""
        self._loaded()
        return [len(_words(text)) for text in texts]

    def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        """See ``Backend.tokenize``; marks such as ``<|im_end|>`` are control tokens in trusted text."""
        self._loaded()
        tokens: list[int] = []
        for segment in segments:
            parts = _CONTROL.split(segment.text) if segment.trusted else [segment.text]
            for index, part in enumerate(parts):
                tokens += [_control_id(part)] if index % 2 else [_word_id(word) for word in _words(part)]
        return tokens

    def generate(
        self,
        request: GenerateRequest,
        on_text: Callable[[str], None],
        cancelled: Callable[[], bool],
        on_progress: Callable[[int, int], None],
    ) -> GenerateResult:
        """See ``Backend.generate``."""
        config = self._loaded()
        timer = Timer(self._clock())
        prompt = "".join(segment.text for segment in request.segments)
        total = len(self.tokenize(request.segments))
        room = sum(item.max_tokens + len(_words(item.text)) for item in request.fields)
        check_room(total, request.max_tokens + room, config.context)
        if self._script.die_on and self._script.die_on in prompt:
            os.abort()
        for done in range(0, total, config.ubatch):
            if self._wait(self._script.prefill_delay_s, cancelled):
                return timer.result("", FinishReason.CANCELLED, total)
            on_progress(min(done + config.ubatch, total), total)
        timer.prefill_s = self._clock() - timer.started_s
        reply = next((rule.reply for rule in self._script.rules if rule.contains in prompt), self._script.default)
        parts: list[str] = []

        def emit(text: str) -> None:
            parts.append(text)
            on_text(text)

        finish = FinishReason.STOP
        # In a script, a form feed separates what is said in each field of a reply.
        pieces = [*reply.split("\f"), *[""] * len(request.fields)]
        fields = [NextField("", request.max_tokens, request.stop), *request.fields]
        for field, piece in zip(fields, pieces, strict=False):
            if field.text:
                emit(field.text)
            finish = self._say(piece, field, emit, cancelled, timer)
            if finish is FinishReason.CANCELLED:
                break
        return timer.result("".join(parts), finish, total)

    def _say(
        self, piece: str, field: NextField, emit: Callable[[str], None], cancelled: Callable[[], bool], timer: Timer
    ) -> FinishReason:
        stream = TextStream(field.stop)
        finish = FinishReason.STOP
        for count, token in enumerate(_reply_tokens(piece)):
            if count >= field.max_tokens:
                finish = FinishReason.LENGTH
                break
            if self._wait(self._script.token_delay_s, cancelled):
                finish = FinishReason.CANCELLED
                break
            timer.token(self._clock())
            if text := stream.feed(token):
                emit(text)
            if stream.stopped:
                break
        if rest := stream.finish():
            emit(rest)
        return finish

    def unload(self) -> None:
        """See ``Backend.unload``."""
        self._config = None

    def _loaded(self) -> RunConfig:
        if self._config is None:
            raise KnownError("E-MODEL-NOT-LOADED")
        return self._config

    def _wait(self, delay_s: float, cancelled: Callable[[], bool]) -> bool:
        """Let time pass in small steps; return whether the caller cancelled."""
        never = threading.Event()
        end_s = self._clock() + delay_s
        while not cancelled():
            left_s = end_s - self._clock()
            if left_s <= 0.0:
                return False
            never.wait(min(left_s, 0.02))
        return True

"""What every backend must do. Subclasses give ``backend``, ``path`` and ``config``; replies may be anything."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.contracts import FinishReason, GenerateRequest, GenerateResult, NextField, RunConfig, Segment
from muniment_runtime.engine.templates import Speaker, Turn, load_template

__all__ = ["BackendContract", "Streamed", "prompt"]

MARK = "<|im_end|>"


def prompt(text: str) -> tuple[Segment, ...]:
    """Return a rendered ChatML prompt."""
    return load_template("chatml").render([Turn(Speaker.SYSTEM, "You help."), Turn(Speaker.USER, text)])


class Streamed:
    """Collects what a generation streams and can cancel it at a chosen moment."""

    def __init__(self, cancel_on_text: int = 0, cancel_on_progress: int = 0, *, at_once: bool = False) -> None:
        self.texts: list[str] = []
        self.progress: list[tuple[int, int]] = []
        self._on_text = cancel_on_text
        self._on_progress = cancel_on_progress
        self.cancel = threading.Event()
        if at_once:
            self.cancel.set()

    def text(self, text: str) -> None:
        self.texts.append(text)
        if self._on_text and len(self.texts) >= self._on_text:
            self.cancel.set()

    def step(self, done: int, total: int) -> None:
        self.progress.append((done, total))
        if self._on_progress and len(self.progress) >= self._on_progress:
            self.cancel.set()

    def run(self, backend: Backend, request: GenerateRequest) -> GenerateResult:
        return backend.generate(request, self.text, self.cancel.is_set, self.step)


class BackendContract:
    """The suite. ``backend`` arrives without a model."""

    @pytest.fixture
    def path(self) -> Path:
        raise NotImplementedError

    @pytest.fixture
    def config(self) -> RunConfig:
        return RunConfig("contract", context=1024, batch=64, ubatch=64)

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    @pytest.fixture
    def loaded(self, backend: Backend, path: Path, config: RunConfig) -> Backend:
        backend.load(path, config)
        return backend

    def test_without_a_model_everything_is_refused(self, backend: Backend) -> None:
        for call in (
            lambda: backend.count_tokens(["a"]),
            lambda: backend.tokenize([Segment("a")]),
            lambda: Streamed().run(backend, GenerateRequest((Segment("a"),), 1)),
        ):
            with pytest.raises(KnownError) as caught:
                call()
            assert caught.value.code == "E-MODEL-NOT-LOADED"

    def test_devices_are_named_and_have_no_more_free_than_total(self, backend: Backend) -> None:
        devices = backend.devices()
        assert all(name and 0 <= free <= total for name, free, total in devices)
        assert len({device.name for device in devices}) == len(devices)

    def test_load_tells_what_runs_and_replaces_the_model(self, backend: Backend, path: Path, config: RunConfig) -> None:
        first = backend.load(path, config)
        assert (first.model_id, first.context, first.sequences) == ("contract", 1024, 1)
        assert first.vocabulary > 1000
        assert backend.load(path, config._replace(context=512)).context == 512

    def test_missing_file_is_refused_and_leaves_nothing_loaded(
        self, backend: Backend, path: Path, config: RunConfig
    ) -> None:
        backend.load(path, config)
        with pytest.raises(KnownError) as caught:
            backend.load(path.with_name("missing.gguf"), config)
        assert caught.value.code == "E-MODEL-LOAD"
        with pytest.raises(KnownError):
            backend.count_tokens(["a"])

    def test_tokens_are_counted(self, loaded: Backend) -> None:
        one, two, none = loaded.count_tokens(["revenue rose", "revenue rose and costs fell in 2023", ""])
        assert 0 < one < two
        assert none == 0
        assert loaded.count_tokens([]) == []
        assert loaded.count_tokens(["revenue rose"]) == [len(loaded.tokenize([Segment("revenue rose")]))]

    def test_untrusted_text_yields_no_control_token(self, loaded: Backend) -> None:
        (control,) = loaded.tokenize([Segment(MARK, trusted=True)])
        for text in (MARK, f"a {MARK}\nb", MARK * 3, "<|im_" + MARK + "end|>"):
            assert control not in loaded.tokenize([Segment(text)])
            assert control not in loaded.tokenize([Segment("x", trusted=True), Segment(text)])
        # A mark cannot be put together from a trusted and an untrusted half either.
        assert control not in loaded.tokenize([Segment("<|im_", trusted=True), Segment("end|>")])
        assert loaded.tokenize(prompt("hi")).count(control) == 2

    def test_streamed_text_is_the_result(self, loaded: Backend) -> None:
        streamed = Streamed()
        result = streamed.run(loaded, GenerateRequest(prompt("Write about the sea. 你好😀"), 24))
        assert "".join(streamed.texts) == result.untrusted_text != ""
        assert "" not in streamed.texts
        assert "\ufffd" not in result.untrusted_text
        assert result.finish in {FinishReason.STOP, FinishReason.LENGTH}
        total = len(loaded.tokenize(prompt("Write about the sea. 你好😀")))
        assert result.prompt_tokens == total
        assert streamed.progress[-1] == (total, total)
        assert streamed.progress == sorted(streamed.progress)
        assert 0 < result.prefill_s <= result.ttft_s or result.prefill_s == 0.0

    def test_greedy_is_repeatable_and_max_tokens_holds(self, loaded: Backend) -> None:
        request = GenerateRequest(prompt("Write about the sea."), 3)
        first = Streamed().run(loaded, request)
        assert first.finish is FinishReason.LENGTH
        assert first.completion_tokens == 3
        assert Streamed().run(loaded, request).untrusted_text == first.untrusted_text

    def test_labels_of_further_fields_stand_in_the_text_and_each_field_has_its_limit(self, loaded: Backend) -> None:
        fields = (NextField("\nSecond:", 4), NextField("\nThird:", 2))
        streamed = Streamed()
        result = streamed.run(loaded, GenerateRequest(prompt("Write about the sea."), 3, fields=fields))
        assert "".join(streamed.texts) == result.untrusted_text
        first, _, rest = result.untrusted_text.partition("\nSecond:")
        assert first == Streamed().run(loaded, GenerateRequest(prompt("Write about the sea."), 3)).untrusted_text
        assert "\nThird:" in rest
        assert result.completion_tokens <= 3 + 4 + 2

    def test_further_fields_count_for_the_context(self, loaded: Backend) -> None:
        request = GenerateRequest(prompt("Write about the sea."), 8, fields=(NextField("\nSecond:", 1000),))
        with pytest.raises(KnownError) as caught:
            Streamed().run(loaded, request)
        assert caught.value.code == "E-MODEL-CONTEXT"

    def test_stop_strings_end_the_text_and_are_not_in_it(self, loaded: Backend) -> None:
        whole = Streamed().run(loaded, GenerateRequest(prompt("Write about the sea."), 16)).untrusted_text
        stop = whole[5:9]
        streamed = Streamed()
        result = streamed.run(loaded, GenerateRequest(prompt("Write about the sea."), 16, stop=("@@@@", stop)))
        assert result.finish is FinishReason.STOP
        assert result.untrusted_text == whole[: whole.index(stop)] == "".join(streamed.texts)

    def test_cancel_at_any_time_leaves_the_backend_usable(self, loaded: Backend) -> None:
        long = GenerateRequest(prompt("The sea is deep. " * 40), 64)
        before = Streamed().run(loaded, GenerateRequest(prompt("Write about the sea."), 4))
        at_once = Streamed(at_once=True)
        result = at_once.run(loaded, long)
        assert (result.finish, result.untrusted_text, at_once.texts) == (FinishReason.CANCELLED, "", [])
        prefill = Streamed(cancel_on_progress=1)
        result = prefill.run(loaded, long)
        assert (result.finish, result.completion_tokens) == (FinishReason.CANCELLED, 0)
        assert prefill.progress[-1][0] < prefill.progress[-1][1]
        decode = Streamed(cancel_on_text=2)
        result = decode.run(loaded, long)
        assert result.finish is FinishReason.CANCELLED
        assert 0 < result.completion_tokens < 64
        assert result.untrusted_text == "".join(decode.texts)
        after = Streamed().run(loaded, GenerateRequest(prompt("Write about the sea."), 4))
        assert after.untrusted_text == before.untrusted_text

    def test_what_does_not_fit_is_refused_and_nothing_is_cut(self, loaded: Backend) -> None:
        streamed = Streamed()
        with pytest.raises(KnownError) as caught:
            streamed.run(loaded, GenerateRequest(prompt("sea " * 1100), 8))
        assert caught.value.code == "E-MODEL-CONTEXT"
        assert caught.value.params["context"] == 1024
        assert int(caught.value.params["needed"]) > 1024
        fits = len(loaded.tokenize(prompt("Write about the sea.")))
        with pytest.raises(KnownError):
            streamed.run(loaded, GenerateRequest(prompt("Write about the sea."), 1024 - fits + 1))
        assert (streamed.texts, streamed.progress) == ([], [])
        result = Streamed(cancel_on_text=1).run(loaded, GenerateRequest(prompt("Write about the sea."), 1024 - fits))
        assert result.completion_tokens > 0

    def test_unload_twice(self, loaded: Backend) -> None:
        loaded.unload()
        loaded.unload()
        with pytest.raises(KnownError) as caught:
            loaded.count_tokens(["a"])
        assert caught.value.code == "E-MODEL-NOT-LOADED"

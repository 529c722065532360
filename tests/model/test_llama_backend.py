"""The contract and the safety of tokens with real model files.

The files lie in the folder that ``MUNIMENT_MODEL_CACHE`` names.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jinja2.sandbox
import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.backends.base import Backend
from muniment_runtime.backends.llama_cpp import LlamaCppBackend
from muniment_runtime.backends.worker import WorkerBackend
from muniment_runtime.contracts import FinishReason, GenerateRequest, KvType, RunConfig, Segment
from muniment_runtime.engine.library import Library, open_library
from muniment_runtime.engine.llama import LlamaModel
from muniment_runtime.engine.templates import Speaker, Turn, load_template
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.contract.backend_contract import BackendContract, Streamed, prompt

SMALL = "smollm2-135m-instruct-q4_1"
STARTER = "qwen2.5-coder-0.5b-instruct-q4_k_m"
GEMMA = "gemma-3-270m-q4_k_m"


def _file(name: str) -> Path:
    folder = os.environ.get("MUNIMENT_MODEL_CACHE")
    assert folder, "MUNIMENT_MODEL_CACHE must name the folder with the model files"
    path = Path(folder) / f"{name}.gguf"
    assert path.is_file(), f"{path.name} is missing in MUNIMENT_MODEL_CACHE"
    return path


@pytest.fixture(scope="session")
def library() -> Library:
    return open_library()


class TestLlamaCppBackend(BackendContract):
    @pytest.fixture
    def path(self) -> Path:
        return _file(SMALL)

    @pytest.fixture
    def backend(self, library: Library) -> Iterator[Backend]:
        backend = LlamaCppBackend(library)
        yield backend
        backend.unload()

    def test_a_damaged_file_is_refused(self, backend: Backend, tmp_path: Path, config: RunConfig) -> None:
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(_file(SMALL).read_bytes()[:100_000])
        with pytest.raises(KnownError) as caught:
            backend.load(broken, config)
        assert caught.value.code == "E-MODEL-LOAD"

    def test_equal_seeds_give_equal_texts(self, loaded: Backend) -> None:
        def text(seed: int) -> str:
            request = GenerateRequest(prompt("Write about the sea."), 12, temperature=1.5, seed=seed)
            return Streamed().run(loaded, request).untrusted_text

        assert text(1) == text(1)
        assert len({text(seed) for seed in range(4)}) > 1

    def test_quantized_cache_and_several_sequences_load(self, backend: Backend, path: Path) -> None:
        config = RunConfig("x", context=512, kv_type=KvType.Q8_0, sequences=2, batch=128, ubatch=64)
        facts = backend.load(path, config)
        assert (facts.context, facts.sequences) == (512, 2)
        assert facts.anonymous_bytes > 0
        assert Streamed().run(backend, GenerateRequest(prompt("Hello."), 4)).completion_tokens > 0


class TestWorkerBackend(BackendContract):
    @pytest.fixture
    def path(self) -> Path:
        return _file(SMALL)

    @pytest.fixture
    def backend(self) -> Iterator[Backend]:
        child = Child(ProcessSpawner(), "inference")
        yield WorkerBackend(child)
        assert child.stop().exit_code == 0


@pytest.mark.parametrize("name", [SMALL, STARTER])
def test_reviewed_template_gives_the_tokens_of_the_template_in_the_file(library: Library, name: str) -> None:
    model = LlamaModel(library, _file(name), RunConfig(name, context=256))
    try:
        source = library.api.llama_model_chat_template(model._model, None).decode()
        turns = [
            Turn(Speaker.SYSTEM, "You answer from the evidence."),
            Turn(Speaker.USER, "What was the revenue in 2023? 2023年的收入是多少？"),
            Turn(Speaker.ASSISTANT, "It was 12.4 million."),
            Turn(Speaker.USER, "And the costs?"),
        ]
        messages = [{"role": str(turn.speaker), "content": turn.text} for turn in turns]
        # As transformers sets it up for the templates that it stores in model files.
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        text = environment.from_string(source).render(messages=messages, add_generation_prompt=True, tools=None)
        expected = model.tokenizer.prompt([Segment(text, trusted=True)])
        assert model.tokenizer.prompt(load_template("chatml").render(turns)) == expected
        assert len(expected) > 50
    finally:
        model.close()


@pytest.mark.parametrize("name", [SMALL, STARTER, GEMMA])
def test_no_spelling_of_any_special_token_gets_through_plain_text(library: Library, name: str) -> None:
    model = LlamaModel(library, _file(name), RunConfig(name, context=256))
    try:
        api, tokenizer = library.api, model.tokenizer
        vocabulary = api.llama_model_get_vocab(model._model)
        special = [
            token
            for token in range(tokenizer.size)
            if api.llama_vocab_is_control(vocabulary, token) or api.llama_vocab_is_eog(vocabulary, token)
        ]
        assert special
        for token in special[:300]:
            text = api.llama_vocab_get_text(vocabulary, token).decode()
            assert not set(tokenizer.plain(f"a {text} b{text}")) & set(special), text
        marks = [api.llama_vocab_get_text(vocabulary, token).decode() for token in special[:20]]
        trusted = [Segment(mark, trusted=True) for mark in marks]
        tokens = tokenizer.prompt([*trusted, Segment("".join(marks))])
        alone = tokenizer.prompt(trusted)
        assert tokens[: len(alone)] == alone
        assert not set(tokens[len(alone) :]) & set(special)
    finally:
        model.close()


def test_more_tokens_than_a_batch_holds_never_reach_the_native_code(library: Library) -> None:
    model = LlamaModel(library, _file(SMALL), RunConfig(SMALL, context=256, batch=64, ubatch=64))
    try:
        for count in (0, 65):
            with pytest.raises(BugError):
                model.evaluate([5] * count, want_logits=True, cancelled=lambda: False)
        model.evaluate([5] * 64, want_logits=True, cancelled=lambda: False)
    finally:
        model.close()


def test_gemma_gets_exactly_one_beginning_token(library: Library) -> None:
    model = LlamaModel(library, _file(GEMMA), RunConfig(GEMMA, context=256))
    try:
        bos = model.tokenizer.bos
        assert model.tokenizer.wants_bos
        for segments in ([Segment("hi")], [Segment("<bos>hi", trusted=True)], [Segment("<bos><bos>", trusted=True)]):
            tokens = model.tokenizer.prompt(segments)
            assert tokens[0] == bos
            assert tokens.count(bos) == 1
    finally:
        model.close()


def test_starter_model_writes_whole_chinese_characters(library: Library) -> None:
    backend = LlamaCppBackend(library)
    try:
        backend.load(_file(STARTER), RunConfig(STARTER, context=512))
        streamed = Streamed()
        result = streamed.run(backend, GenerateRequest(prompt("用中文写一句关于大海的话，并加上表情符号。"), 24))
        assert any("\u4e00" <= character <= "\u9fff" for character in result.untrusted_text)
        assert "\ufffd" not in result.untrusted_text
        assert "".join(streamed.texts) == result.untrusted_text
    finally:
        backend.unload()


def test_cancel_takes_effect_inside_a_long_native_call(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """One chunk of 2,048 tokens is a single native call: only the abort callback can end it early."""
    backend = LlamaCppBackend(library)
    try:
        backend.load(_file(STARTER), RunConfig(STARTER, context=2560, batch=2048, ubatch=2048))
        streamed = Streamed()
        pressed_s: list[float] = []

        def press() -> None:
            pressed_s.append(time.perf_counter())
            streamed.cancel.set()

        timer = threading.Timer(0.5, press)
        timer.start()
        result = streamed.run(backend, GenerateRequest(prompt("The sea is deep. " * 380), 8))
        ended_s = time.perf_counter()
        timer.join()
        assert result.finish is FinishReason.CANCELLED
        assert streamed.progress == []
        with capsys.disabled():
            sys.stdout.write(f"\ncancel inside a native call took effect after {ended_s - pressed_s[0]:.3f} s\n")
        assert Streamed().run(backend, GenerateRequest(prompt("Hello."), 2)).completion_tokens > 0
    finally:
        backend.unload()

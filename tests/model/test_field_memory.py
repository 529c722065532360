"""Field cases with the real library: a quantized cache that saves what the plan says, prompts that fit to the brim."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.need_models import run_child
from muniment_app.services.prompting import MAX_QUOTE_TOKENS, render_answer_prompt
from muniment_resources.errors import KnownError
from muniment_resources.units import MIB
from muniment_retrieval.evidence import pack
from muniment_retrieval.model import Passage
from muniment_runtime.backends.llama_cpp import LlamaCppBackend
from muniment_runtime.contracts import KvType, ModelSpec, RunConfig
from muniment_runtime.engine.library import Library, open_library
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.spec import model_spec
from muniment_runtime.planner.need import NeedModel

GEMMA = "gemma-3-270m-q4_k_m"
SMALL = "smollm2-135m-instruct-q4_1"
STEP = 0.01 * MIB
"""What the library rounds its figures to, for each of its two caches."""
CONTEXT = 32768
QUESTION = "What were the costs of the northern harbour?"
MAX_TOKENS = 64


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library()


@pytest.fixture
def backend(library: Library) -> Iterator[LlamaCppBackend]:
    backend = LlamaCppBackend(library)
    yield backend
    backend.unload()


def _spec(cache: Path, name: str) -> ModelSpec:
    path = cache / f"{name}.gguf"
    return model_spec(read_header(path), model_id=name, path=path, sha256=name)


def test_t22_a_quantized_cache_with_sliding_windows_takes_what_the_plan_says(
    backend: LlamaCppBackend, model_cache: Path
) -> None:
    spec = _spec(model_cache, GEMMA)
    assert {layer.window for layer in spec.layers} == {0, 512}
    model = NeedModel(spec)
    planned = {}
    for kv_type in (KvType.F16, KvType.Q8_0):
        config = RunConfig(GEMMA, CONTEXT, kv_type)
        planned[kv_type] = model.need(config).kv_bytes
        reported = backend.load(spec.path, config).reported
        assert reported is not None
        assert reported.kv_bytes == pytest.approx(planned[kv_type], abs=2 * STEP)
    # No switch without effect: 34 bytes in place of 64, in the windows as in the whole context.
    assert planned[KvType.Q8_0] / planned[KvType.F16] == pytest.approx(34 / 64)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
def test_t22_what_a_quantized_cache_saves_is_really_not_there(model_cache: Path) -> None:
    spec = _spec(model_cache, GEMMA)
    model = NeedModel(spec)
    private: list[int] = []
    for kv_type in (KvType.F16, KvType.Q8_0):
        # A process each: what one load frees, the next would take again.
        told = run_child("bench.need_child", spec.path, CONTEXT, kv_type, 1, 1, 2, 0, "loaded")
        private.append(told["loaded"][0])
    planned = [model.need(RunConfig(GEMMA, CONTEXT, kv_type)).kv_bytes for kv_type in (KvType.F16, KvType.Q8_0)]
    assert private[0] - private[1] == pytest.approx(planned[0] - planned[1], abs=4 * MIB)


def test_t22_the_library_refuses_a_quantized_cache_without_flash_attention(
    backend: LlamaCppBackend, model_cache: Path
) -> None:
    config = RunConfig(SMALL, 512, KvType.Q8_0, flash_attention=False)
    with pytest.raises(KnownError) as caught:
        backend.load(model_cache / f"{SMALL}.gguf", config)
    assert caught.value.code == "E-MODEL-LOAD"


def _passage(number: int) -> Passage:
    text = "\n".join(f"Row {number}.{row}: harbour costs {number * 37 + row * 1001:,} crowns," for row in range(4))
    return Passage(number, "d", "harbour.pdf", number, str(number), f"Harbour {number}", text, 0, 0.5, 0.5, ())


def test_t19_what_is_packed_by_count_fits_when_it_is_rendered(backend: LlamaCppBackend, model_cache: Path) -> None:
    """The budget is counted piece by piece, the prompt in one: at no budget may the sum come out too large."""
    backend.load(model_cache / f"{SMALL}.gguf", RunConfig(SMALL, 256))
    passages = [_passage(number) for number in range(1, 25)]
    empty = render_answer_prompt("chatml", QUESTION, (), MAX_TOKENS).request
    written = [segment.text for segment in empty.segments] + [item.text for item in empty.fields]
    fixed = sum(backend.count_tokens(written))
    gaps: list[int] = []
    for budget in range(256, 640):
        evidence = pack(passages, budget, backend.count_tokens, 8)
        prompt = render_answer_prompt("chatml", QUESTION, evidence, MAX_TOKENS).request
        labels = sum(backend.count_tokens([item.text for item in prompt.fields]))
        sent = len(backend.tokenize(prompt.segments)) + labels
        gaps.append(fixed + budget - sent)
    assert empty.max_tokens == MAX_QUOTE_TOKENS
    assert min(gaps) >= 0
    # The template's marks are counted as text, which takes some tokens more; apart from that, budgets are used up.
    assert min(gaps) < 64

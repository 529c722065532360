"""The descriptions of real model files agree with what llama.cpp itself says about them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from muniment_runtime.contracts import LayerKv
from muniment_runtime.model.catalogue import load_catalogue
from muniment_runtime.model.files import sha256_file
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.repack import Cpu
from muniment_runtime.model.spec import model_spec

IDS = ("qwen2.5-coder-0.5b-instruct-q4_k_m", "smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m")


@pytest.fixture(scope="module")
def cache() -> Path:
    folder = os.environ.get("MUNIMENT_MODEL_CACHE")
    if not folder:
        pytest.fail("set MUNIMENT_MODEL_CACHE to a folder that holds the catalogue's model files")
    return Path(folder)


@pytest.mark.parametrize("model_id", IDS)
def test_catalogue_entry_is_true_of_the_file(model_id: str, cache: Path) -> None:
    path, entry = cache / f"{model_id}.gguf", load_catalogue().get(model_id)
    spec = model_spec(
        read_header(path),
        model_id=model_id,
        path=path,
        sha256=entry.sha256,
        template=entry.template,
        cpu=Cpu(avx2=True),
    )
    assert sha256_file(path, lambda *_: None, lambda: False) == entry.sha256
    assert spec.file_bytes == entry.size_bytes
    assert spec.quantization == entry.quantization
    assert spec.parameters == entry.parameters
    assert spec.context_train == entry.context
    assert spec.template == entry.template
    assert spec.supported


@pytest.mark.parametrize("model_id", IDS)
def test_llama_cpp_reads_the_same_shapes(model_id: str, cache: Path) -> None:
    import llama_cpp

    path = cache / f"{model_id}.gguf"
    spec = model_spec(read_header(path), model_id=model_id, path=path, sha256="")
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    assert model
    try:
        assert spec.layer_count == llama_cpp.llama_model_n_layer(model)
        assert spec.embedding_length == llama_cpp.llama_model_n_embd(model)
        assert spec.head_count == llama_cpp.llama_model_n_head(model)
        assert spec.head_count_kv == llama_cpp.llama_model_n_head_kv(model)
        assert spec.context_train == llama_cpp.llama_model_n_ctx_train(model)
        assert spec.weights_bytes == llama_cpp.llama_model_size(model)
        assert spec.parameters == llama_cpp.llama_model_n_params(model)
        assert max(layer.window for layer in spec.layers) == llama_cpp.llama_model_n_swa(model)
        assert spec.vocabulary == llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    finally:
        llama_cpp.llama_model_free(model)


@pytest.mark.parametrize("model_id", IDS)
def test_kv_bytes_are_exact(model_id: str, cache: Path) -> None:
    """The state of a full context in llama.cpp holds every K and V row: its size shows the widths of all layers."""
    import llama_cpp

    path = cache / f"{model_id}.gguf"
    spec = model_spec(read_header(path), model_id=model_id, path=path, sha256="")
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    assert model
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_threads = 256, 64, 64, 2
    context = llama_cpp.llama_init_from_model(model, settings)
    assert context
    try:
        sizes = []
        tokens = (llama_cpp.llama_token * 32)(*range(300, 332))
        for _ in range(2):
            batch = llama_cpp.llama_batch_get_one(ctypes.cast(tokens, ctypes.POINTER(llama_cpp.llama_token)), 32)
            assert llama_cpp.llama_decode(context, batch) == 0
            sizes.append(int(llama_cpp.llama_state_seq_get_size(context, 0)))
        # What 32 more tokens add per token: two bytes per element, plus 12 bytes of position and sequence notes
        # for each of the one (or, with a window, two) caches.
        elements = sum(layer.k_elements + layer.v_elements for layer in spec.layers)
        extra = (sizes[1] - sizes[0]) / 32 - 2 * elements
        assert 0 <= extra <= 32
    finally:
        llama_cpp.llama_free(context)
        llama_cpp.llama_model_free(model)


def test_starter_has_the_published_shape(cache: Path) -> None:
    path = cache / f"{IDS[0]}.gguf"
    spec = model_spec(read_header(path), model_id=IDS[0], path=path, sha256="", cpu=Cpu(avx2=True))
    assert spec.layers == (LayerKv(128, 128),) * 24
    assert (spec.head_count_kv, spec.head_dim, spec.vocabulary, spec.context_train) == (2, 64, 151_936, 32_768)
    assert 0 < spec.repack_bytes < spec.weights_bytes


def test_gemma_has_a_global_layer_every_six(cache: Path) -> None:
    path = cache / f"{IDS[2]}.gguf"
    spec = model_spec(read_header(path), model_id=IDS[2], path=path, sha256="")
    assert [layer.window for layer in spec.layers] == [512, 512, 512, 512, 512, 0] * 3
    assert spec.template is None

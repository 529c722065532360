"""Model descriptions: KV shapes, windows, quantization names, copied weights, and what is never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import LayerKv, ModelSpec
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.repack import Cpu
from muniment_runtime.model.shape import SUPPORTED
from muniment_runtime.model.skeleton import write_shape
from muniment_runtime.model.spec import model_spec, quantization_name
from muniment_runtime.planner.graph import ARCHITECTURES
from tests.helpers import gguf_writer as gw
from tests.helpers.shapes import SHAPES


def _spec(made: gw.GgufFile, folder: Path) -> ModelSpec:
    path = made.write(folder / "m.gguf")
    return model_spec(read_header(path), model_id="m", path=path, sha256="0" * 64, cpu=Cpu(avx2=True))


def test_shapes_with_grouped_heads(tmp_path: Path) -> None:
    spec = _spec(gw.model(layers=3, embedding=64, heads=4, heads_kv=2, vocabulary=96), tmp_path)
    assert spec.supported
    assert spec.layers == (LayerKv(32, 32),) * 3
    assert (spec.head_dim, spec.head_count, spec.head_count_kv, spec.vocabulary) == (16, 4, 2, 96)
    # embedding 64x96 and three 64x128 matrices as Q8_0 (34 bytes per 32), three norms of 64 floats
    assert spec.weights_bytes == (64 * 96 + 3 * 64 * 128) // 32 * 34 + 3 * 64 * 4
    assert spec.parameters == 64 * 96 + 3 * 64 * 128 + 3 * 64


def test_missing_kv_heads_mean_as_many_as_heads(tmp_path: Path) -> None:
    assert _spec(gw.model(heads=4, heads_kv=None), tmp_path).layers == (LayerKv(64, 64),) * 2


def test_per_layer_kv_heads_and_key_lengths(tmp_path: Path) -> None:
    made = gw.model("qwen3", layers=2, heads_kv=(1, 4))
    made.add("qwen3.attention.key_length", "uint32", 128).add("qwen3.attention.value_length", "uint32", 32)
    assert _spec(made, tmp_path).layers == (LayerKv(128, 32), LayerKv(512, 128))


def _windows(spec: ModelSpec) -> list[int]:
    return [layer.window for layer in spec.layers]


def test_gemma3_default_pattern_has_a_global_layer_every_six(tmp_path: Path) -> None:
    made = gw.model("gemma3", layers=7).add("gemma3.attention.sliding_window", "uint32", 512)
    assert _windows(_spec(made, tmp_path)) == [512, 512, 512, 512, 512, 0, 512]


def test_gemma3_without_a_window_is_global(tmp_path: Path) -> None:
    assert _windows(_spec(gw.model("gemma3", layers=2), tmp_path)) == [0, 0]


def test_gemma2_default_window_alternates(tmp_path: Path) -> None:
    assert _windows(_spec(gw.model("gemma2", layers=4), tmp_path)) == [4096, 0, 4096, 0]


def test_pattern_from_the_file_as_period_or_flags(tmp_path: Path) -> None:
    key = "gemma3.attention.sliding_window"
    period = gw.model("gemma3", layers=4).add(key, "uint32", 8).add(key + "_pattern", "uint32", 2)
    flags = gw.model("gemma3", layers=3).add(key, "uint32", 8).add_array(key + "_pattern", "bool", [0, 1, 0])
    everywhere = gw.model("gemma3", layers=2).add(key, "uint32", 8).add(key + "_pattern", "uint32", 0)
    assert _windows(_spec(period, tmp_path)) == [8, 0, 8, 0]
    assert _windows(_spec(flags, tmp_path)) == [0, 8, 0]
    assert _windows(_spec(everywhere, tmp_path)) == [8, 8]


@pytest.mark.parametrize("architecture", ["phi3", "llama", "qwen2"])
def test_window_key_is_ignored_where_the_engine_ignores_it(architecture: str, tmp_path: Path) -> None:
    made = gw.model(architecture).add(f"{architecture}.attention.sliding_window", "uint32", 2047)
    if architecture == "phi3":
        made.add_tensor("blk.0.attn_qkv.weight", (64, 128))
    assert _windows(_spec(made, tmp_path)) == [0, 0]


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("rwkv7", None),
        ("bert", None),
        ("deepseek2", None),  # an old file without compressed K and V
        ("qwen2", "expert_count"),
        ("llama", "attention.kv_lora_rank"),
        ("qwen3", "nextn_predict_layers"),
        ("gemma3", "attention.shared_kv_layers"),
        ("gemma3", "attention.key_length_swa"),
        ("llama", "ssm.conv_kernel"),
    ],
)
def test_what_the_closed_form_leaves_out_is_not_guessed(architecture: str, key: str | None, tmp_path: Path) -> None:
    made = gw.model(architecture)
    if key is not None:
        made.add(f"{architecture}.{key}", "uint32", 4)
    spec = _spec(made, tmp_path)
    assert not spec.supported
    assert spec.layers == ()
    assert spec.shape is None
    assert spec.weights_bytes > 0


@pytest.mark.parametrize(
    ("architecture", "tensor"), [("llama", "blk.0.attn_qkv.weight"), ("qwen3", "blk.0.attn_qkv.weight")]
)
def test_a_file_that_holds_its_layers_another_way_is_not_guessed(
    architecture: str, tensor: str, tmp_path: Path
) -> None:
    assert not _spec(gw.model(architecture).add_tensor(tensor, (64, 128)), tmp_path).supported


def test_parallel_layers_of_stablelm_are_not_guessed(tmp_path: Path) -> None:
    norm = gw.model("stablelm").add_tensor("blk.0.ffn_norm.weight", (64,))
    assert _spec(norm, tmp_path).supported
    assert not _spec(gw.model("stablelm"), tmp_path).supported


def test_what_is_covered_has_a_graph() -> None:
    assert set(ARCHITECTURES) == SUPPORTED


# --- shapes of published models ---------------------------------------------------------------------------------


def _shape(name: str, folder: Path) -> ModelSpec:
    path = write_shape(SHAPES[name](), folder / f"{name}.gguf")
    assert path is not None
    return model_spec(read_header(path), model_id=name, path=path, sha256="0" * 64, cpu=Cpu(avx2=True))


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_covered(name: str, tmp_path: Path) -> None:
    spec = _shape(name, tmp_path)
    assert spec.supported
    assert spec.shape is not None
    assert len(spec.shape.layers) == spec.layer_count


def test_latent_attention_keeps_k_alone(tmp_path: Path) -> None:
    spec = _shape("deepseek2-lite", tmp_path)
    assert spec.latent
    # rank 512 and 64 elements with positions
    assert spec.layers == (LayerKv(576, 0),) * 27
    assert spec.shape is not None
    assert (spec.shape.layers[0].experts_used, spec.shape.layers[0].feed_forward) == (0, 10944)
    assert spec.shape.layers[1].shared_feed_forward == 2 * spec.shape.layers[1].expert_feed_forward == 2816


def test_experts_of_a_token_are_counted(tmp_path: Path) -> None:
    spec = _shape("qwen3-30b-a3b", tmp_path)
    assert (spec.experts_used, spec.expert_feed_forward_length) == (8, 768)
    assert (_shape("mixtral-8x7b", tmp_path).experts_used, spec.single_sequence) == (2, False)


@pytest.mark.parametrize(
    ("name", "cached", "state"),
    [
        # 3 x (2560 + ...) by llama.cpp's n_embd_r and n_embd_s
        ("mamba-2.8b", 0, 64 * (3 * 5120 + 16 * 5120)),
        ("lfm2-1.2b", 6, 10 * 2 * 2048),
        ("qwen3.5-4b-like", 8, 24 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096)),
    ],
)
def test_recurrent_layers_keep_a_state_and_no_cache(name: str, cached: int, state: int, tmp_path: Path) -> None:
    spec = _shape(name, tmp_path)
    assert len(spec.layers) == cached
    assert spec.recurrent_elements == state
    assert spec.single_sequence


def test_layers_that_read_anothers_cache_have_none(tmp_path: Path) -> None:
    spec = _shape("gemma4-e2b-like", tmp_path)
    assert spec.shape is not None
    reading = [layer for layer in spec.shape.layers if layer.keys == 0]
    assert reading
    assert len(spec.layers) == spec.layer_count - len(reading)
    assert all(layer.queries for layer in reading)


def test_every_layer_may_have_its_own_widths(tmp_path: Path) -> None:
    spec = _shape("openelm-1.1b", tmp_path)
    assert (spec.layers[0], spec.layers[-1]) == (LayerKv(256, 256), LayerKv(512, 512))
    assert spec.shape is not None
    assert [layer.feed_forward for layer in spec.shape.layers[:2]] == [1024, 1280]


def test_layers_without_attention_have_no_cache_of_their_own(tmp_path: Path) -> None:
    spec = _shape("deci-like", tmp_path)
    # Without flash attention such a layer is padded like all others, so it stays in the list.
    assert len(spec.layers) == spec.layer_count
    assert spec.layers[6] == LayerKv(0, 0)
    assert spec.shape is not None
    assert spec.shape.layers[6].attended == spec.embedding_length
    assert spec.shape.layers[13].attended == 0


def test_supported_architecture_with_a_missing_or_wrong_key_is_refused(tmp_path: Path) -> None:
    missing = gw.GgufFile().add("general.architecture", "string", "llama").add_tensor("token_embd.weight", (4, 4))
    wrong = gw.model(layers=2, heads_kv=(1, 2, 3))
    half = gw.model("deepseek2").add("deepseek2.attention.key_length_mla", "uint32", 192)
    half.add_tensor("blk.0.attn_k_b.weight", (64, 64))
    for made, what in (
        (missing, "block_count"),
        (wrong, "attention.head_count_kv"),
        (half, "attention.key_length"),
        (gw.GgufFile(), "general.architecture"),
    ):
        with pytest.raises(KnownError) as caught:
            _spec(made, tmp_path)
        assert (caught.value.code, caught.value.params["what"]) == ("E-MODEL-MALFORMED", what)


def test_part_of_a_split_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnownError) as caught:
        _spec(gw.model().add("split.count", "uint16", 3), tmp_path)
    assert caught.value.code == "E-MODEL-SPLIT"


def test_file_type_is_believed_only_when_its_type_occurs(tmp_path: Path) -> None:
    believed = gw.model(type_name="Q8_0", file_type=7).write(tmp_path / "a.gguf")
    lied = gw.model(type_name="Q5_0", file_type=15).write(tmp_path / "b.gguf")
    silent = gw.model(type_name="Q4_1", file_type=None).write(tmp_path / "c.gguf")
    assert [quantization_name(read_header(path)) for path in (believed, lied, silent)] == ["Q8_0", "Q5_0", "Q4_1"]


def test_template_of_the_family_needs_its_markers(tmp_path: Path) -> None:
    chat = "{{ '<|im_start|>' + role }}"
    assert _spec(gw.model("qwen2", template=chat), tmp_path).template == "chatml"
    assert _spec(gw.model("qwen2"), tmp_path).template is None
    assert _spec(gw.model("gemma3", template=chat), tmp_path).template is None
    assert _spec(gw.model("llama", template="[INST]"), tmp_path).template is None

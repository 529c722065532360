"""Model descriptions: KV shapes, windows, quantization names, copied weights, and what is never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import LayerKv, ModelSpec
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.spec import Cpu, host_cpu, model_spec, quantization_name, repack_bytes
from tests.helpers import gguf_writer as gw


def _spec(made: gw.GgufFile, folder: Path) -> ModelSpec:
    path = made.write(folder / "m.gguf")
    return model_spec(read_header(path), model_id="m", path=path, sha256="0" * 64, cpu=Cpu.X86)


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
    assert _windows(_spec(made, tmp_path)) == [0, 0]


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("mamba", None),
        ("deepseek2", None),
        ("llama", "expert_count"),
        ("qwen3", "nextn_predict_layers"),
        ("gemma3", "attention.shared_kv_layers"),
    ],
)
def test_what_the_closed_form_leaves_out_is_not_guessed(architecture: str, key: str | None, tmp_path: Path) -> None:
    made = gw.model(architecture)
    if key is not None:
        made.add(f"{architecture}.{key}", "uint32", 4)
    spec = _spec(made, tmp_path)
    assert not spec.supported
    assert spec.layers == ()
    assert spec.weights_bytes > 0


def test_supported_architecture_with_a_missing_or_wrong_key_is_refused(tmp_path: Path) -> None:
    missing = gw.GgufFile().add("general.architecture", "string", "llama").add_tensor("token_embd.weight", (4, 4))
    wrong = gw.model(layers=2, heads_kv=(1, 2, 3))
    for made, what in (
        (missing, "block_count"),
        (wrong, "attention.head_count_kv"),
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


def test_copied_weights_follow_type_rows_and_tied_output(tmp_path: Path) -> None:
    tied = read_header(gw.model(layers=1, type_name="Q4_0", tied=True).write(tmp_path / "a.gguf"))
    free = read_header(gw.model(layers=1, type_name="Q4_0", tied=False).write(tmp_path / "b.gguf"))
    odd = read_header(gw.model(layers=1, type_name="Q4_0", tied=False, vocabulary=97).write(tmp_path / "c.gguf"))
    eight = read_header(gw.model(layers=1, type_name="Q8_0", tied=False).write(tmp_path / "d.gguf"))
    feed_forward, embedding = 64 * 128 // 32 * 18, 64 * 96 // 32 * 18
    assert repack_bytes(tied, Cpu.X86) == feed_forward + embedding
    assert repack_bytes(free, Cpu.X86) == feed_forward + embedding
    assert repack_bytes(odd, Cpu.X86) == feed_forward
    assert repack_bytes(eight, Cpu.X86) == 0
    assert repack_bytes(eight, Cpu.ARM) == (64 * 128 + 64 * 96) // 32 * 34


def test_template_of_the_family_needs_its_markers(tmp_path: Path) -> None:
    chat = "{{ '<|im_start|>' + role }}"
    assert _spec(gw.model("qwen2", template=chat), tmp_path).template == "chatml"
    assert _spec(gw.model("qwen2"), tmp_path).template is None
    assert _spec(gw.model("gemma3", template=chat), tmp_path).template is None
    assert _spec(gw.model("llama", template="[INST]"), tmp_path).template is None


@pytest.mark.parametrize(
    ("machine", "cpu"), [("x86_64", Cpu.X86), ("AMD64", Cpu.X86), ("arm64", Cpu.ARM), ("aarch64", Cpu.ARM)]
)
def test_host_cpu(machine: str, cpu: Cpu) -> None:
    assert host_cpu(machine) is cpu

"""Offered types, names, labels and sizes of requantized models, and the lines of the library's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.engine.quantize import tensor_begun, tensor_type
from muniment_runtime.model.ggml_types import FILE_TYPES, TENSOR_TYPES, base_type
from muniment_runtime.model.gguf import GgufHeader, read_header
from muniment_runtime.model.quantization import (
    BUFFER_BYTES,
    OFFERED,
    estimated_bytes,
    file_type_number,
    is_smaller,
    made_type,
    memory_bytes,
    offered_type,
    requantized_id,
    requantized_label,
)
from tests.helpers import gguf_writer as gw
from tests.helpers.quantizing import tiny

TYPES = {kind.name: kind for kind in TENSOR_TYPES.values()}


def _header(tmp_path: Path, data: bytes) -> GgufHeader:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    return read_header(path)


@pytest.mark.parametrize("text", ["Q2_K", "q2_k", " q2_K "])
def test_type_in_any_case(text: str) -> None:
    assert offered_type(text) == "Q2_K"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("IQ2_XS", "imatrix"),
        ("q2_k_s", "imatrix"),
        ("iq3_xs", "imatrix"),
        ("Q9", "unknown"),
        ("", "unknown"),
        ("F16", "unknown"),
    ],
)
def test_other_types_are_refused_with_the_list(text: str, reason: str) -> None:
    with pytest.raises(KnownError) as caught:
        offered_type(text)
    assert (caught.value.code, caught.value.params["reason"]) == ("E-QUANTIZE-TYPE", reason)
    for language in LANGUAGES:
        sentence = Translator(language).error(caught.value)
        assert "Q4_K_M" in sentence
        assert reason not in sentence


def test_every_offered_type_has_its_number_and_tensor_type() -> None:
    assert all(FILE_TYPES[file_type_number(name)] == name for name in OFFERED)
    assert {base_type(name) for name in OFFERED} <= set(TYPES)


@pytest.mark.parametrize(
    ("base", "file_type", "expected"),
    [
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", "Q2_K", "qwen2.5-coder-1.5b-instruct-q2_k-requantized"),
        ("smollm2-135m-instruct-q4_1", "Q3_K_S", "smollm2-135m-instruct-q3_k_s-requantized"),
        ("mistral.q8_0", "IQ4_XS", "mistral-iq4_xs-requantized"),
        ("phi_bf16", "Q4_0", "phi-q4_0-requantized"),
        ("tinyq4_0", "Q2_K", "tinyq4_0-q2_k-requantized"),
        ("q8_0", "Q4_0", "q8_0-q4_0-requantized"),
        ("plain", "Q4_0", "plain-q4_0-requantized"),
    ],
)
def test_id_names_base_and_type(base: str, file_type: str, expected: str) -> None:
    assert requantized_id(base, file_type) == expected


def test_long_ids_keep_what_tells_them_apart() -> None:
    made = requantized_id("a" * 80, "Q3_K_M", "0123abcd")
    assert len(made) == 80
    assert made.endswith("a-0123abcd-q3_k_m-requantized")


def test_estimate_is_the_size_of_the_file(tmp_path: Path) -> None:
    base = _header(tmp_path, tiny("Q8_0", 7))
    for name in ("Q2_K", "Q4_0", "F16"):
        made = _header(tmp_path, tiny(name, 0))
        types = {tensor.name: tensor.type for tensor in made.tensors}
        assert estimated_bytes(base, types) == made.file_bytes
    assert estimated_bytes(base, {tensor.name: tensor.type for tensor in base.tensors}) == base.file_bytes


def test_estimate_pads_every_tensor(tmp_path: Path) -> None:
    base = _header(tmp_path, gw.GgufFile().add_tensor("a", (32, 1), "F32").add_tensor("b", (32, 1), "F32").data())
    # 18 bytes each, padded to 32.
    assert estimated_bytes(base, {"a": TYPES["Q4_0"], "b": TYPES["Q4_0"]}) == base.data_offset + 64


@pytest.mark.parametrize(("result", "smaller"), [(970, True), (971, False), (1000, False), (2000, False), (0, True)])
def test_smaller_means_three_percent(result: int, smaller: bool) -> None:
    assert is_smaller(result, 1000) is smaller


def test_label_is_the_asked_type_when_most_weights_have_it(tmp_path: Path) -> None:
    made = _header(tmp_path, tiny("Q2_K", 10))
    assert requantized_label(made, "Q2_K", "Q8_0") == "Q2_K-from-Q8_0"
    assert made_type(_header(tmp_path, tiny("Q4_K", 15)), "Q4_K_M") == "Q4_K_M"


def test_label_is_the_real_type_after_a_fallback(tmp_path: Path) -> None:
    # The file says Q2_K, as the library writes it, but rows of 64 cannot hold it.
    made = _header(tmp_path, tiny("Q4_0", 10, embedding=64))
    assert requantized_label(made, "Q2_K", "Q8_0") == "Q4_0-from-Q8_0"


def test_label_counts_weights_of_layers_not_of_embeddings(tmp_path: Path) -> None:
    file = gw.GgufFile().add_tensor("token_embd.weight", (256, 100), "Q6_K")
    file.add_tensor("blk.0.ffn_up.weight", (256, 8), "Q2_K").add_tensor("blk.0.ffn_down.weight", (256, 4), "Q3_K")
    file.add_tensor("blk.0.attn_norm.weight", (4096,), "F32")
    assert made_type(_header(tmp_path, file.data()), "Q2_K") == "Q2_K"


def test_one_row_is_the_least_that_must_fit_into_memory(tmp_path: Path) -> None:
    small = _header(tmp_path, tiny())
    wide = _header(tmp_path, gw.GgufFile().add_tensor("a", (BUFFER_BYTES, 1), "Q8_0").data())
    assert BUFFER_BYTES < memory_bytes(small) < memory_bytes(wide)
    assert memory_bytes(wide) - memory_bytes(small) > 10 * BUFFER_BYTES


def test_log_line_that_begins_a_tensor() -> None:
    line = "[ 281/ 291] blk.23.attn_k.weight                 - [   896,    128,      1,      1], type =   q5_0, "
    assert tensor_begun(line) == ("blk.23.attn_k.weight", "q5_0")
    assert tensor_begun("[1000/2000] a b - c - [     1,      1,      1,      1], type =    f32, ") == ("a b - c", "f32")
    for other in ("", "size =     0.08 MiB\n", "[  1/ 2] x", "llama_model_quantize_impl: quant size = 1 MiB\n"):
        assert tensor_begun(other) is None


def test_log_line_that_ends_a_tensor() -> None:
    assert tensor_type("size =     0.53 MiB ->     0.43 MiB (q4_0)\n", "q5_0") == "q4_0"
    assert tensor_type("size =    0.003 MiB\n", "f32") == "f32"
    for other in ("", "converting to q4_0 .. ", "llama_model_quantize_impl: quant size  =   390.28 MiB (5.20 BPW)\n"):
        assert tensor_type(other, "f32") is None

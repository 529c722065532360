"""Weightless twins: same shapes, no weights, no tokenizer."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.model.gguf import GgufArray, read_header
from muniment_runtime.model.skeleton import Shape, ShapeTensor, _is_sparse, write_shape, write_skeleton
from muniment_runtime.model.spec import model_spec
from tests.helpers import gguf_writer
from tests.helpers.shapes import SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_a_valid_file_that_takes_no_room(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]()
    path = write_shape(shape, tmp_path / "shape.gguf")
    assert path is not None
    header = read_header(path)
    assert [(tensor.name, tensor.shape, tensor.type.name) for tensor in header.tensors] == [
        (tensor.name, tensor.shape, tensor.type_name) for tensor in shape.tensors
    ]
    assert sum(tensor.size_bytes for tensor in header.tensors) == shape.weights_bytes
    assert header.file_bytes > shape.weights_bytes > 10**8
    assert path.stat().st_blocks * 512 < 2**20
    spec = model_spec(header, model_id=name, path=path, sha256="0" * 64)
    assert spec.vocabulary == shape.vocabulary
    assert spec.layer_count == shape.keys["block_count"]


def test_a_twin_keeps_shapes_and_keys_and_drops_the_tokenizer(tmp_path: Path) -> None:
    real = gguf_writer.model("qwen2", vocabulary=300, heads_kv=[2, 1], template="{{ secret }}")
    real.add("tokenizer.ggml.token_type_count", "uint32", 2)
    real.add("tokenizer.ggml.pre", "string", "default")
    real.add("qwen2.rope.freq_base", "float32", 0.5)
    real.add("qwen2.attention.causal", "bool", True)
    real.add("qwen2.shift", "int32", -3)
    real.add("general.size", "uint64", 2**40)
    real.add("general.precise", "float64", 1e300)
    real.add_array("qwen2.pattern", "bool", [True, False])
    real.add_array("qwen2.none", "float32", [])
    header = read_header(real.write(tmp_path / "real.gguf"))

    path = write_skeleton(header, tmp_path / "twin.gguf")

    assert path is not None
    twin = read_header(path)
    assert twin.tensors == header.tensors
    kept = {key: value for key, value in header.metadata.items() if not key.startswith("tokenizer.")}
    assert twin.metadata == {
        **kept,
        "tokenizer.ggml.model": "no_vocab",
        "tokenizer.ggml.token_type_count": 2,
        "qwen2.vocab_size": 300,
    }
    assert b"secret" not in path.read_bytes()


def test_a_file_without_a_token_list_keeps_the_size_that_it_states(tmp_path: Path) -> None:
    made = gguf_writer.GgufFile().add("general.architecture", "string", "llama")
    made.add("llama.vocab_size", "uint32", 77)
    path = write_skeleton(read_header(made.write(tmp_path / "real.gguf")), tmp_path / "twin.gguf")
    assert path is not None
    assert read_header(path).metadata["llama.vocab_size"] == 77


def test_whole_numbers_are_written_as_the_library_asks_for_them(tmp_path: Path) -> None:
    path = write_skeleton(
        read_header(gguf_writer.model().write(tmp_path / "real.gguf")),
        tmp_path / "twin.gguf",
    )
    assert path is not None
    uint32 = 4
    assert gguf_writer.text("llama.block_count") + struct.pack("<iI", uint32, 2) in path.read_bytes()


def test_a_large_array_outside_the_tokenizer_needs_the_real_file(tmp_path: Path) -> None:
    made = gguf_writer.model()
    made.add_array("llama.table", "uint32", list(range(5000)))
    header = read_header(made.write(tmp_path / "real.gguf"))
    table = header.metadata["llama.table"]
    assert isinstance(table, GgufArray)
    assert table.values is None
    assert write_skeleton(header, tmp_path / "twin.gguf") is None
    assert not (tmp_path / "twin.gguf").exists()


def test_a_file_without_architecture_is_refused(tmp_path: Path) -> None:
    header = read_header(gguf_writer.GgufFile().add("general.name", "string", "x").write(tmp_path / "real.gguf"))
    with pytest.raises(KnownError) as caught:
        write_skeleton(header, tmp_path / "twin.gguf")
    assert caught.value.code == "E-MODEL-MALFORMED"


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    taken = tmp_path / "taken.gguf"
    taken.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        write_shape(SHAPES["gemma3-270m"](), taken)
    assert taken.read_bytes() == b"precious"


def test_a_row_that_does_not_divide_into_blocks_is_our_mistake(tmp_path: Path) -> None:
    shape = Shape("llama", 1, {}, (ShapeTensor("x.weight", (100, 2), "Q4_K"),))
    with pytest.raises(BugError):
        write_shape(shape, tmp_path / "shape.gguf")


@pytest.mark.parametrize(("filled", "sparse"), [(0, True), (4 << 20, False)])
def test_room_on_the_disk_tells_whether_there_is_a_hole(filled: int, sparse: bool, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes([1]) * filled)
        file.truncate(8 << 20)
        file.flush()
        assert _is_sparse(file.fileno(), 1000) is sparse

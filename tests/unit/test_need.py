"""The closed form: streams, windows, states, cache types, weights, and how temporary tensors are placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_resources.units import MIB
from muniment_runtime.contracts import GraphShape, KvType, LayerKv, LayerShape, RunConfig
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.repack import WIDEST
from muniment_runtime.model.skeleton import write_shape
from muniment_runtime.model.spec import model_spec
from muniment_runtime.planner.arena import Quantity, Tape, size, unpacked
from muniment_runtime.planner.graph import Mode, record, representative
from muniment_runtime.planner.need import (
    NeedModel,
    compute_bytes,
    context_cells,
    estimate,
    kv_bytes,
    kv_fits_type,
    kv_row_bytes,
    ubatch_tokens,
    vocabulary_bytes,
    weights_bytes,
)
from muniment_runtime.planner.resident import after_load, after_prefill, resident_split
from tests.helpers.shapes import SHAPES
from tests.unit.planner_specs import spec_of

WINDOWED = spec_of(layers=(LayerKv(64, 64), LayerKv(64, 64, 512)))


def shape_model(name: str, folder: Path) -> NeedModel:
    path = write_shape(SHAPES[name](), folder / f"{name}.gguf")
    assert path is not None
    return NeedModel(model_spec(read_header(path), model_id=name, path=path, sha256="", cpu=WIDEST))


# --- cache --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "sequences", "unified", "cells"),
    [
        (1000, 1, False, 1024),
        (1000, 3, False, 1024),
        (300, 2, False, 512),  # 600 tokens are 768 cells, 384 a stream, rounded up again
        (300, 2, True, 768),
        (1000, 3, True, 3072),
    ],
)
def test_cells_of_one_stream(context: int, sequences: int, unified: bool, cells: int) -> None:
    config = RunConfig("m", context, sequences=sequences, unified=unified)
    assert context_cells(config) == cells
    one_row = 2 * (128 + 128) * 24
    assert kv_bytes(spec_of(), config) == one_row * cells * (1 if unified else sequences)


def test_a_window_is_kept_for_each_stream_or_once_for_all() -> None:
    row = 2 * (64 + 64)
    split = RunConfig("m", 4096, sequences=4, ubatch=256)
    # Split: 512 + 256 cells in each of four streams. Unified: four windows and one batch, 2304 cells.
    assert kv_bytes(WINDOWED, split) == row * 4 * (4096 + 768)
    assert kv_bytes(WINDOWED, split._replace(unified=True)) == row * (4 * 4096 + 2304)
    # A window never holds more than the context.
    assert kv_bytes(WINDOWED, RunConfig("m", 256)) == row * 2 * 256


@pytest.mark.parametrize(
    ("kv_type", "bytes_of_32"),
    list(zip(KvType, (128, 64, 64, 34, 24, 22, 20, 18, 18), strict=True)),
)
def test_a_row_of_every_type(kv_type: KvType, bytes_of_32: int) -> None:
    assert kv_row_bytes(kv_type, 96) == 3 * bytes_of_32
    assert kv_fits_type(spec_of(layers=(LayerKv(96, 64),)), kv_type)
    odd = spec_of(layers=(LayerKv(80, 80),))
    assert kv_fits_type(odd, kv_type) is not kv_type.quantized
    if kv_type.quantized:
        with pytest.raises(BugError):
            kv_row_bytes(kv_type, 80)
    else:
        assert kv_bytes(odd, RunConfig("m", 256, kv_type)) == 256 * 2 * 80 * bytes_of_32 // 32


def test_a_quantized_cache_without_flash_attention_is_a_bug_however_often_it_is_asked() -> None:
    model = NeedModel(spec_of())
    for _ in range(2):
        with pytest.raises(BugError):
            model.need(RunConfig("m", 512, KvType.Q4_0, flash_attention=False))


def test_a_batch_is_bounded_by_context_and_logical_batch() -> None:
    assert ubatch_tokens(RunConfig("m", 100)) == 100
    assert ubatch_tokens(RunConfig("m", 100, sequences=3)) == 300
    assert ubatch_tokens(RunConfig("m", 4096, batch=128)) == 128


# Figures of llama.cpp's own dry run.
@pytest.mark.parametrize(
    ("name", "config", "kv_mib", "compute_mib"),
    [
        ("llama-3.2-1b", RunConfig("m", 8192), 256.0, 72.01),
        ("llama-3.1-8b", RunConfig("m", 8192), 1024.0, 124.01),
        ("gemma3-4b", RunConfig("m", 8192), 160.0 + 174.0, 88.52),
        ("gemma2-2b", RunConfig("m", 8192), 416.0 + 234.0, 84.02),
        ("deepseek2-lite", RunConfig("m", 8192), 243.0, 97.01),
        ("qwen3-30b-a3b", RunConfig("m", 8192), 768.0, 96.01),
        ("mixtral-8x7b", RunConfig("m", 8192), 1024.0, 208.01),
        ("phi3-mini", RunConfig("m", 8192), 3072.0, 74.01),
        ("llama-3.2-1b", RunConfig("m", 4096, flash_attention=False), 128.0, 286.01),
        ("llama-3.2-1b", RunConfig("m", 2048, sequences=4, flash_attention=False), 256.0, 154.01),
        ("llama-3.2-1b", RunConfig("m", 2048, sequences=4, flash_attention=False, unified=True), 256.0, 550.01),
        ("llama-3.2-1b", RunConfig("m", 4096, KvType.Q8_0), 68.0, 64.04 + 4.0),
    ],
)
def test_known_models(name: str, config: RunConfig, kv_mib: float, compute_mib: float, tmp_path: Path) -> None:
    need = shape_model(name, tmp_path).need(config)
    assert need.kv_bytes == kv_mib * MIB
    assert need.compute_bytes / MIB == pytest.approx(compute_mib, rel=0.07)


def test_states_grow_with_sequences_and_not_with_context(tmp_path: Path) -> None:
    model = shape_model("qwen3.5-4b-like", tmp_path)
    one = model.need(RunConfig("m", 4096))
    assert one.recurrent_bytes == 50.25 * MIB
    assert model.need(RunConfig("m", 32768)).recurrent_bytes == one.recurrent_bytes
    assert model.need(RunConfig("m", 4096, sequences=4)).recurrent_bytes == 4 * one.recurrent_bytes


def test_a_model_that_is_recurrent_throughout_has_no_cache(tmp_path: Path) -> None:
    need = shape_model("mamba-2.8b", tmp_path).need(RunConfig("m", 8192))
    assert need.kv_bytes == 0
    assert need.recurrent_bytes > 0
    assert need.compute_bytes > 0


def test_layers_without_heads_are_padded_without_flash_attention(tmp_path: Path) -> None:
    model = shape_model("deci-like", tmp_path)
    widest = 8 * 128
    rows = sum(layer.k_elements + widest for layer in model.spec.layers)
    assert model.need(RunConfig("m", 256, flash_attention=False)).kv_bytes == 256 * 2 * rows


# --- weights and residency ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mmap", "repack", "more"), [(True, True, 70), (True, False, 0), (False, True, 30), (False, False, 0)]
)
def test_weights_are_mapped_copied_or_read(mmap: bool, repack: bool, more: int) -> None:
    spec = spec_of(weights_bytes=1000, repack_bytes=70, tied_copy_bytes=30)
    config = RunConfig("m", 512, mmap=mmap, repack=repack)
    assert weights_bytes(spec, config) == 1000 + more
    need = estimate(spec, config)
    assert need.weights_bytes == 1000 + more
    anonymous, file = resident_split(spec, config, need)
    assert anonymous == (
        need.weights_bytes - (1000 if mmap else 0) + need.kv_bytes + need.output_bytes + vocabulary_bytes(spec)
    )
    assert file - resident_split(spec, config._replace(mmap=False), need)[1] == (1000 if mmap else 0)
    assert after_load(spec, config, need) == (anonymous, file)
    filled = after_prefill(spec, config, need)
    assert filled.anonymous_bytes - anonymous >= need.compute_bytes
    assert 0 < filled.file_bytes - file < 2 * MIB


def test_every_byte_of_a_need_is_foreseen_in_memory() -> None:
    spec = spec_of(recurrent_elements=1000)
    config = RunConfig("m", 2048)
    need = estimate(spec, config, residual_bytes=0)
    grown = sum(after_prefill(spec, config, need))
    # What is missing is the process itself, which was there before the load.
    assert 30 * MIB < need.total_bytes - grown < 60 * MIB


def test_an_architecture_without_a_graph_is_never_guessed() -> None:
    with pytest.raises(KnownError) as caught:
        NeedModel(spec_of(architecture="unheard-of"))
    assert caught.value.code == "E-MODEL-UNSUPPORTED"
    shape = GraphShape((LayerShape(feed_forward=8),))
    with pytest.raises(BugError):
        record("unheard-of", shape, 64, 100, Mode(flash=True, quantized=False, element_bytes=2))


def test_a_prepared_model_answers_alike_in_any_order() -> None:
    configs = [RunConfig("m", 2048, kv_type, count) for kv_type in (KvType.F16, KvType.Q8_0) for count in (1, 3)]
    model = NeedModel(WINDOWED, residual_bytes=5)
    first = [model.need(config) for config in configs]
    assert [model.need(config) for config in reversed(configs)] == list(reversed(first))
    assert first == [estimate(WINDOWED, config, 5) for config in configs]
    assert {need.residual_bytes for need in first} == {5}


def test_one_sequence_more_never_saves_temporary_memory() -> None:
    """Three sequences round a batch of 512 up to 513 tokens, four do not."""
    three, four = (compute_bytes(spec_of(), RunConfig("m", 2048, sequences=count)) for count in (3, 4))
    assert four >= three


# --- placement ----------------------------------------------------------------------------------------------------

POINT = (1, 1, 1, 1, 1, 1, 1)


def placed(tape: Tape) -> int:
    return sum(unpacked(tape.peak(POINT)))


def test_a_size_keeps_its_factors() -> None:
    packed = size(one=1, tokens=2, global_=3, window=4, sequences=5, rows=6, cells=7)
    assert unpacked(packed) == (1, 2, 3, 4, 5, 6, 7)
    assert unpacked(packed + packed)[Quantity.CELLS] == 14
    assert len(unpacked(0)) == len(Quantity)


def test_tensors_that_never_meet_share_their_place() -> None:
    tape = Tape()
    hidden = tape.node(size(tokens=64))
    for _ in range(10):
        hidden = tape.node(size(tokens=64), hidden)
    assert placed(tape) == 128


def test_a_result_takes_over_the_place_of_its_only_reader() -> None:
    tape = Tape()
    hidden = tape.node(size(tokens=64))
    for _ in range(10):
        hidden = tape.follow(hidden)
    assert placed(tape) == 64


def test_a_place_with_another_reader_is_not_taken_over() -> None:
    tape = Tape()
    hidden = tape.node(size(tokens=64))
    other = tape.follow(hidden)
    tape.node(size(tokens=64), hidden, other, reuse=(hidden, other))
    assert placed(tape) == 128


def test_the_second_choice_is_taken_over_when_the_first_cannot_be() -> None:
    tape = Tape()
    kept = tape.node(size(tokens=64))
    own = tape.node(size(tokens=64))
    total = tape.node(size(tokens=64), kept, own, reuse=(kept, own))
    tape.node(0, kept, total)
    assert placed(tape) == 128


def test_inputs_live_from_the_start_until_their_last_reader() -> None:
    tape = Tape()
    mask = tape.input(size(global_=100))
    hidden = tape.node(size(tokens=10))
    hidden = tape.node(size(tokens=10), hidden, mask)
    # The mask's place is free now and the smallest that fits.
    tape.node(size(tokens=100), hidden)
    assert placed(tape) == 100 + 10 + 10


def test_the_smallest_gap_that_fits_is_filled() -> None:
    tape = Tape()
    large, between, small, after = (tape.node(size(one=length)) for length in (50, 1, 20, 1))
    tape.node(0, large)
    tape.node(0, small)
    first = tape.node(size(one=20))
    second = tape.node(size(one=50))
    tape.node(0, between, after, first, second)
    assert placed(tape) == 50 + 1 + 20 + 1


def test_gaps_side_by_side_become_one() -> None:
    tape = Tape()
    parts = [tape.node(size(one=length)) for length in (10, 20, 30, 5)]
    for part in (parts[0], parts[2], parts[1]):
        tape.node(0, part)
    whole = tape.node(size(one=60))
    tape.node(0, whole, parts[3])
    assert placed(tape) == 65


def test_the_peak_follows_the_quantities() -> None:
    tape = Tape()
    mask = tape.input(size(global_=2))
    hidden = tape.node(size(tokens=8))
    tape.node(size(tokens=24), hidden, mask)
    assert unpacked(tape.peak((1, 10, 1000, 0, 1, 1, 100))) == (0, 32, 2, 0, 0, 0, 0)


def test_layers_that_repeat_are_recorded_a_few_times() -> None:
    wide, narrow = LayerShape(heads=1, feed_forward=2), LayerShape(heads=1, feed_forward=1)
    assert representative((wide,)) == (0,)
    assert representative((wide,) * 100) == (0, 1, 2, 99)
    kept = representative((narrow, wide) * 50)
    assert len(kept) < 12
    assert kept[-1] == 99
    assert {0, 1, 2} <= set(kept)


def test_layers_that_all_differ_are_all_recorded() -> None:
    kinds = tuple(LayerShape(heads=1, feed_forward=width) for width in (1, 2, 3, 4, 5))
    layers = kinds + kinds[:1] * 5
    assert representative(layers) == tuple(range(10))

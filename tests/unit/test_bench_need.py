"""The pure parts of the memory bench: lengthened states, errors as figures, and what it measures."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from bench.need_loads import configurations as loads_of
from bench.need_loads import error_ratio
from bench.need_oracle import configurations, difference, shape_spec
from bench.need_planner import LEAST_CANDIDATES, plan_once, planner_specs
from bench.need_state import SavedCache, lengthened, parse
from bench.need_wins import short_name
from muniment_resources.units import MIB
from muniment_runtime.contracts import KvType, Need, NeedBasis, OracleSizes, RunConfig
from muniment_runtime.planner.needs import Needs
from tests.helpers.shapes import SHAPES
from tests.unit.planner_specs import spec_of

MAGIC = 0xAF143CD8
ROWS = (4, 6)
"""Bytes of a row of K and of V in the states made here."""


def _cache(positions: range, *, streams: int = 1, stream: int = 0, layers: int = 2, transposed: int = 0) -> bytes:
    parts = [struct.pack("=I", streams)]
    for number in range(streams):
        if number != stream:
            parts.append(struct.pack("=I", 0))
            continue
        parts.append(struct.pack("=I", len(positions)))
        parts += [struct.pack("=iIi", position, 1, 0) for position in positions]
        parts.append(struct.pack("=II", transposed, layers))
        for row_bytes in ROWS:
            for layer in range(layers):
                parts.append(struct.pack("=iQ", 1, row_bytes))
                parts += [bytes([layer * 100 + position % 100]) * row_bytes for position in positions]
    return b"".join(parts)


def _state(*caches: bytes) -> memoryview:
    return memoryview(struct.pack("=Ii", MAGIC, 0) + b"".join(caches))


def _lengthened(state: memoryview, length: int) -> list[SavedCache]:
    start, caches = parse(memoryview(b"".join(lengthened(state, length))))
    assert start == struct.pack("=Ii", MAGIC, 0)
    return caches


def test_a_whole_cache_grows_by_repeating_its_rows() -> None:
    (cache,) = _lengthened(_state(_cache(range(5), streams=4, stream=2)), 12)
    assert (cache.streams, cache.stream, cache.layer_count) == (4, 2, 2)
    assert cache.positions == tuple(range(12))
    assert [layer.row_bytes for layer in cache.layers] == [4, 4, 6, 6]
    second_v = cache.layers[3]
    assert bytes(second_v.rows) == b"".join(bytes([100 + cell % 5]) * 6 for cell in range(12))


def test_a_window_keeps_its_cells_and_moves_to_the_end() -> None:
    whole, window = _lengthened(_state(_cache(range(9)), _cache(range(5, 9))), 100)
    assert whole.positions == tuple(range(100))
    assert window.positions == (96, 97, 98, 99)
    assert bytes(window.layers[0].rows) == b"".join(bytes([cell]) * 4 for cell in range(5, 9))


def test_an_equal_length_gives_the_state_itself() -> None:
    state = _state(_cache(range(9)), _cache(range(5, 9)))
    assert b"".join(lengthened(state, 9)) == bytes(state)


@pytest.mark.parametrize(
    ("state", "length"),
    [
        (_state(_cache(range(9))), 8),
        (_state(_cache(range(4)), _cache(range(4))), 100),
        (_state(_cache(range(4), transposed=1)), 100),
        (_state(_cache(range(4)))[:-1], 100),
        (_state(struct.pack("=II", 1, 0)), 100),
    ],
    ids=["shorter", "window not full", "transposed", "cut", "empty"],
)
def test_a_state_that_cannot_be_lengthened_is_refused(state: memoryview, length: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        list(lengthened(state, length))


def test_error_is_in_units_of_three_percent_and_16_mib() -> None:
    assert error_ratio(1000 * MIB, 1000 * MIB) == 0
    assert error_ratio(1046 * MIB, 1000 * MIB) == pytest.approx(1)
    assert error_ratio(908 * MIB, 1000 * MIB) == pytest.approx(2)


def test_difference_looks_at_cache_and_state_apart_and_at_the_sum() -> None:
    need = Need(100 * MIB, 10 * MIB, 2 * MIB, 40 * MIB, 8 * MIB, 500 * MIB, 0)
    sizes = OracleSizes(9 * MIB, 5 * MIB, 50 * MIB, 6 * MIB, 90 * MIB, 4096, 1)
    found = difference(RunConfig("m", 4096), need, sizes)
    assert found.cache_mib == 3
    # 160 against 160: the errors cancel; the process itself is not the library's matter.
    assert found.total_percent == 0
    assert found.compute_percent == -20


def test_there_are_enough_shapes_and_configurations(tmp_path: Path) -> None:
    specs = [shape_spec(name, tmp_path) for name in SHAPES]
    covered = [spec for spec in specs if spec.supported]
    assert len(covered) >= 12
    found = [config for spec in covered for config in configurations(spec)]
    assert len(found) == len(set(found)) >= 800
    assert {config.kv_type for config in found} == {KvType.F16, KvType.Q8_0, KvType.Q4_0}
    assert {config.unified for config in found} == {True, False}
    assert all(config.flash_attention or not config.kv_type.quantized for config in found)


def test_all_loads_are_measured_and_the_quick_ones_touch_every_setting() -> None:
    long = spec_of(weights_bytes=100 * MIB)
    assert len(list(loads_of(long, quick=False))) == 3 * 2 * 2 * 2
    assert len(list(loads_of(spec_of(context_train=8192), quick=False))) == 2 * 2 * 2 * 2
    quick = list(loads_of(long, quick=True))
    assert {config.context for config in quick} == {2048, 8192, 32768}
    for values in ("kv_type", "sequences", "mmap"):
        assert len({getattr(config, values) for config in quick}) == 2


def test_the_timed_plan_holds_500_candidates_by_the_closed_form() -> None:
    plan = plan_once(planner_specs(), Needs())
    assert len(plan.candidates) >= LEAST_CANDIDATES
    assert {candidate.need.basis for candidate in plan.candidates} == {NeedBasis.FORMULA}
    assert {candidate.fits for candidate in plan.candidates} == {True, False}


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("gemma-3-270m-q4_k_m", "gemma_3_270m"),
        ("smollm2-135m-instruct-q4_1", "smollm2_135m"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", "qwen2_5_coder_1_5b"),
    ],
)
def test_models_have_short_names_in_keys(model_id: str, name: str) -> None:
    assert short_name(model_id) == name

"""What was learned survives a restart, another instance and a damaged file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muniment_app.services.measurements import Measurements
from muniment_runtime.contracts import KvType, Need, NeedBasis, RunConfig
from muniment_runtime.planner.residual import KEPT_SAMPLES, Residual, ResidualKey, added, residual_of, spread_of
from tests.unit.planner_specs import spec_of

MIB = 1 << 20
SPEC = spec_of("m")
NEED = Need(100, 20, 3, 4, 5, 6, 0, NeedBasis.ORACLE)
KEY = ResidualKey("llama", "llama_cpp", "linux")


def test_dry_runs_come_back_for_any_number_of_threads_and_any_name(tmp_path: Path) -> None:
    config = RunConfig(
        "m", 1000, KvType.Q4_0, 3, 256, 64, flash_attention=True, mmap=False, device_layers=2, threads=7, unified=True
    )
    odd = RunConfig("m", 2048, repack=False)
    Measurements(tmp_path / "f.json", "lib 1").learn_dry_runs(SPEC, [(config, NEED), (odd, None)])
    again = Measurements(tmp_path / "f.json", "lib 1")
    known = again.dry_runs(spec_of("renamed"), threads=2)
    assert known == {
        config._replace(model_id="renamed", threads=2): NEED,
        odd._replace(model_id="renamed", threads=2): None,
    }


def test_another_engine_version_or_file_knows_nothing(tmp_path: Path) -> None:
    first = Measurements(tmp_path / "f.json", "lib 1")
    first.learn_dry_runs(SPEC, [(RunConfig("m", 2048), NEED)])
    first.learn_unloadable(SPEC, "E-PROBE-MODEL")
    assert Measurements(tmp_path / "f.json", "lib 2").dry_runs(SPEC, 2) == {}
    assert Measurements(tmp_path / "f.json", "lib 2").unloadable(SPEC) is None
    assert Measurements(tmp_path / "f.json", "lib 1").unloadable(SPEC) == "E-PROBE-MODEL"


def test_two_instances_keep_each_others_facts(tmp_path: Path) -> None:
    one, two = Measurements(tmp_path / "f.json", "lib"), Measurements(tmp_path / "f.json", "lib")
    one.learn_residual(KEY, 5)
    two.learn_residual(KEY, 7)
    one.learn_dry_runs(SPEC, [(RunConfig("m", 2048), NEED)])
    known = Measurements(tmp_path / "f.json", "lib")
    assert known.residuals() == {KEY: residual_of((5, 7))}
    assert len(known.dry_runs(SPEC, 2)) == 1


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    keys = [ResidualKey(f"a{number}", "b", "c") for number in range(24)]

    def write(key: ResidualKey) -> None:
        Measurements(path, "lib").learn_residual(key, 1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, keys))
    assert set(Measurements(path, "lib").residuals()) == set(keys)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"format": 9}',
        json.dumps({"format": 1, "dry_runs": 3, "unloadable": [], "residuals": None}),
        json.dumps(
            {
                "format": 1,
                "dry_runs": {
                    "x": [1, 2],
                    "lib|h|2048|f16|1|512|512|1|1|0|0|1": [1, 2, 3, 4, 5, 6, True],
                    "lib|h|bad": None,
                },
                "unloadable": {"lib|h": 5},
                "residuals": {"a|b": [1], "a|b|c": ["x"]},
            }
        ),
    ],
)
def test_damaged_file_is_an_empty_start(tmp_path: Path, content: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(content, "utf-8")
    facts = Measurements(path, "lib")
    assert facts.dry_runs(SPEC, 2) == {}
    assert facts.residuals() == {}
    facts.learn_residual(KEY, 1)
    assert Measurements(path, "lib").residuals() == {KEY: residual_of((1,))}


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    facts = Measurements(blocked / "f.json", "lib")
    facts.learn_residual(KEY, 1)
    assert facts.residuals() == {KEY: residual_of((1,))}


def test_residual_is_the_95th_percentile_and_its_spread_widens_the_reserve() -> None:
    assert residual_of(()) == Residual(0, 0, 0)
    samples = tuple(range(-10, 10))
    found = residual_of(samples)
    assert found == Residual(20, -1, 8)
    assert (found.correction_bytes, found.spread_bytes) == (8, 9)
    low = residual_of((-30, -20))
    assert (low.correction_bytes, low.spread_bytes) == (0, 10)
    assert spread_of({KEY: found, ResidualKey("a", "b", "c"): low}) == 10
    assert spread_of({}) == 0


@given(st.lists(st.integers(-(10**9), 10**9), max_size=80))
def test_only_the_latest_samples_count(values: list[int]) -> None:
    samples: tuple[int, ...] = ()
    for value in values:
        samples = added(samples, value)
    assert samples == tuple(values[-KEPT_SAMPLES:])
    found = residual_of(samples)
    assert found.correction_bytes >= 0
    assert found.spread_bytes >= 0
    if samples:
        assert sum(value <= found.high_bytes for value in samples) >= 0.95 * len(samples)
        assert found.typical_bytes in samples

"""The closed form against llama.cpp's own figures for many shapes, and against resident memory on real models."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muniment_resources.units import MIB
from muniment_runtime.contracts import KvType, ModelSpec, Need, OracleSizes, RunConfig
from muniment_runtime.engine.library import open_library
from muniment_runtime.engine.oracle import DryRun
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.repack import host_cpu, repack_bytes, tied_copy_bytes
from muniment_runtime.model.skeleton import write_shape
from muniment_runtime.model.spec import model_spec
from muniment_runtime.planner.need import NeedModel, estimate, kv_fits_type
from muniment_runtime.planner.resident import Growth, after_load, after_prefill
from tests.helpers.shapes import SHAPES, dense
from tests.model.conftest import ModelFile

CHILD = Path(__file__).with_name("need_child.py")

QWEN = "qwen2.5-coder-0.5b-instruct-q4_k_m"
SMOLLM = "smollm2-135m-instruct-q4_1"
GEMMA = "gemma-3-270m-q4_k_m"

KINDS = ((True, KvType.F16), (True, KvType.Q8_0), (False, KvType.F16), (True, KvType.Q4_0), (True, KvType.BF16))
GRID = [
    RunConfig("m", context, kv_type, sequences, ubatch=ubatch, flash_attention=flash, unified=unified)
    for context, ubatch, sequences, unified, (flash, kv_type) in itertools.product(
        (512, 1000, 4096, 20000, 32768), (512, 256, 128, 64), (1, 2, 4, 8), (False, True), KINDS
    )
]
# A step that shares no factor with the lengths above visits every value of every setting.
CONFIGS = GRID[::19]


def spec_of_file(path: Path) -> ModelSpec:
    return model_spec(read_header(path), model_id=path.stem, path=path, sha256="0" * 64)


class Compared:
    """Dry runs of shapes beside the closed form, each shape run once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = open_library()
        self._pairs: dict[str, list[tuple[RunConfig, OracleSizes, Need]]] = {}

    def pairs(self, name: str) -> list[tuple[RunConfig, OracleSizes, Need]]:
        if name not in self._pairs:
            path = write_shape(SHAPES[name](), self._folder / f"{name}.gguf")
            assert path is not None
            spec = spec_of_file(path)
            model = NeedModel(spec)
            dry = DryRun(self._library, path, name)
            try:
                self._pairs[name] = [
                    (config, dry.sizes(config), model.need(config))
                    for config in CONFIGS
                    if kv_fits_type(spec, config.kv_type)
                ]
            finally:
                dry.close()
        return self._pairs[name]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("shapes"))


def total_error(dry: OracleSizes, need: Need, weights_bytes: int) -> float:
    """Relative error of weights, cache, states, temporary tensors and output together."""
    said = dry.kv_bytes + dry.recurrent_bytes + dry.compute_bytes + dry.output_bytes
    ours = need.kv_bytes + need.recurrent_bytes + need.compute_bytes + need.output_bytes
    return (ours - said) / (weights_bytes + said)


@pytest.mark.parametrize("name", SHAPES)
def test_cache_and_states_are_exact(name: str, compared: Compared) -> None:
    pairs = compared.pairs(name)
    assert len(pairs) >= 40
    for config, dry, need in pairs:
        # The library prints hundredths of a MiB; a model has at most two caches and one state.
        assert need.kv_bytes / MIB == pytest.approx(dry.kv_bytes / MIB, abs=0.0101), config
        assert need.recurrent_bytes / MIB == pytest.approx(dry.recurrent_bytes / MIB, abs=0.0051), config
        assert need.output_bytes / MIB == pytest.approx(dry.output_bytes / MIB, abs=0.0051), config


@pytest.mark.parametrize("name", SHAPES)
def test_temporary_tensors_are_close_everywhere(name: str, compared: Compared) -> None:
    for config, dry, need in compared.pairs(name):
        assert need.compute_bytes / MIB == pytest.approx(dry.compute_bytes / MIB, rel=0.15, abs=4), config
        assert abs(total_error(dry, need, dry.weights_bytes)) <= 0.03, config


def test_total_meets_its_targets(compared: Compared) -> None:
    errors = sorted(
        abs(total_error(dry, need, dry.weights_bytes)) for name in SHAPES for _, dry, need in compared.pairs(name)
    )
    assert len(SHAPES) >= 12
    assert len(errors) >= 800
    percentile = errors[int(0.95 * len(errors))]
    sys.stderr.write(
        f"{len(errors)} configurations, {len(SHAPES)} shapes: p95 {percentile:.4%}, maximum {errors[-1]:.4%}\n"
    )
    assert percentile <= 0.01
    assert errors[-1] <= 0.03


# --- real files -------------------------------------------------------------------------------------------------


def run_child(path: Path, configs: list[RunConfig], *, fill: bool) -> list[dict[str, Any]]:
    task = {
        "mmap": configs[0].mmap,
        "repack": configs[0].repack,
        "fill": fill,
        "settings": [
            {
                "context": config.context * config.sequences,
                "ubatch": config.ubatch,
                "sequences": config.sequences,
                "unified": config.unified,
                "flash": config.flash_attention,
                "kv_type": str(config.kv_type),
            }
            for config in configs
        ],
    }
    command = [sys.executable, str(CHILD), str(path), json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("model_id", [SMOLLM, GEMMA, QWEN])
def test_buffers_match_what_a_real_load_reports(model_id: str, model_file: ModelFile) -> None:
    path = model_file(model_id)
    spec = spec_of_file(path)
    configs = [
        RunConfig("m", context, kv_type, sequences, ubatch=ubatch, flash_attention=flash, unified=unified)
        for (context, ubatch), (sequences, unified), (flash, kv_type) in itertools.product(
            ((2048, 512), (1024, 64)), ((1, False), (3, False), (3, True)), KINDS[:3]
        )
    ]
    reports = run_child(path, configs, fill=False)
    assert len(reports) == len(configs)
    for config, report in zip(configs, reports, strict=True):
        need = estimate(spec, config)
        rounding = 0.0051 * len(report["kv_mib"])
        assert need.kv_bytes / MIB == pytest.approx(sum(report["kv_mib"]), abs=rounding), config
        assert need.output_bytes / MIB == pytest.approx(sum(report["output_mib"]), abs=0.01), config
        assert need.compute_bytes / MIB == pytest.approx(sum(report["compute_mib"]), rel=0.1, abs=0.7), config
        assert spec.repack_bytes / MIB == pytest.approx(report["copied_mib"], abs=0.01), config


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_K", "Q2_K", "IQ4_NL"])
@pytest.mark.parametrize("mmap", [True, False])
def test_copied_weights_are_exactly_those_that_the_library_copies(type_name: str, mmap: bool, tmp_path: Path) -> None:
    shape = dense(
        "llama",
        layers=2,
        embedding=512,
        feed_forward=1024,
        heads=8,
        heads_kv=4,
        vocabulary=32000,
        tied=True,
        types=(type_name, type_name),
    )
    path = write_shape(shape, tmp_path / "copied.gguf")
    assert path is not None
    header = read_header(path)
    config = RunConfig("m", 512, mmap=mmap)
    (report,) = run_child(path, [config], fill=False)
    assert repack_bytes(header, host_cpu()) / MIB == pytest.approx(report["copied_mib"], abs=0.0051)
    assert tied_copy_bytes(header, host_cpu()) in (0, 512 * 32000 // 32 * 18, 512 * 32000 // 256 * 144)


SETTINGS = (
    RunConfig("m", 1024),
    RunConfig("m", 256, sequences=4, repack=False),
    RunConfig("m", 256, sequences=4, unified=True, mmap=False),
    RunConfig("m", 1024, KvType.Q8_0, mmap=False, repack=False, ubatch=128),
)


@pytest.mark.parametrize("model_id", [SMOLLM, GEMMA])
@pytest.mark.parametrize("config", SETTINGS, ids=["mapped", "mapped, plain", "read, unified", "read, plain"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
def test_resident_memory_grows_as_foreseen(model_id: str, config: RunConfig, model_file: ModelFile) -> None:
    path = model_file(model_id)
    spec = spec_of_file(path)
    report = run_child(path, [config], fill=True)[0]
    need = estimate(spec, config)
    for state, foreseen in (
        ("loaded", after_load(spec, config, need)),
        ("filled", after_prefill(spec, config, need)),
    ):
        found = Growth(*(report[state][kind] - report["bare"][kind] for kind in ("anonymous", "file")))
        for kind, expected, real in zip(Growth._fields, foreseen, found, strict=True):
            figures = f"{state}, {kind}: foreseen {expected / MIB:.1f} MiB, found {real / MIB:.1f} MiB"
            sys.stderr.write(f"{model_id}: {figures}\n")
            assert expected == pytest.approx(real, rel=0.03, abs=16 * MIB), figures
    process = report["filled"]["anonymous"] + report["filled"]["file"]
    assert need.total_bytes == pytest.approx(process, rel=0.03, abs=16 * MIB)

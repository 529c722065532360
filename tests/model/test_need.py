"""The closed form against llama.cpp's own figures and against resident memory, on real models."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muniment_resources.units import MIB
from muniment_runtime.contracts import KvType, LayerKv, ModelSpec, RunConfig
from muniment_runtime.planner.need import compute_bytes, estimate, kv_bytes, output_bytes
from tests.unit.planner_specs import spec_of

CHILD = Path(__file__).with_name("need_child.py")

# Shapes as they stand in the files' headers, typed in by hand: independent of the program's header reader.
QWEN = spec_of(
    "qwen2.5-coder-0.5b-instruct-q4_k_m",
    architecture="qwen2",
    layers=(LayerKv(128, 128),) * 24,
    embedding_length=896,
    feed_forward_length=4864,
    head_count=14,
    head_count_kv=2,
    head_dim=64,
    vocabulary=151936,
    weights_bytes=485452288,
)
SMOLLM = spec_of(
    "smollm2-135m-instruct-q4_1",
    architecture="llama",
    layers=(LayerKv(192, 192),) * 30,
    embedding_length=576,
    feed_forward_length=1536,
    head_count=9,
    head_count_kv=3,
    head_dim=64,
    vocabulary=49152,
    weights_bytes=96576768,
)
GEMMA = spec_of(
    "gemma-3-270m-q4_k_m",
    architecture="gemma3",
    layers=tuple(LayerKv(256, 256, 0 if index % 6 == 5 else 512) for index in range(18)),
    embedding_length=640,
    feed_forward_length=2048,
    head_count=4,
    head_count_kv=1,
    head_dim=256,
    vocabulary=262144,
    weights_bytes=246587904,
)
MODELS = pytest.mark.parametrize("spec", [SMOLLM, GEMMA, QWEN], ids=lambda spec: spec.architecture)


def model_file(spec: ModelSpec) -> Path:
    folder = os.environ.get("MUNIMENT_MODEL_CACHE")
    if not folder:
        pytest.fail("MUNIMENT_MODEL_CACHE must name the folder with the model files")
    path = Path(folder) / f"{spec.model_id}.gguf"
    if not path.is_file():
        pytest.fail(f"{path.name} is missing in MUNIMENT_MODEL_CACHE")
    return path


def measure(spec: ModelSpec, configs: list[RunConfig], *, fill: bool) -> list[dict[str, Any]]:
    settings = [
        [
            config.context * config.sequences,
            config.ubatch,
            config.sequences,
            int(config.flash_attention),
            config.kv_type,
        ]
        for config in configs
    ]
    command = [sys.executable, str(CHILD), str(model_file(spec)), json.dumps(settings), str(int(fill))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@MODELS
def test_buffers_match_what_the_library_reports(spec: ModelSpec) -> None:
    grid = itertools.product(
        (2048, 4096), (512, 128, 64), (1, 3), ((True, KvType.F16), (True, KvType.Q8_0), (False, KvType.F16))
    )
    configs = [
        RunConfig("m", context, kv_type, sequences, ubatch=ubatch, flash_attention=flash)
        for context, ubatch, sequences, (flash, kv_type) in grid
    ]
    reports = measure(spec, configs, fill=False)
    assert len(reports) == len(configs)
    for config, report in zip(configs, reports, strict=True):
        # The library prints hundredths; each of its buffers may be rounded by half of one.
        rounding = 0.0051 * len(report["kv_mib"])
        assert kv_bytes(spec, config) / MIB == pytest.approx(sum(report["kv_mib"]), abs=rounding), config
        assert output_bytes(spec, config) / MIB == pytest.approx(sum(report["output_mib"]), abs=0.01), config
        assert compute_bytes(spec, config) / MIB == pytest.approx(sum(report["compute_mib"]), rel=0.12, abs=2), config


@MODELS
@pytest.mark.parametrize("context", [2048, 4096])
@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
def test_resident_memory_matches_the_need(spec: ModelSpec, context: int) -> None:
    config = RunConfig("m", context)
    report = measure(spec, [config], fill=True)[0]
    # Which tensors are copied depends on this processor, so the copy is taken from the library's own line.
    need = estimate(replace(spec, repack_bytes=round(report["repack_mib"] * MIB)), config)
    assert kv_bytes(spec, config) / MIB == pytest.approx(sum(report["kv_mib"]), abs=0.01)
    measured = report["anonymous_bytes"] + report["file_bytes"]
    figures = f"need {need.total_bytes / MIB:.1f} MiB, measured {measured / MIB:.1f} MiB: {report}"
    sys.stderr.write(figures + "\n")
    assert need.total_bytes == pytest.approx(measured, rel=0.05, abs=24 * MIB), figures

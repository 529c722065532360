"""The bench's quick way to a full context leaves the same memory as evaluating every token."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.need_models import run_child
from muniment_resources.units import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")


@pytest.mark.parametrize(
    ("name", "context", "kv_type", "sequences", "beginning"),
    [
        ("smollm2-135m-instruct-q4_1", 1024, "q8_0", 2, 512),
        # More than the window of 512 must be evaluated first; the two caches have different lengths then.
        ("gemma-3-270m-q4_k_m", 1536, "f16", 1, 768),
    ],
)
def test_restored_depth_takes_the_memory_of_evaluated_depth(
    name: str, context: int, kv_type: str, sequences: int, beginning: int, model_cache: Path
) -> None:
    file = model_cache / f"{name}.gguf"
    held = {}
    for method in ("restored", "evaluated"):
        told = run_child("bench.need_child", file, context, kv_type, sequences, 1, os.cpu_count(), beginning, method)
        assert told["method"] == method
        assert (told["context"], told["sequences"]) == (context, sequences)
        held[method] = sum(told["deep"])
        # The temporary tensors became resident only with the full batch.
        assert held[method] > sum(told["loaded"]) + 4 * MIB
    assert held["restored"] == pytest.approx(held["evaluated"], abs=2 * MIB)

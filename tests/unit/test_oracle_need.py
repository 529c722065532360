"""From the library's figures to a need."""

from __future__ import annotations

import pytest

from muniment_runtime.contracts import Need, NeedBasis, OracleSizes, RunConfig
from muniment_runtime.planner.need import base_bytes
from muniment_runtime.planner.oracle_need import oracle_need
from tests.unit.planner_specs import spec_of

SIZES = OracleSizes(11, 13, 17, 19, weights_bytes=23, context=512, sequences=1)


def test_every_line_comes_from_its_source() -> None:
    spec = spec_of(weights_bytes=1000, repack_bytes=100)
    assert oracle_need(spec, RunConfig("small", 512), SIZES, residual_bytes=29) == Need(
        weights_bytes=1100,
        kv_bytes=11,
        recurrent_bytes=13,
        compute_bytes=17,
        output_bytes=19,
        base_bytes=base_bytes(spec),
        residual_bytes=29,
        basis=NeedBasis.ORACLE,
    )


@pytest.mark.parametrize(
    ("repack", "mmap", "weights"), [(True, True, 1100), (False, True, 1000), (True, False, 1000), (False, False, 1000)]
)
def test_copies_of_weights_come_on_top_of_a_mapping_only(repack: bool, mmap: bool, weights: int) -> None:
    spec = spec_of(weights_bytes=1000, repack_bytes=100)
    config = RunConfig("small", 512, repack=repack, mmap=mmap)
    assert oracle_need(spec, config, SIZES).weights_bytes == weights


def test_an_architecture_outside_the_closed_form_has_a_need_too() -> None:
    spec = spec_of(architecture="mamba", supported=False, layers=())
    assert oracle_need(spec, RunConfig("small", 512), SIZES).total_bytes > spec.weights_bytes

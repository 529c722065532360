"""The need of a configuration from the library's dry run. Pure."""

from __future__ import annotations

from muniment_runtime.contracts import ModelSpec, Need, NeedBasis, OracleSizes, RunConfig
from muniment_runtime.planner.need import base_bytes, weights_bytes

__all__ = ["oracle_need"]


def oracle_need(spec: ModelSpec, config: RunConfig, sizes: OracleSizes, residual_bytes: int = 0) -> Need:
    """Return the need whose caches and temporary tensors the library computed itself.

    Weights and process base are those of the closed form: a dry run leaves out the copies in a faster layout.

    Args:
        spec: The model.
        config: The configuration that ``sizes`` was computed for.
        sizes: Result of the dry run.
        residual_bytes: Correction learned from earlier loads.
    """
    return Need(
        weights_bytes=weights_bytes(spec, config),
        kv_bytes=sizes.kv_bytes,
        recurrent_bytes=sizes.recurrent_bytes,
        compute_bytes=sizes.compute_bytes,
        output_bytes=sizes.output_bytes,
        base_bytes=base_bytes(spec),
        residual_bytes=residual_bytes,
        basis=NeedBasis.ORACLE,
    )

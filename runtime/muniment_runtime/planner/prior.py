"""A first guess of speed before anything was measured on this device. Always a hypothesis, never a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from muniment_runtime.contracts import ModelSpec, Prediction, RunConfig
from muniment_runtime.planner.need import kv_row_bytes, ubatch_tokens

__all__ = ["SpeedPrior", "active_parameters", "predict"]


@dataclass(frozen=True)
class SpeedPrior:
    """What the device is believed to do; real devices lie within about half and twice of it.

    Attributes:
        operations_per_s: Multiply and add operations per second and thread while a prompt is read. The default is the
            order of a current laptop core on 4 to 8 bit weights.
        bandwidth_bytes_per_s: Memory read per second while tokens are written.
    """

    operations_per_s: int = 50_000_000_000
    bandwidth_bytes_per_s: int = 10_000_000_000


def active_parameters(spec: ModelSpec) -> int:
    """Return the weights that every prompt token passes: attention and feed-forward, without the two embeddings."""
    query = spec.head_count * spec.head_dim
    key_value = spec.head_count_kv * spec.head_dim
    attention = spec.embedding_length * (2 * query + 2 * key_value)
    return spec.layer_count * (attention + 3 * spec.embedding_length * spec.feed_forward_length)


def predict(spec: ModelSpec, config: RunConfig, prompt_tokens: int, prior: SpeedPrior) -> Prediction:
    """Return predicted times for a prompt of ``prompt_tokens``.

    Reading: every weight once per physical batch from memory, plus two operations per active weight and token, plus
    attention over what was read before. Writing: all weights and the cache once per step, shared by the sequences.
    """
    query = spec.head_count * spec.head_dim
    operations = 2 * active_parameters(spec) * prompt_tokens + 2 * spec.layer_count * query * prompt_tokens**2
    chunks = -(-prompt_tokens // ubatch_tokens(config))
    step_s = spec.weights_bytes / prior.bandwidth_bytes_per_s
    read_s = chunks * step_s + operations / (prior.operations_per_s * max(1, config.threads))
    row = sum(
        kv_row_bytes(config.kv_type, layer.k_elements) + kv_row_bytes(config.kv_type, layer.v_elements)
        for layer in spec.layers
    )
    tpot_s = step_s + config.sequences * row * prompt_tokens / prior.bandwidth_bytes_per_s
    return Prediction(
        ttft_s=round(read_s + tpot_s, 6),
        tpot_s=round(tpot_s, 6),
        tokens_per_s=round(config.sequences / tpot_s, 6) if tpot_s > 0 else None,
        quality=None,
    )

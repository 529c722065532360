"""A first guess of speed before anything was measured on this device. Always a hypothesis, never a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from muniment_runtime.contracts import KvType, ModelSpec, Prediction, RunConfig
from muniment_runtime.planner.need import kv_row_bytes

__all__ = ["SpeedModel", "SpeedPrior", "active_parameters", "microseconds"]


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
    """Return the weights that every prompt token passes: attention and feed-forward, without the two embeddings.

    Of a mixture of experts only the experts used count. Where the shape is not known, all parameters stand in: an
    upper bound.
    """
    if not spec.supported:
        return spec.parameters
    query = spec.head_count * spec.head_dim
    key_value = spec.head_count_kv * spec.head_dim
    attention = spec.embedding_length * (2 * query + 2 * key_value)
    feed_forward = spec.experts_used * spec.expert_feed_forward_length or spec.feed_forward_length
    return spec.layer_count * (attention + 3 * spec.embedding_length * feed_forward)


class SpeedModel:
    """Predicts the times of one model; everything that does not depend on the configuration is computed once.

    Reading: every weight once per physical batch from memory, plus two operations per active weight and token, plus
    attention over what was read before. Writing: the active weights and the cache once per step, shared by the
    sequences.
    """

    def __init__(self, spec: ModelSpec, prior: SpeedPrior, prompt_tokens: int) -> None:
        self._prior = prior
        self._prompt_tokens = prompt_tokens
        active = active_parameters(spec)
        self._operations_per_token = 2 * active
        self._attention = 2 * spec.layer_count * spec.head_count * spec.head_dim
        share = min(1.0, active / spec.parameters) if spec.experts_used and spec.parameters else 1.0
        self._read_s = spec.weights_bytes / prior.bandwidth_bytes_per_s
        self._step_s = self._read_s * share
        self._layers = spec.layers
        self._row_bytes: dict[KvType, int] = {}
        self._ttft: dict[tuple[int, int, int], float] = {}
        self._known: dict[tuple[float, int, int, KvType], tuple[Prediction, int | None]] = {}

    def predict(self, config: RunConfig) -> Prediction:
        """Return predicted times for the prompt, or for as much of it as the context holds."""
        return self.timed(config)[0]

    def timed(self, config: RunConfig) -> tuple[Prediction, int | None]:
        """Return the prediction together with the time to the first token in whole microseconds."""
        _, context, kv_type, sequences, batch, ubatch, _, _, _, threads, _, _ = config
        tokens = context if context < self._prompt_tokens else self._prompt_tokens
        reading = (tokens, min(context * sequences, batch, ubatch), threads)
        read_s = self._ttft.get(reading)
        if read_s is None:
            read_s = self._ttft[reading] = self._read(*reading)
        key = (read_s, tokens, sequences, kv_type)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._predict(*key)
        return known

    def _read(self, tokens: int, batch: int, threads: int) -> float:
        operations = self._operations_per_token * tokens + self._attention * tokens**2
        return -(-tokens // batch) * self._read_s + operations / (self._prior.operations_per_s * max(1, threads))

    def _predict(self, read_s: float, tokens: int, sequences: int, kv_type: KvType) -> tuple[Prediction, int | None]:
        row = self._row_bytes.get(kv_type)
        if row is None:
            row = self._row_bytes[kv_type] = sum(
                kv_row_bytes(kv_type, layer.k_elements) + kv_row_bytes(kv_type, layer.v_elements)
                for layer in self._layers
            )
        tpot_s = self._step_s + sequences * row * tokens / self._prior.bandwidth_bytes_per_s
        ttft_s = read_s + tpot_s
        prediction = Prediction(ttft_s, tpot_s, sequences / tpot_s if tpot_s > 0 else None, None)
        return prediction, microseconds(ttft_s)


def microseconds(seconds: float | None) -> int | None:
    """Return a time in whole microseconds: the form in which times are compared and recorded."""
    return None if seconds is None else round(seconds * 1_000_000)

"""Recurrent layers of a model's graph: short convolutions, state space models, the gated delta rule.

Sources are files of llama.cpp, named at each function.
"""

from __future__ import annotations

from muniment_runtime.planner.arena import Size, size
from muniment_runtime.planner.graph_parts import FLOAT, Parts, per_token

__all__ = ["RecurrentParts"]


class RecurrentParts(Parts):
    """Adds the layers that keep a state of fixed size in place of a cache."""

    def _recurrent(self, normed: int) -> int:
        if self._shape.state_size == 0:
            return self._short_convolution(normed)
        if self._architecture == "mamba":
            return self._scan(normed)
        if self._architecture in ("mamba2", "granitehybrid"):
            return self._grouped_scan(normed)
        return self._delta(normed)

    def _extended(self, source: int, channels: int) -> int:
        """Put the last tokens' inputs before these (``build_rs``)."""
        past = size(sequences=FLOAT * channels * (self._shape.convolution - 1))
        before, self._fetched = self._fetched, None
        if before is None:
            before = self._tape.node(past)
        return self._tape.node(per_token(channels) + past, before, source)

    def _convolved(self, source: int, channels: int) -> int:
        """Convolve over these and the last tokens' inputs (``ggml_ssm_conv``)."""
        extended = self._extended(source, channels)
        if not self._shape.state_size:
            self._fetch_early()
        return self._tape.node(per_token(channels), extended)

    def _state(self) -> Size:
        return size(sequences=FLOAT * self._shape.state_inner * self._shape.state_size)

    def _short_convolution(self, normed: int) -> int:
        """``src/models/lfm2.cpp``, ``build_shortconv_block``."""
        tape, width = self._tape, self._width
        parts = tape.node(per_token(3 * width), normed)
        product = tape.node(per_token(width), parts, parts)
        convolved = self._convolved(product, width)
        return tape.node(per_token(width), tape.node(per_token(width), parts, convolved, reuse=(convolved,)))

    def _scan(self, normed: int) -> int:
        """``src/models/mamba-base.cpp``, ``build_mamba_layer``."""
        tape, shape = self._tape, self._shape
        inner, heads = per_token(shape.state_inner), shape.state_heads
        both = tape.node(per_token(2 * shape.state_inner), normed)
        convolved = self._convolved(both, shape.state_inner)
        parts = tape.node(per_token(heads + 2 * shape.state_size), convolved)
        step = tape.node(inner, tape.node(per_token(heads), parts))
        scanned = tape.node(inner + self._state(), convolved, step, parts, parts)
        self._fetch_early()
        gate = tape.node(inner, both)
        kept = tape.follow(convolved)
        kept = tape.node(inner, scanned, kept, reuse=(kept,))
        return tape.node(per_token(self._width), tape.node(inner, gate, kept))

    def _grouped_scan(self, normed: int) -> int:
        """``src/models/mamba-base.cpp``, ``build_mamba2_layer``."""
        tape, shape = self._tape, self._shape
        inner = per_token(shape.state_inner)
        channels = shape.state_inner + 2 * shape.state_groups * shape.state_size
        both = tape.node(per_token(shape.state_inner + channels + shape.state_heads), normed)
        convolved = self._convolved(both, channels)
        step = tape.node(per_token(shape.state_heads), both)
        scanned = tape.node(inner + self._state(), convolved, step, convolved, convolved)
        self._fetch_early()
        gate = tape.node(inner, both)
        kept = tape.node(inner, convolved)
        kept = tape.node(inner, scanned, kept, reuse=(kept,))
        return tape.node(per_token(self._width), tape.node(inner, tape.node(inner, gate, kept)))

    def _delta(self, normed: int) -> int:
        """``src/models/qwen35.cpp``, ``build_layer_attn_linear``, with the fused ``ggml_gated_delta_net``."""
        tape, shape = self._tape, self._shape
        inner, keys = per_token(shape.state_inner), shape.state_size * shape.state_groups
        channels = shape.state_inner + 2 * keys
        extended = self._extended(tape.node(per_token(channels), normed), channels)
        state = tape.node(self._state())
        convolved = tape.node(per_token(channels), extended)
        query, key = (tape.node(per_token(keys), convolved) for _ in range(2))
        decay, strength = (tape.node(per_token(shape.state_heads), normed) for _ in range(2))
        result = tape.node(inner + self._state(), query, key, convolved, decay, strength, state)
        plain = tape.node(inner, result)
        gate = tape.node(inner, tape.node(inner, normed))
        return tape.node(per_token(self._width), tape.node(inner, plain, gate, reuse=(plain, gate)))

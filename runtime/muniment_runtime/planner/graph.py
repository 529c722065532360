"""The temporary tensors of one worst-case batch, for every architecture that the closed form covers.

Each function here, in ``graph_parts`` and in ``graph_recurrent`` records which tensors a part of a model creates, in
which order, how large they are and what they are computed from; ``arena.Tape`` then tells how much memory that takes.
Operations that always work in their operand's place (scaling, adding a bias, a norm behind a product) leave no trace
and are left out.

Sources, all in llama.cpp: the graphs in ``src/models/*.cpp`` (named at each function), their parts in
``src/llama-graph.cpp`` (``build_inp_embd``, ``build_attn``, ``build_attn_mha``, ``build_ffn``, ``build_moe_ffn``,
``build_rs``), the worst case in ``src/llama-context.cpp`` (``sched_reserve``, ``graph_reserve``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from muniment_resources.errors import BugError
from muniment_runtime.contracts import GraphShape, LayerShape
from muniment_runtime.planner.arena import Tape, size
from muniment_runtime.planner.graph_parts import FLOAT, Family, Mode, Unit, per_row, per_token
from muniment_runtime.planner.graph_recurrent import RecurrentParts

__all__ = ["ARCHITECTURES", "Mode", "record", "representative"]

_PLAIN = Family()
_DELTA = Family(gated=True, late_rows=True, mixed_in_view=True)
_CONVOLUTION = Family(residual_in_middle=True, residual_at_end=True, mixed_in_view=True)

ARCHITECTURES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": _PLAIN,
        "qwen2": _PLAIN,
        "qwen3": _PLAIN,
        "qwen3moe": _PLAIN,
        "phi3": Family(fused=True, fused_gate=True, residual_at_end=True),
        "openelm": Family(fused=True, residual_in_middle=True),
        "deci": _PLAIN,
        "stablelm": Family(mean_norm=True),
        "gemma2": Family(keys_first=True),
        "gemma3": Family(keys_first=True),
        "gemma3n": Family(keys_first=True, norm_values=True),
        "gemma4": Family(keys_first=True, norm_values=True, late_rows=True),
        "gpt-oss": Family(keys_first=True, late_rows=True),
        "cohere2": Family(keys_first=True, mean_norm=True, parallel=True),
        "deepseek2": _PLAIN,
        "mamba": Family(mixed_in_view=True),
        "mamba2": _PLAIN,
        "granitehybrid": _PLAIN,
        "lfm2": _CONVOLUTION,
        "lfm2moe": _CONVOLUTION,
        "qwen35": _DELTA,
        "qwen35moe": _DELTA,
        "qwen3next": _DELTA,
    }
)
"""Architectures whose graph is recorded here."""


def representative(layers: Sequence[LayerShape]) -> tuple[int, ...]:
    """Return the indices of layers that stand for all: each succession of two kinds a few times, and the last.

    Gaps that earlier layers left change the placement for a few layers; then it repeats itself. Where most layers
    differ from one another, all are kept: leaving out the others would only bring strangers together.
    """
    kept: list[int] = []
    seen: dict[tuple[LayerShape, LayerShape], int] = {}
    for index, layer in enumerate(layers):
        pair = (layers[max(index - 1, 0)], layer)
        seen[pair] = seen.get(pair, 0) + 1
        if seen[pair] <= _REPEATS or index == len(layers) - 1:
            kept.append(index)
    return tuple(kept) if 3 * len(kept) <= 2 * len(layers) else tuple(range(len(layers)))


_REPEATS = 3


def record(architecture: str, shape: GraphShape, embedding: int, vocabulary: int, mode: Mode) -> Tape:
    """Return the graph of one worst-case batch.

    Raises:
        BugError: The architecture is not in ``ARCHITECTURES``, or the model has no layers.
    """
    if architecture not in ARCHITECTURES or not shape.layers:
        raise BugError(f"no graph for {architecture}")
    return _Recorder(architecture, ARCHITECTURES[architecture], shape, embedding, vocabulary, mode).whole()


class _Recorder(RecurrentParts):
    """Records one graph. Methods return the number of the tensor that holds their result."""

    def whole(self) -> Tape:
        """Record everything from the embedding to the logits."""
        tape, width = self._tape, self._width
        # Room for embeddings instead of tokens is part of every graph, used or not (build_inp_embd).
        tape.input(per_token(width))
        tape.input(size(tokens=FLOAT * 2))
        self._attention_inputs()
        hidden = self._stacked_layers() if self._architecture == "gemma3n" else self._layers()
        if self._family.late_rows or self._architecture == "gemma3n":
            hidden = tape.node(per_row(width), self._norm(hidden, per_token))
        tape.node(per_row(self._vocabulary), self._norm(hidden, per_row))
        return tape

    # --- the usual layer ----------------------------------------------------------------------------------------

    def _layers(self) -> int:
        tape, width, shape = self._tape, self._width, self._shape
        hidden = tape.node(per_token(width))
        extra = self._per_layer_lookup() if shape.per_layer_input else None
        chosen = representative(shape.layers)
        for place, index in enumerate(chosen):
            layer = shape.layers[index]
            self._next = shape.layers[chosen[place + 1]] if place + 1 < len(chosen) else None
            self._experts_follow = layer.experts_used > 0
            unit = per_token if index < len(shape.layers) - 1 or self._family.late_rows else per_row
            embedded = hidden
            hidden = self._layer(layer, hidden, unit)
            if extra is not None:
                gate = tape.node(unit(shape.per_layer_input), hidden)
                if index == 0:
                    extra = self._per_layer_projection(embedded, extra)
                result = tape.node(unit(width), tape.follow(gate, extra))
                hidden = tape.node(unit(width), hidden, result, reuse=(hidden, result))
        return hidden

    def _layer(self, layer: LayerShape, hidden: int, unit: Unit) -> int:
        tape, width, family = self._tape, self._width, self._family
        if not layer.recurrent and not layer.attended and not self._shape.latent_rank:
            return self._feed_forward_step(layer, hidden, unit)
        normed = self._norm(hidden, per_token)
        if family.parallel:
            return self._parallel_layer(layer, hidden, normed, unit)
        if not layer.recurrent and not layer.heads:
            mixed = tape.node(per_token(width), normed)
        elif layer.recurrent:
            mixed = self._recurrent(normed)
        elif self._shape.latent_rank:
            mixed = self._latent_attention(layer, normed)
        else:
            mixed = tape.node(per_token(width), self._attention(layer, normed))
        if unit is per_row:
            mixed, hidden = tape.node(unit(width), mixed), tape.node(unit(width), hidden)
        pair = (hidden, mixed) if family.residual_in_middle else (mixed, hidden)
        # Where the product of a recurrent layer is seen through a view, its place cannot be taken over.
        takes = (hidden,) if layer.recurrent and family.mixed_in_view else pair
        hidden = tape.node(unit(width), *pair, reuse=takes)
        return self._feed_forward_step(layer, hidden, unit)

    def _feed_forward_step(self, layer: LayerShape, hidden: int, unit: Unit) -> int:
        if not layer.feed_forward and not layer.experts_used:
            return hidden
        if self._architecture == "gemma4" and layer.experts_used:
            result = self._two_paths(layer, hidden, unit)
        else:
            result = self._feed_forward(layer, self._norm(hidden, unit), unit)
        pair = (hidden, result) if self._family.residual_at_end else (result, hidden)
        return self._tape.node(unit(self._width), *pair, reuse=pair)

    def _two_paths(self, layer: LayerShape, hidden: int, unit: Unit) -> int:
        """``src/models/gemma4.cpp``: experts and a dense part, each with a norm of its own."""
        tape, width = self._tape, self._width
        order = self._order(layer, self._norm(hidden, unit), unit)
        result = self._chosen(layer, self._norm(hidden, unit), order, unit)
        dense = self._dense(self._norm(hidden, unit), layer.shared_feed_forward, unit)
        return tape.node(unit(width), dense, result, reuse=(dense, result))

    def _parallel_layer(self, layer: LayerShape, hidden: int, normed: int, unit: Unit) -> int:
        """``src/models/cohere2.cpp``: the product behind the attention comes after the feed-forward part."""
        tape, width = self._tape, self._width
        attended = self._attention(layer, normed)
        if unit is per_row:
            normed = tape.node(unit(width), normed)
        result = self._feed_forward(layer, normed, unit)
        if unit is per_row:
            hidden = tape.node(unit(width), hidden)
        result = tape.node(unit(width), result, hidden, reuse=(result, hidden))
        mixed = tape.node(per_token(width), attended)
        if unit is per_row:
            mixed = tape.node(unit(width), mixed)
        return tape.node(unit(width), result, mixed, reuse=(result, mixed))

    # --- embeddings for each layer (gemma3n, gemma4) ------------------------------------------------------------

    def _per_layer_lookup(self) -> int:
        """``build_inp_per_layer``: one row for all layers, scaled through a view."""
        whole = per_token(self._shape.per_layer_input * len(self._shape.layers))
        return self._tape.node(whole, self._tape.node(whole))

    def _per_layer_projection(self, embedded: int, lookup: int) -> int:
        """``project_per_layer_inputs``; first needed, hence computed, inside the first layer."""
        tape = self._tape
        whole = per_token(self._shape.per_layer_input * len(self._shape.layers))
        normed = tape.node(whole, tape.node(whole, embedded))
        total = tape.node(whole, normed, lookup, reuse=(normed, lookup))
        return tape.node(whole, total)

    # --- gemma3n ------------------------------------------------------------------------------------------------

    def _stacked_layers(self) -> int:
        """``src/models/gemma3n.cpp``: four versions of the hidden state, one of which passes each layer."""
        tape, width = self._tape, self._width
        one, three, four = per_token(width), per_token(3 * width), per_token(4 * width)
        embedded = tape.node(one)
        extra = self._per_layer_lookup()
        others = tape.node(three, tape.node(three, embedded))
        scaled = tape.node(three, others)
        tape.node(0, tape.follow(others))
        stack = tape.node(four, embedded, scaled)
        chosen = representative(self._shape.layers)
        for index in chosen:
            predicted = self._predicted(stack)
            result = self._active(self._shape.layers[index], predicted, sparse=index < _SPARSE_LAYERS)
            difference = tape.node(one, result, predicted)
            spread = tape.node(four, difference)
            tape.node(0, tape.follow(result))
            corrected = tape.node(four, spread, predicted, reuse=(spread, predicted))
            gate = tape.node(per_token(self._shape.per_layer_input), tape.node(one, corrected))
            if index == 0:
                extra = self._per_layer_projection(embedded, extra)
            gate = tape.follow(gate, extra)
            added = tape.node(three, corrected, tape.node(one, gate))
            stack = tape.node(four, corrected, added)
        others = tape.node(three, stack)
        scaled = tape.node(three, others)
        tape.node(0, tape.follow(others))
        merged = tape.node(one, stack, scaled)
        return tape.follow(tape.follow(merged, scaled), scaled)

    def _predicted(self, stack: int) -> int:
        """``altup_predict``."""
        tape, width = self._tape, self._width
        four = per_token(4 * width)
        turned = tape.node(four, stack)
        tape.node(0, tape.node(per_token(width), stack))
        mixed = tape.node(four, tape.node(four, turned))
        return tape.node(four, mixed, stack, reuse=(mixed, stack))

    def _active(self, layer: LayerShape, predicted: int, *, sparse: bool) -> int:
        """Attention, the low-rank path beside it, and the feed-forward part."""
        tape, width = self._tape, self._width
        one, inner = per_token(width), per_token(layer.feed_forward)
        normed = tape.node(one, predicted)
        mixed = tape.node(one, self._attention(layer, normed))
        mixed = tape.node(one, mixed, predicted, reuse=(mixed,))
        beside = tape.node(one, tape.node(per_token(_LAUREL_RANK), normed))
        beside = tape.node(one, beside, normed, reuse=(beside, normed))
        mixed = tape.node(one, mixed, beside, reuse=(mixed, beside))
        source = tape.node(one, mixed)
        up, gate = tape.node(inner, source), tape.node(inner, source)
        if sparse:
            tape.node(0, tape.node(inner, gate))
            gate = tape.follow(gate)
        product = tape.node(inner, up, gate, reuse=(up, gate))
        result = tape.node(one, product)
        return tape.node(one, result, mixed, reuse=(result, mixed))


_SPARSE_LAYERS = 10
"""Layers whose gate is cut off by a threshold (``n_layer_sparsity`` in ``src/models/models.h``)."""
_LAUREL_RANK = 64
"""``laurel_rank`` in ``src/llama-hparams.h``."""

"""Parts of a model's graph that many architectures share: inputs, attention, feed-forward.

Sources, all in llama.cpp: ``src/llama-graph.cpp`` (``build_attn_inp_kv``, ``build_attn``, ``build_attn_mha``,
``build_ffn``, ``build_moe_ffn``, ``build_rs``) and what is named at each function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from muniment_runtime.contracts import GraphShape, LayerShape
from muniment_runtime.planner.arena import Size, Tape, size

__all__ = ["FLOAT", "Family", "Mode", "Parts", "Unit", "per_row", "per_token"]

FLOAT = 4
_INDEX = 8
_ROTATION = 64
"""Quantized caches are rotated in blocks of 64 when the head divides (``llama_kv_cache``, constructor)."""


class Mode(NamedTuple):
    """What changes the graph itself and not only sizes.

    Attributes:
        flash: Flash attention.
        quantized: The cache is quantized.
        element_bytes: Bytes of one cache element; matters for latent attention without flash attention alone.
    """

    flash: bool
    quantized: bool
    element_bytes: int


@dataclass(frozen=True)
class Family:
    """How the graph of an architecture differs from a plain transformer's.

    Attributes:
        keys_first: K is computed before V (caches with sliding windows, ``build_attn`` for ``..._kv_iswa``).
        mean_norm: The norm cannot work in place (``ggml_norm``, unlike ``ggml_rms_norm``).
        parallel: Attention and feed-forward read the same input.
        fused: One product gives Q, K and V.
        fused_gate: One product gives gate and up.
        gated: Q comes with a gate for the output of the attention.
        late_rows: Only after the last layer are the rows with logits picked; else within it.
        norm_values: V is normed too.
        residual_in_middle: The sum in a layer's middle takes the residual's place first.
        residual_at_end: The sum at a layer's end takes the residual's place first.
        mixed_in_view: What a recurrent layer gives is seen through a view.
    """

    keys_first: bool = False
    mean_norm: bool = False
    parallel: bool = False
    fused: bool = False
    fused_gate: bool = False
    gated: bool = False
    late_rows: bool = False
    norm_values: bool = False
    residual_in_middle: bool = False
    residual_at_end: bool = False
    mixed_in_view: bool = False


def per_token(elements: int) -> Size:
    """Return the size of this many float32 elements for every token of a batch."""
    return size(tokens=FLOAT * elements)


def per_row(elements: int) -> Size:
    """Return the size of this many float32 elements for every row of logits."""
    return size(rows=FLOAT * elements)


Unit = Callable[[int], Size]


class Parts:
    """Records parts of one graph on ``_tape``. Methods return the number of the tensor that holds their result."""

    def __init__(
        self, architecture: str, family: Family, shape: GraphShape, embedding: int, vocabulary: int, mode: Mode
    ) -> None:
        self._architecture = architecture
        self._family = family
        self._shape = shape
        self._width = embedding
        self._vocabulary = vocabulary
        self._mode = mode
        self._tape = Tape()
        self._masks: dict[bool, int] = {}
        self._key_places: dict[bool, int] = {}
        self._value_places: dict[bool, int] = {}
        self._next: LayerShape | None = None
        self._fetched: int | None = None
        self._experts_follow = False

    def _attention_inputs(self) -> None:
        """Masks, places in the cache and rotations (``build_attn_inp_kv``, ``build_attn_inp_kv_iswa``)."""
        tape, flash = self._tape, self._mode.flash
        mask_bytes = 2 if flash else FLOAT
        attentive = [layer for layer in self._shape.layers if layer.heads and not layer.recurrent]
        for windowed in dict.fromkeys(layer.window > 0 for layer in attentive):
            head = max(layer.queries // layer.heads for layer in attentive if (layer.window > 0) == windowed)
            if self._mode.quantized and head % _ROTATION == 0 and not self._shape.latent_rank:
                tape.input(size(one=FLOAT * ((head & -head) ** 2 + _ROTATION**2)))
            self._key_places[windowed] = tape.input(size(tokens=_INDEX))
            value_places = 1 if flash or self._shape.latent_rank else self._shape.widest_values
            self._value_places[windowed] = tape.input(size(tokens=_INDEX * value_places))
            self._masks[windowed] = tape.input(size(window=mask_bytes) if windowed else size(global_=mask_bytes))

    def _norm(self, hidden: int, unit: Unit) -> int:
        return self._tape.node(unit(self._width), hidden, reuse=() if self._family.mean_norm else (hidden,))

    # --- attention ----------------------------------------------------------------------------------------------

    def _attention(self, layer: LayerShape, normed: int) -> int:
        """From the normed input to the output of all heads (``build_qkv``, ``build_attn``)."""
        tape, family = self._tape, self._family
        windowed = layer.window > 0
        gate = -1
        if family.fused:
            together = tape.node(per_token(layer.queries + layer.keys + layer.values), normed)
            queries = tape.node(per_token(layer.queries), together)
            self._store(layer, tape.node(per_token(layer.keys), together), together)
        else:
            if family.gated:
                gate = tape.node(per_token(2 * layer.queries), normed)
                queries = tape.node(per_token(layer.queries), gate)
            else:
                queries = tape.node(per_token(layer.queries), normed)
                if layer.rotary:
                    queries = tape.node(per_token(layer.queries), queries)
            queries = self._rotated(queries, layer.queries, layer.queries // layer.heads)
            if layer.values_from_keys:
                together = tape.node(per_token(layer.keys), normed)
                keys = self._rotated(
                    tape.node(per_token(layer.keys), together), layer.keys, layer.queries // layer.heads
                )
                self._store(layer, keys, self._finished_values(layer, together))
            elif layer.keys and family.keys_first:
                keys = self._keys(layer, normed)
                self._store(layer, keys, self._values(layer, normed))
            elif layer.keys:
                values = self._values(layer, normed)
                self._store(layer, self._keys(layer, normed), values)
        attended = self._attend(layer, queries, windowed)
        if gate < 0:
            return attended
        opened = tape.node(per_token(layer.attended), gate)
        # The fused operation's result is seen through a view here.
        takes = (opened,) if self._mode.flash else (attended, opened)
        return tape.node(per_token(layer.attended), attended, opened, reuse=takes)

    def _keys(self, layer: LayerShape, normed: int) -> int:
        keys = self._tape.node(per_token(layer.keys), normed)
        if layer.rotary:
            keys = self._tape.node(per_token(layer.keys), keys)
        return self._rotated(keys, layer.keys, layer.queries // layer.heads)

    def _values(self, layer: LayerShape, normed: int) -> int:
        return self._finished_values(layer, self._tape.node(per_token(layer.values), normed))

    def _finished_values(self, layer: LayerShape, values: int) -> int:
        tape = self._tape
        if self._family.norm_values:
            values = tape.node(per_token(layer.values), values)
        values = self._rotated(values, layer.values, layer.attended // layer.heads)
        if not self._mode.flash and layer.values < self._shape.widest_values:
            values = tape.node(per_token(self._shape.widest_values), values)
        return values

    def _store(self, layer: LayerShape, keys: int, values: int) -> None:
        """Write K and V into the cache (``cpy_k``, ``cpy_v`` of ``src/llama-kv-cache.cpp``)."""
        windowed = layer.window > 0
        self._tape.node(0, keys, self._key_places[windowed])
        self._tape.node(0, values, self._value_places[windowed])

    def _rotated(self, source: int, elements: int, head: int) -> int:
        if self._mode.quantized and head % _ROTATION == 0:
            return self._tape.node(per_token(elements), source)
        return source

    def _attend(self, layer: LayerShape, queries: int, windowed: bool) -> int:
        """``build_attn_mha``: one fused operation, or scores of all heads against all cells."""
        tape, mask = self._tape, self._masks[windowed]
        out = per_token(layer.attended)
        if self._mode.flash:
            attended = tape.node(out, queries, mask)
        else:
            scores = tape.node(self._scores(layer.heads, windowed), queries)
            scores = tape.follow(scores, mask)
            attended = tape.node(out, tape.node(out, scores))
        self._fetch_early()
        return self._rotated(attended, layer.attended, layer.attended // layer.heads)

    def _scores(self, heads: int, windowed: bool) -> Size:
        return size(window=FLOAT * heads) if windowed else size(global_=FLOAT * heads)

    def _latent_attention(self, layer: LayerShape, normed: int) -> int:
        """``src/models/deepseek2.cpp``: K and V stay compressed, Q is brought into their space."""
        tape, shape = self._tape, self._shape
        rank, rotary, heads = shape.latent_rank, shape.latent_rotary, layer.heads
        source = normed
        if shape.query_rank:
            source = tape.node(per_token(shape.query_rank), normed)
        plain = tape.node(per_token(layer.queries), source)
        absorbed = tape.node(per_token(heads * rank), plain)
        placed = tape.node(per_token(heads * rotary), plain)
        queries = tape.node(per_token(heads * (rank + rotary)), absorbed, placed)
        both = tape.node(per_token(rank + rotary), normed)
        compressed = tape.node(per_token(rank), both)
        placed = tape.node(per_token(rotary), both)
        tape.node(0, tape.node(per_token(rank + rotary), compressed, placed), self._key_places[False])
        compressed_out, out = per_token(heads * rank), per_token(heads * shape.latent_head)
        if self._mode.flash:
            attended = tape.node(out, tape.node(compressed_out, queries, self._masks[False]))
        else:
            values = tape.node(size(cells=self._mode.element_bytes * rank))
            scores = tape.node(self._scores(heads, windowed=False), queries)
            scores = tape.follow(scores, self._masks[False])
            attended = tape.node(out, tape.node(compressed_out, values, scores))
        return tape.node(per_token(self._width), tape.node(out, attended))

    # --- feed-forward -------------------------------------------------------------------------------------------

    def _feed_forward(self, layer: LayerShape, source: int, unit: Unit) -> int:
        """``build_ffn``, ``build_moe_ffn``, or both where all tokens pass a shared expert."""
        if not layer.experts_used:
            return self._dense(source, layer.feed_forward, unit)
        result = self._experts(layer, source, unit)
        if not layer.shared_feed_forward:
            return result
        other = self._dense(source, layer.shared_feed_forward, unit)
        return self._tape.node(unit(self._width), result, other, reuse=(result, other))

    def _dense(self, source: int, inner: int, unit: Unit) -> int:
        tape = self._tape
        if self._family.fused_gate:
            active = tape.node(unit(inner), tape.node(unit(2 * inner), source))
        else:
            gate, up = tape.node(unit(inner), source), tape.node(unit(inner), source)
            active = tape.node(unit(inner), gate, up)
        return tape.node(unit(self._width), active)

    def _experts(self, layer: LayerShape, source: int, unit: Unit) -> int:
        return self._chosen(layer, source, self._order(layer, source, unit), unit)

    def _order(self, layer: LayerShape, source: int, unit: Unit) -> tuple[int, int]:
        """The experts in order of their likelihood, and the weights of the first ones."""
        tape = self._tape
        likely = tape.node(unit(self._shape.experts), source)
        order = tape.node(unit(self._shape.experts), likely)
        return order, tape.node(unit(layer.experts_used), likely, order)

    def _chosen(self, layer: LayerShape, source: int, choice: tuple[int, int], unit: Unit) -> int:
        tape, used, inner = self._tape, layer.experts_used, layer.expert_feed_forward
        order, weights = choice
        if self._shape.fused_gate:
            both = tape.node(unit(2 * used * inner), source, order)
            active = tape.node(unit(used * inner), both)
        else:
            gate, up = (tape.node(unit(used * inner), source, order) for _ in range(2))
            active = tape.node(unit(used * inner), gate, up)
        down = tape.node(unit(used * self._width), active, order)
        weighted = tape.follow(down, weights)
        total = tape.node(unit(self._width), *(weighted,) * min(used, 2))
        if used > 2:
            total = tape.follow(total, weighted)
        self._fetch_next()
        return total

    # --- what recurrent layers fetch ahead -------------------------------------------------------------------

    def _fetch_next(self) -> None:
        """Fetch the next layer's past inputs: the graph does so early, while products of this layer still wait.

        ``build_rs`` puts its nodes into the graph at once, what follows it only when something asks for it.
        """
        shape, following = self._shape, self._next
        if following is None or not following.recurrent or self._fetched is not None or self._family.gated:
            return
        channels = shape.state_inner + 2 * shape.state_groups * shape.state_size or self._width
        self._fetched = self._tape.node(size(sequences=FLOAT * channels * (shape.convolution - 1)))

    def _fetch_early(self) -> None:
        """Fetch where no experts follow in this layer; else that comes after them."""
        if not self._experts_follow:
            self._fetch_next()

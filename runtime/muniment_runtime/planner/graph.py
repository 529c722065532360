"""The temporary tensors of one worst-case batch, for every architecture that the closed form covers.

Each function here records which tensors a part of a model creates, in which order, how large they are and what they
are computed from; ``arena.Tape`` then tells how much memory that takes. Operations that always work in their
operand's place (scaling, adding a bias, a norm behind a product) leave no trace and are left out.

Sources, all in llama.cpp: the graphs in ``src/models/*.cpp`` (named at each function), their parts in
``src/llama-graph.cpp`` (``build_inp_embd``, ``build_attn``, ``build_attn_mha``, ``build_ffn``, ``build_moe_ffn``,
``build_rs``), the worst case in ``src/llama-context.cpp`` (``sched_reserve``, ``graph_reserve``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from muniment_resources.errors import BugError
from muniment_runtime.contracts import GraphShape, LayerShape
from muniment_runtime.planner.arena import Size, Tape, size

__all__ = ["ARCHITECTURES", "Mode", "record", "representative"]

_FLOAT = 4
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
class _Family:
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


_PLAIN = _Family()
_DELTA = _Family(gated=True, late_rows=True, mixed_in_view=True)
_CONVOLUTION = _Family(residual_in_middle=True, residual_at_end=True, mixed_in_view=True)

ARCHITECTURES: Mapping[str, _Family] = MappingProxyType(
    {
        "llama": _PLAIN,
        "qwen2": _PLAIN,
        "qwen3": _PLAIN,
        "qwen3moe": _PLAIN,
        "phi3": _Family(fused=True, fused_gate=True, residual_at_end=True),
        "openelm": _Family(fused=True, residual_in_middle=True),
        "deci": _PLAIN,
        "stablelm": _Family(mean_norm=True),
        "gemma2": _Family(keys_first=True),
        "gemma3": _Family(keys_first=True),
        "gemma3n": _Family(keys_first=True, norm_values=True),
        "gemma4": _Family(keys_first=True, norm_values=True, late_rows=True),
        "gpt-oss": _Family(keys_first=True, late_rows=True),
        "cohere2": _Family(keys_first=True, mean_norm=True, parallel=True),
        "deepseek2": _PLAIN,
        "mamba": _Family(mixed_in_view=True),
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

    Gaps that earlier layers left change the placement for a few layers; then it repeats itself.
    """
    kept: list[int] = []
    seen: dict[tuple[LayerShape, LayerShape], int] = {}
    for index, layer in enumerate(layers):
        pair = (layers[max(index - 1, 0)], layer)
        seen[pair] = seen.get(pair, 0) + 1
        if seen[pair] <= _REPEATS or index == len(layers) - 1:
            kept.append(index)
    return tuple(kept)


_REPEATS = 3


def record(architecture: str, shape: GraphShape, embedding: int, vocabulary: int, mode: Mode) -> Tape:
    """Return the graph of one worst-case batch.

    Raises:
        BugError: The architecture is not in ``ARCHITECTURES``, or the model has no layers.
    """
    if architecture not in ARCHITECTURES or not shape.layers:
        raise BugError(f"no graph for {architecture}")
    return _Recorder(architecture, shape, embedding, vocabulary, mode).whole()


def _per_token(elements: int) -> Size:
    return size(tokens=_FLOAT * elements)


def _per_row(elements: int) -> Size:
    return size(rows=_FLOAT * elements)


_Unit = Callable[[int], Size]


class _Recorder:
    """Records one graph. Methods return the number of the tensor that holds their result."""

    def __init__(self, architecture: str, shape: GraphShape, embedding: int, vocabulary: int, mode: Mode) -> None:
        self._architecture = architecture
        self._family = ARCHITECTURES[architecture]
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

    def whole(self) -> Tape:
        """Record everything from the embedding to the logits."""
        tape, width = self._tape, self._width
        # Room for embeddings instead of tokens is part of every graph, used or not (build_inp_embd).
        tape.input(_per_token(width))
        tape.input(size(tokens=_FLOAT * 2))
        self._attention_inputs()
        if self._architecture == "gemma3n":
            hidden = self._stacked_layers()
        else:
            hidden = self._layers()
        if self._family.late_rows or self._architecture == "gemma3n":
            hidden = tape.node(_per_row(width), self._norm(hidden, _per_token))
        tape.node(_per_row(self._vocabulary), self._norm(hidden, _per_row))
        return tape

    def _attention_inputs(self) -> None:
        """Masks, places in the cache and rotations (``build_attn_inp_kv``, ``build_attn_inp_kv_iswa``)."""
        tape, flash = self._tape, self._mode.flash
        mask_bytes = 2 if flash else _FLOAT
        attentive = [layer for layer in self._shape.layers if layer.heads and not layer.recurrent]
        for windowed in dict.fromkeys(layer.window > 0 for layer in attentive):
            head = max(layer.queries // layer.heads for layer in attentive if (layer.window > 0) == windowed)
            if self._mode.quantized and head % _ROTATION == 0 and not self._shape.latent_rank:
                tape.input(size(one=_FLOAT * ((head & -head) ** 2 + _ROTATION**2)))
            self._key_places[windowed] = tape.input(size(tokens=_INDEX))
            value_places = 1 if flash or self._shape.latent_rank else self._shape.widest_values
            self._value_places[windowed] = tape.input(size(tokens=_INDEX * value_places))
            self._masks[windowed] = tape.input(size(window=mask_bytes) if windowed else size(global_=mask_bytes))

    # --- the usual layer ----------------------------------------------------------------------------------------

    def _layers(self) -> int:
        tape, width, shape = self._tape, self._width, self._shape
        hidden = tape.node(_per_token(width))
        extra = self._per_layer_lookup() if shape.per_layer_input else None
        chosen = representative(shape.layers)
        for place, index in enumerate(chosen):
            layer = shape.layers[index]
            self._next = shape.layers[chosen[place + 1]] if place + 1 < len(chosen) else None
            self._experts_follow = layer.experts_used > 0
            unit = _per_token if index < len(shape.layers) - 1 or self._family.late_rows else _per_row
            embedded = hidden
            hidden = self._layer(layer, hidden, unit)
            if extra is not None:
                gate = tape.node(unit(shape.per_layer_input), hidden)
                if index == 0:
                    extra = self._per_layer_projection(embedded, extra)
                result = tape.node(unit(width), tape.follow(gate, extra))
                hidden = tape.node(unit(width), hidden, result, reuse=(hidden, result))
        return hidden

    def _layer(self, layer: LayerShape, hidden: int, unit: _Unit) -> int:
        tape, width, family = self._tape, self._width, self._family
        if not layer.recurrent and not layer.attended and not self._shape.latent_rank:
            return self._feed_forward_step(layer, hidden, unit)
        normed = self._norm(hidden, _per_token)
        if family.parallel:
            return self._parallel_layer(layer, hidden, normed, unit)
        if not layer.recurrent and not layer.heads:
            mixed = tape.node(_per_token(width), normed)
        elif layer.recurrent:
            mixed = self._recurrent(normed)
        elif self._shape.latent_rank:
            mixed = self._latent_attention(layer, normed)
        else:
            mixed = tape.node(_per_token(width), self._attention(layer, normed))
        if unit is _per_row:
            mixed, hidden = tape.node(unit(width), mixed), tape.node(unit(width), hidden)
        pair = (hidden, mixed) if family.residual_in_middle else (mixed, hidden)
        # Where the product of a recurrent layer is seen through a view, its place cannot be taken over.
        takes = (hidden,) if layer.recurrent and family.mixed_in_view else pair
        hidden = tape.node(unit(width), *pair, reuse=takes)
        return self._feed_forward_step(layer, hidden, unit)

    def _feed_forward_step(self, layer: LayerShape, hidden: int, unit: _Unit) -> int:
        if not layer.feed_forward and not layer.experts_used:
            return hidden
        if self._architecture == "gemma4" and layer.experts_used:
            result = self._two_paths(layer, hidden, unit)
        else:
            result = self._feed_forward(layer, self._norm(hidden, unit), unit)
        pair = (hidden, result) if self._family.residual_at_end else (result, hidden)
        return self._tape.node(unit(self._width), *pair, reuse=pair)

    def _two_paths(self, layer: LayerShape, hidden: int, unit: _Unit) -> int:
        """``src/models/gemma4.cpp``: experts and a dense part, each with a norm of its own."""
        tape, width = self._tape, self._width
        order = self._order(layer, self._norm(hidden, unit), unit)
        result = self._chosen(layer, self._norm(hidden, unit), order, unit)
        dense = self._dense(self._norm(hidden, unit), layer.shared_feed_forward, unit)
        return tape.node(unit(width), dense, result, reuse=(dense, result))

    def _parallel_layer(self, layer: LayerShape, hidden: int, normed: int, unit: _Unit) -> int:
        """``src/models/cohere2.cpp``: the product behind the attention comes after the feed-forward part."""
        tape, width = self._tape, self._width
        attended = self._attention(layer, normed)
        if unit is _per_row:
            normed = tape.node(unit(width), normed)
        result = self._feed_forward(layer, normed, unit)
        if unit is _per_row:
            hidden = tape.node(unit(width), hidden)
        result = tape.node(unit(width), result, hidden, reuse=(result, hidden))
        mixed = tape.node(_per_token(width), attended)
        if unit is _per_row:
            mixed = tape.node(unit(width), mixed)
        return tape.node(unit(width), result, mixed, reuse=(result, mixed))

    def _norm(self, hidden: int, unit: _Unit) -> int:
        return self._tape.node(unit(self._width), hidden, reuse=() if self._family.mean_norm else (hidden,))

    # --- attention ----------------------------------------------------------------------------------------------

    def _attention(self, layer: LayerShape, normed: int) -> int:
        """From the normed input to the output of all heads (``build_qkv``, ``build_attn``)."""
        tape, family = self._tape, self._family
        windowed = layer.window > 0
        gate = -1
        if family.fused:
            together = tape.node(_per_token(layer.queries + layer.keys + layer.values), normed)
            queries = tape.node(_per_token(layer.queries), together)
            self._store(layer, tape.node(_per_token(layer.keys), together), together)
        else:
            if family.gated:
                gate = tape.node(_per_token(2 * layer.queries), normed)
                queries = tape.node(_per_token(layer.queries), gate)
            else:
                queries = tape.node(_per_token(layer.queries), normed)
                if layer.rotary:
                    queries = tape.node(_per_token(layer.queries), queries)
            queries = self._rotated(queries, layer.queries, layer.queries // layer.heads)
            if layer.values_from_keys:
                together = tape.node(_per_token(layer.keys), normed)
                keys = self._rotated(
                    tape.node(_per_token(layer.keys), together), layer.keys, layer.queries // layer.heads
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
        opened = tape.node(_per_token(layer.attended), gate)
        # The fused operation's result is seen through a view here.
        takes = (opened,) if self._mode.flash else (attended, opened)
        return tape.node(_per_token(layer.attended), attended, opened, reuse=takes)

    def _keys(self, layer: LayerShape, normed: int) -> int:
        keys = self._tape.node(_per_token(layer.keys), normed)
        if layer.rotary:
            keys = self._tape.node(_per_token(layer.keys), keys)
        return self._rotated(keys, layer.keys, layer.queries // layer.heads)

    def _values(self, layer: LayerShape, normed: int) -> int:
        return self._finished_values(layer, self._tape.node(_per_token(layer.values), normed))

    def _finished_values(self, layer: LayerShape, values: int) -> int:
        tape = self._tape
        if self._family.norm_values:
            values = tape.node(_per_token(layer.values), values)
        values = self._rotated(values, layer.values, layer.attended // layer.heads)
        if not self._mode.flash and layer.values < self._shape.widest_values:
            values = tape.node(_per_token(self._shape.widest_values), values)
        return values

    def _store(self, layer: LayerShape, keys: int, values: int) -> None:
        """Write K and V into the cache (``cpy_k``, ``cpy_v`` of ``src/llama-kv-cache.cpp``)."""
        windowed = layer.window > 0
        self._tape.node(0, keys, self._key_places[windowed])
        self._tape.node(0, values, self._value_places[windowed])

    def _rotated(self, source: int, elements: int, head: int) -> int:
        if self._mode.quantized and head % _ROTATION == 0:
            return self._tape.node(_per_token(elements), source)
        return source

    def _attend(self, layer: LayerShape, queries: int, windowed: bool) -> int:
        """``build_attn_mha``: one fused operation, or scores of all heads against all cells."""
        tape, mask = self._tape, self._masks[windowed]
        out = _per_token(layer.attended)
        if self._mode.flash:
            attended = tape.node(out, queries, mask)
        else:
            scores = tape.node(self._scores(layer.heads, windowed), queries)
            scores = tape.follow(scores, mask)
            attended = tape.node(out, tape.node(out, scores))
        self._fetch_early()
        return self._rotated(attended, layer.attended, layer.attended // layer.heads)

    def _scores(self, heads: int, windowed: bool) -> Size:
        return size(window=_FLOAT * heads) if windowed else size(global_=_FLOAT * heads)

    def _latent_attention(self, layer: LayerShape, normed: int) -> int:
        """``src/models/deepseek2.cpp``: K and V stay compressed, Q is brought into their space."""
        tape, shape = self._tape, self._shape
        rank, rotary, heads = shape.latent_rank, shape.latent_rotary, layer.heads
        source = normed
        if shape.query_rank:
            source = tape.node(_per_token(shape.query_rank), normed)
        plain = tape.node(_per_token(layer.queries), source)
        absorbed = tape.node(_per_token(heads * rank), plain)
        placed = tape.node(_per_token(heads * rotary), plain)
        queries = tape.node(_per_token(heads * (rank + rotary)), absorbed, placed)
        both = tape.node(_per_token(rank + rotary), normed)
        compressed = tape.node(_per_token(rank), both)
        placed = tape.node(_per_token(rotary), both)
        tape.node(0, tape.node(_per_token(rank + rotary), compressed, placed), self._key_places[False])
        compressed_out, out = _per_token(heads * rank), _per_token(heads * shape.latent_head)
        if self._mode.flash:
            attended = tape.node(out, tape.node(compressed_out, queries, self._masks[False]))
        else:
            values = tape.node(size(cells=self._mode.element_bytes * rank))
            scores = tape.node(self._scores(heads, windowed=False), queries)
            scores = tape.follow(scores, self._masks[False])
            attended = tape.node(out, tape.node(compressed_out, values, scores))
        return tape.node(_per_token(self._width), tape.node(out, attended))

    # --- feed-forward -------------------------------------------------------------------------------------------

    def _feed_forward(self, layer: LayerShape, source: int, unit: _Unit) -> int:
        """``build_ffn``, ``build_moe_ffn``, or both where all tokens pass a shared expert."""
        if not layer.experts_used:
            return self._dense(source, layer.feed_forward, unit)
        result = self._experts(layer, source, unit)
        if not layer.shared_feed_forward:
            return result
        other = self._dense(source, layer.shared_feed_forward, unit)
        return self._tape.node(unit(self._width), result, other, reuse=(result, other))

    def _dense(self, source: int, inner: int, unit: _Unit) -> int:
        tape = self._tape
        if self._family.fused_gate:
            active = tape.node(unit(inner), tape.node(unit(2 * inner), source))
        else:
            gate, up = tape.node(unit(inner), source), tape.node(unit(inner), source)
            active = tape.node(unit(inner), gate, up)
        return tape.node(unit(self._width), active)

    def _experts(self, layer: LayerShape, source: int, unit: _Unit) -> int:
        return self._chosen(layer, source, self._order(layer, source, unit), unit)

    def _order(self, layer: LayerShape, source: int, unit: _Unit) -> tuple[int, int]:
        """The experts in order of their likelihood, and the weights of the first ones."""
        tape = self._tape
        likely = tape.node(unit(self._shape.experts), source)
        order = tape.node(unit(self._shape.experts), likely)
        return order, tape.node(unit(layer.experts_used), likely, order)

    def _chosen(self, layer: LayerShape, source: int, choice: tuple[int, int], unit: _Unit) -> int:
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

    # --- recurrent layers ---------------------------------------------------------------------------------------

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
        past = size(sequences=_FLOAT * channels * (self._shape.convolution - 1))
        before, self._fetched = self._fetched, None
        if before is None:
            before = self._tape.node(past)
        return self._tape.node(_per_token(channels) + past, before, source)

    def _fetch_next(self) -> None:
        """Fetch the next layer's past inputs: the graph does so early, while products of this layer still wait.

        ``build_rs`` puts its nodes into the graph at once, what follows it only when something asks for it.
        """
        shape, following = self._shape, self._next
        if following is None or not following.recurrent or self._fetched is not None or self._family.gated:
            return
        channels = shape.state_inner + 2 * shape.state_groups * shape.state_size or self._width
        self._fetched = self._tape.node(size(sequences=_FLOAT * channels * (shape.convolution - 1)))

    def _convolved(self, source: int, channels: int) -> int:
        """Convolve over these and the last tokens' inputs (``ggml_ssm_conv``)."""
        extended = self._extended(source, channels)
        if not self._shape.state_size:
            self._fetch_early()
        return self._tape.node(_per_token(channels), extended)

    def _fetch_early(self) -> None:
        """Fetch where no experts follow in this layer; else that comes after them."""
        if not self._experts_follow:
            self._fetch_next()

    def _state(self) -> Size:
        return size(sequences=_FLOAT * self._shape.state_inner * self._shape.state_size)

    def _short_convolution(self, normed: int) -> int:
        """``src/models/lfm2.cpp``, ``build_shortconv_block``."""
        tape, width = self._tape, self._width
        parts = tape.node(_per_token(3 * width), normed)
        product = tape.node(_per_token(width), parts, parts)
        convolved = self._convolved(product, width)
        return tape.node(_per_token(width), tape.node(_per_token(width), parts, convolved, reuse=(convolved,)))

    def _scan(self, normed: int) -> int:
        """``src/models/mamba-base.cpp``, ``build_mamba_layer``."""
        tape, shape = self._tape, self._shape
        inner, heads = _per_token(shape.state_inner), shape.state_heads
        both = tape.node(_per_token(2 * shape.state_inner), normed)
        convolved = self._convolved(both, shape.state_inner)
        parts = tape.node(_per_token(heads + 2 * shape.state_size), convolved)
        step = tape.node(inner, tape.node(_per_token(heads), parts))
        scanned = tape.node(inner + self._state(), convolved, step, parts, parts)
        self._fetch_early()
        gate = tape.node(inner, both)
        kept = tape.follow(convolved)
        kept = tape.node(inner, scanned, kept, reuse=(kept,))
        return tape.node(_per_token(self._width), tape.node(inner, gate, kept))

    def _grouped_scan(self, normed: int) -> int:
        """``src/models/mamba-base.cpp``, ``build_mamba2_layer``."""
        tape, shape = self._tape, self._shape
        inner = _per_token(shape.state_inner)
        channels = shape.state_inner + 2 * shape.state_groups * shape.state_size
        both = tape.node(_per_token(shape.state_inner + channels + shape.state_heads), normed)
        convolved = self._convolved(both, channels)
        step = tape.node(_per_token(shape.state_heads), both)
        scanned = tape.node(inner + self._state(), convolved, step, convolved, convolved)
        self._fetch_early()
        gate = tape.node(inner, both)
        kept = tape.node(inner, convolved)
        kept = tape.node(inner, scanned, kept, reuse=(kept,))
        return tape.node(_per_token(self._width), tape.node(inner, tape.node(inner, gate, kept)))

    def _delta(self, normed: int) -> int:
        """``src/models/qwen35.cpp``, ``build_layer_attn_linear``, with the fused ``ggml_gated_delta_net``."""
        tape, shape = self._tape, self._shape
        inner, keys = _per_token(shape.state_inner), shape.state_size * shape.state_groups
        channels = shape.state_inner + 2 * keys
        extended = self._extended(tape.node(_per_token(channels), normed), channels)
        state = tape.node(self._state())
        convolved = tape.node(_per_token(channels), extended)
        query, key = (tape.node(_per_token(keys), convolved) for _ in range(2))
        decay, strength = (tape.node(_per_token(shape.state_heads), normed) for _ in range(2))
        result = tape.node(inner + self._state(), query, key, convolved, decay, strength, state)
        plain = tape.node(inner, result)
        gate = tape.node(inner, tape.node(inner, normed))
        return tape.node(_per_token(self._width), tape.node(inner, plain, gate, reuse=(plain, gate)))

    # --- embeddings for each layer (gemma3n, gemma4) ------------------------------------------------------------

    def _per_layer_lookup(self) -> int:
        """``build_inp_per_layer``: one row for all layers, scaled through a view."""
        whole = _per_token(self._shape.per_layer_input * len(self._shape.layers))
        return self._tape.node(whole, self._tape.node(whole))

    def _per_layer_projection(self, embedded: int, lookup: int) -> int:
        """``project_per_layer_inputs``; first needed, hence computed, inside the first layer."""
        tape = self._tape
        whole = _per_token(self._shape.per_layer_input * len(self._shape.layers))
        normed = tape.node(whole, tape.node(whole, embedded))
        total = tape.node(whole, normed, lookup, reuse=(normed, lookup))
        return tape.node(whole, total)

    # --- gemma3n ------------------------------------------------------------------------------------------------

    def _stacked_layers(self) -> int:
        """``src/models/gemma3n.cpp``: four versions of the hidden state, one of which passes each layer."""
        tape, width = self._tape, self._width
        one, three, four = _per_token(width), _per_token(3 * width), _per_token(4 * width)
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
            gate = tape.node(_per_token(self._shape.per_layer_input), tape.node(one, corrected))
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
        four = _per_token(4 * width)
        turned = tape.node(four, stack)
        tape.node(0, tape.node(_per_token(width), stack))
        mixed = tape.node(four, tape.node(four, turned))
        return tape.node(four, mixed, stack, reuse=(mixed, stack))

    def _active(self, layer: LayerShape, predicted: int, *, sparse: bool) -> int:
        """Attention, the low-rank path beside it, and the feed-forward part."""
        tape, width = self._tape, self._width
        one, inner = _per_token(width), _per_token(layer.feed_forward)
        normed = tape.node(one, predicted)
        mixed = tape.node(one, self._attention(layer, normed))
        mixed = tape.node(one, mixed, predicted, reuse=(mixed,))
        beside = tape.node(one, tape.node(_per_token(_LAUREL_RANK), normed))
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

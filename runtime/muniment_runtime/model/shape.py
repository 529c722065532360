"""From a file's keys to the widths that its cache, its states and its temporary tensors follow from.

Sources, all in llama.cpp: keys for all architectures and their defaults in ``src/llama-model.cpp``
(``llama_model_base::load_hparams``, ``load_swa_pattern``), those of one architecture in
``src/models/<architecture>.cpp`` (``load_arch_hparams``), widths in ``src/llama-hparams.cpp`` (``n_embd_k_gqa``,
``n_embd_v_gqa``, ``n_embd_r``, ``n_embd_s``, ``has_kv``, ``set_swa_pattern``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muniment_runtime.contracts import GraphShape, LayerKv, LayerShape
from muniment_runtime.model.gguf import GgufHeader
from muniment_runtime.model.keys import MAX_LAYERS, Keys

__all__ = ["SUPPORTED", "ModelShape", "covered", "model_shape"]

# Features that cost memory -> the architectures for which they are covered. Anywhere else their mere presence
# means that the model is not what the closed form assumes.
_FEATURES: Mapping[str, frozenset[str]] = {
    "expert_count": frozenset(
        {
            "llama",
            "qwen3moe",
            "gpt-oss",
            "deepseek2",
            "granitehybrid",
            "lfm2moe",
            "qwen35moe",
            "qwen3next",
            "gemma4",
        }
    ),
    "attention.kv_lora_rank": frozenset({"deepseek2"}),
    "attention.q_lora_rank": frozenset({"deepseek2"}),
    "attention.key_length_mla": frozenset({"deepseek2"}),
    "attention.value_length_mla": frozenset({"deepseek2"}),
    "attention.shared_kv_layers": frozenset({"gemma3n", "gemma4"}),
    "attention.key_length_swa": frozenset({"gemma4"}),
    "attention.value_length_swa": frozenset({"gemma4"}),
    "embedding_length_per_layer_input": frozenset({"gemma3n", "gemma4"}),
    "ssm.conv_kernel": frozenset({"mamba", "mamba2", "granitehybrid", "qwen35", "qwen35moe", "qwen3next"}),
    "shortconv.l_cache": frozenset({"lfm2", "lfm2moe"}),
    "full_attention_interval": frozenset({"qwen35", "qwen35moe", "qwen3next"}),
    "attention.recurrent_layers": frozenset({"qwen35", "qwen35moe", "qwen3next"}),
    "wkv.head_size": frozenset(),
    "nextn_predict_layers": frozenset(),
    "embedding_length_out": frozenset(),
    "deepstack_mapping": frozenset(),
}

# Which of several ways a file holds a layer shows in its tensors: name -> the architectures that must have it (true)
# or must not (false).
_TENSORS: Mapping[str, Mapping[str, bool]] = {
    "blk.0.attn_qkv.weight": {
        **dict.fromkeys(
            (
                "llama", "qwen2", "qwen3", "qwen3moe", "stablelm", "gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss",
                "cohere2", "deci",
            ),
            False,
        ),
        "phi3": True,
        "openelm": True,
    },
    "blk.0.ffn_norm.weight": {"stablelm": True},
    "blk.0.attn_k_b.weight": {"deepseek2": True},
}  # fmt: skip

_RECURRENT_ONLY = frozenset({"mamba", "mamba2"})
_WITHOUT_CACHE_WHERE_NO_HEADS = frozenset({"granitehybrid", "lfm2", "lfm2moe"})
_BY_INTERVAL = frozenset({"qwen35", "qwen35moe", "qwen3next"})
_MAY_LACK_ATTENTION = frozenset({"deci"})
_WINDOW_PERIOD = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4}
_WINDOW_DEFAULT = {"gemma2": 4096}
_WINDOW_ARRAY_ONLY = frozenset({"gemma4"})
_CACHED_LAYERS_OF_GEMMA3N = 20
_MAX_WIDTH = 1 << 30
"""Elements per token of one tensor, or of one state; published models stay below 2^24."""
_FUSED_GATE = "blk.0.ffn_gate_up_exps.weight"

SUPPORTED = (
    frozenset({"llama", "qwen2", "qwen3", "qwen3moe", "phi3", "stablelm", "openelm", "deci"})
    | frozenset({"gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss", "cohere2", "deepseek2"})
    | _RECURRENT_ONLY
    | _WITHOUT_CACHE_WHERE_NO_HEADS
    | _BY_INTERVAL
)
"""Architectures that the closed form covers, unless a file uses a feature that is not (``covered``)."""


@dataclass(frozen=True)
class ModelShape:
    """Widths of a covered model.

    Attributes:
        cache: K and V of each layer that has cells of its own.
        graph: What the temporary tensors follow from.
        state_elements: Float32 elements of recurrent state per sequence, over all layers.
    """

    cache: tuple[LayerKv, ...]
    graph: GraphShape
    state_elements: int


def covered(keys: Keys, header: GgufHeader) -> bool:
    """Return whether the closed form covers this file; otherwise its memory is only asked of the library."""
    architecture = keys.architecture
    if architecture not in SUPPORTED or not keys.flag("attention.causal", default=True):
        return False
    for key, architectures in _FEATURES.items():
        if keys.holds(key) and architecture not in architectures:
            return False
    names = {tensor.name for tensor in header.tensors}
    if any(rule[architecture] != (name in names) for name, rule in _TENSORS.items() if architecture in rule):
        return False
    if architecture == "deepseek2" and (
        not keys.holds("attention.key_length_mla") or keys.number("expert_group_count", 0) > 1
    ):
        return False
    # A window in a model that has convolutions in place of attention is another kind of cache.
    return not (architecture in ("lfm2", "lfm2moe") and keys.holds("attention.sliding_window"))


def model_shape(keys: Keys, header: GgufHeader) -> ModelShape:
    """Return the widths of a covered model.

    Raises:
        KnownError: ``E-MODEL-MALFORMED`` for a missing or impossible key.
    """
    return _Reader(keys, header).shape()


class _Reader:
    """Reads one model; ``keys`` are strict."""

    def __init__(self, keys: Keys, header: GgufHeader) -> None:
        self._keys = keys
        self._names = frozenset(tensor.name for tensor in header.tensors)
        self._architecture = keys.architecture
        self._count = keys.number("block_count")
        if not 0 < self._count <= MAX_LAYERS:
            raise keys.refused("block_count")
        self._embedding = keys.positive("embedding_length")
        self._experts = keys.number("expert_count", 0)

    def shape(self) -> ModelShape:
        keys, count = self._keys, self._count
        if self._architecture in _RECURRENT_ONLY:
            heads = heads_kv = (0,) * count
            windows, recurrent = heads, (True,) * count
        else:
            heads = keys.per_layer("attention.head_count", count)
            heads_kv = keys.per_layer("attention.head_count_kv", count, fallback=heads)
            windows, recurrent = self._windows(), self._recurrent(heads_kv)
        self._check_heads(heads, heads_kv, recurrent)
        dense = keys.per_layer("feed_forward_length", count, default=self._default_feed_forward())
        used = keys.per_layer("expert_used_count", count, default=0 if not self._experts else None)
        # The library ends the process on these (load_hparams).
        if max(used, default=0) > self._experts:
            raise keys.refused("expert_used_count")
        own = self._own_layers()
        layers, cache = [], []
        for index in range(count):
            layer = self._layer(index, heads[index], heads_kv[index], windows[index], own=index < own)
            if recurrent[index]:
                layer = LayerShape(recurrent=True)
            elif index < own:
                cache.append(self._cached(layer))
            layers.append(self._with_feed_forward(layer, index, dense[index], used[index]))
        graph = GraphShape(
            layers=tuple(layers),
            widest_values=self._widest(heads_kv, windows),
            fused_gate=_FUSED_GATE in self._names,
            **self._numbers(),
        )
        self._check_widths(graph)
        return ModelShape(tuple(cache), graph, self._state(graph) * sum(recurrent))

    def _check_widths(self, graph: GraphShape) -> None:
        """Refuse what no model has: figures beyond this would not fit the sums that are made of them."""
        widths = [self._embedding, self._keys.vocabulary(), graph.widest_values, graph.per_layer_input * self._count]
        widths += [graph.experts, graph.query_rank, graph.latent_rotary, graph.state_groups * graph.state_size]
        widths += [self._state(graph), graph.state_heads]
        for layer in graph.layers:
            widths += [layer.queries, layer.keys, layer.values, layer.attended, layer.feed_forward]
            widths += [layer.heads * max(graph.latent_rank + graph.latent_rotary, graph.latent_head, 1)]
            widths += [layer.experts_used * max(layer.expert_feed_forward, self._embedding)]
            widths += [layer.shared_feed_forward]
        if max(widths) > _MAX_WIDTH:
            raise self._keys.refused("embedding_length")

    def _check_heads(self, heads: tuple[int, ...], heads_kv: tuple[int, ...], recurrent: tuple[bool, ...]) -> None:
        if self._architecture in _MAY_LACK_ATTENTION:
            bad = any(own > 0 and not all_heads for all_heads, own in zip(heads, heads_kv, strict=True))
        else:
            attentive = [
                pair for pair, lacks in zip(zip(heads, heads_kv, strict=True), recurrent, strict=True) if not lacks
            ]
            bad = any(min(pair) <= 0 for pair in attentive)
        if bad:
            raise self._keys.refused("attention.head_count")

    # --- attention ----------------------------------------------------------------------------------------------

    def _head(self, name: str, window: int) -> int:
        """Elements of one head of K or V (``n_embd_head_k``, ``n_embd_head_v``)."""
        keys = self._keys
        heads = keys.per_layer("attention.head_count", self._count)
        elements = keys.number(f"attention.{name}_length", self._embedding // max(heads[0], 1))
        if window:
            elements = keys.number(f"attention.{name}_length_swa", elements)
        if elements <= 0:
            raise keys.refused(f"attention.{name}_length")
        return elements

    def _layer(self, index: int, heads: int, heads_kv: int, window: int, *, own: bool) -> LayerShape:
        if not heads:
            return LayerShape()
        if not heads_kv:
            # A linear layer in place of attention (deci): one product, no cache.
            return LayerShape(attended=self._embedding)
        keys = self._keys
        if self._architecture == "deepseek2":
            return LayerShape(heads=heads, queries=heads * keys.positive("attention.key_length_mla"))
        key, value = self._head("key", window), self._head("value", window)
        rotary = not (self._architecture == "cohere2" and not window)
        if self._architecture == "granitehybrid":
            rotary = keys.flag("rope.scaling.finetuned", default=True)
        shared = self._architecture == "gemma4" and f"blk.{index}.attn_v.weight" not in self._names
        return LayerShape(
            heads=heads,
            queries=heads * key,
            keys=heads_kv * key if own else 0,
            values=heads_kv * value if own else 0,
            attended=heads * value,
            window=window,
            rotary=rotary,
            values_from_keys=shared and own,
        )

    def _cached(self, layer: LayerShape) -> LayerKv:
        if self._architecture == "deepseek2":
            return LayerKv(self._keys.positive("attention.key_length"), 0)
        return LayerKv(layer.keys, layer.values, layer.window)

    def _widest(self, heads_kv: tuple[int, ...], windows: tuple[int, ...]) -> int:
        if not any(heads_kv) or self._architecture == "deepseek2":
            return 0
        return max(own * self._head("value", window) for own, window in zip(heads_kv, windows, strict=True))

    def _own_layers(self) -> int:
        """Layers from the start that have a cache; the others read one of theirs (``has_kv``)."""
        if self._architecture == "gemma3n":
            return min(_CACHED_LAYERS_OF_GEMMA3N, self._count)
        shared = self._keys.number("attention.shared_kv_layers", 0)
        if shared >= self._count:
            raise self._keys.refused("attention.shared_kv_layers")
        return self._count - shared

    def _windows(self) -> tuple[int, ...]:
        """Sliding window per layer, 0 for global ones.

        Only some architectures use the key: llama and qwen never read it, phi3 reads and then ignores it.
        """
        keys, count = self._keys, self._count
        if self._architecture not in _WINDOW_PERIOD and self._architecture not in _WINDOW_ARRAY_ONLY:
            return (0,) * count
        window = keys.number("attention.sliding_window", _WINDOW_DEFAULT.get(self._architecture, 0))
        if window == 0:
            return (0,) * count
        key = "attention.sliding_window_pattern"
        flags = keys.array(key)
        if flags is not None:
            if len(flags) != count:
                raise keys.refused(key)
            return tuple(window if flag else 0 for flag in flags)
        if self._architecture in _WINDOW_ARRAY_ONLY:
            raise keys.refused(key)
        period = keys.number(key, _WINDOW_PERIOD[self._architecture])
        if period == 0:
            return (window,) * count
        return tuple(window if layer % period < period - 1 else 0 for layer in range(count))

    # --- recurrent layers ---------------------------------------------------------------------------------------

    def _recurrent(self, heads_kv: tuple[int, ...]) -> tuple[bool, ...]:
        keys, count = self._keys, self._count
        if self._architecture in _WITHOUT_CACHE_WHERE_NO_HEADS:
            return tuple(own == 0 for own in heads_kv)
        if self._architecture not in _BY_INTERVAL:
            return (False,) * count
        flags = keys.array("attention.recurrent_layers")
        if flags is not None:
            if len(flags) != count:
                raise keys.refused("attention.recurrent_layers")
            return tuple(bool(flag) for flag in flags)
        interval = keys.number("full_attention_interval", 4)
        if interval == 0:
            raise keys.refused("full_attention_interval")
        return tuple((index + 1) % interval != 0 for index in range(count))

    def _state(self, graph: GraphShape) -> int:
        """Elements of one layer's state per sequence (``n_embd_r`` + ``n_embd_s``)."""
        if not graph.convolution:
            return 0
        channels = graph.state_inner + 2 * graph.state_groups * graph.state_size
        return (graph.convolution - 1) * (channels or self._embedding) + graph.state_inner * graph.state_size

    def _numbers(self) -> dict[str, int]:
        """Figures of the whole model."""
        keys = self._keys
        found: dict[str, int] = {
            "experts": self._experts,
            "per_layer_input": keys.number("embedding_length_per_layer_input", 0),
        }
        if keys.holds("shortconv.l_cache"):
            found["convolution"] = keys.positive("shortconv.l_cache")
        elif self._architecture in _FEATURES["ssm.conv_kernel"]:
            found |= {
                "convolution": keys.positive("ssm.conv_kernel"),
                "state_inner": keys.positive("ssm.inner_size"),
                "state_size": keys.positive("ssm.state_size"),
                "state_heads": keys.positive("ssm.time_step_rank"),
                "state_groups": 0 if self._architecture == "mamba" else keys.positive("ssm.group_count"),
            }
        if self._architecture == "deepseek2":
            found |= {
                "query_rank": keys.number("attention.q_lora_rank", 0),
                "latent_rank": keys.positive("attention.kv_lora_rank"),
                "latent_rotary": keys.positive("rope.dimension_count"),
                "latent_head": keys.positive("attention.value_length_mla"),
            }
        return found

    # --- feed-forward -------------------------------------------------------------------------------------------

    def _default_feed_forward(self) -> int | None:
        """``None`` where the key must be there."""
        return 0 if self._architecture in _RECURRENT_ONLY or self._experts else None

    def _with_feed_forward(self, layer: LayerShape, index: int, dense: int, used: int) -> LayerShape:
        keys = self._keys
        if not self._experts or index < keys.number("leading_dense_block_count", 0):
            return replace(layer, feed_forward=dense)
        if not used:
            raise keys.refused("expert_used_count")
        inner = keys.per_layer("expert_feed_forward_length", self._count, default=0)[index]
        if self._architecture in ("llama", "granitehybrid"):
            inner = dense
        shared = keys.number("expert_shared_feed_forward_length", 0)
        if self._architecture == "deepseek2":
            shared = inner * keys.number("expert_shared_count", 0)
        elif self._architecture in ("qwen35moe", "qwen3next"):
            shared = shared or dense
        elif self._architecture == "gemma4":
            shared = dense
        elif self._architecture != "granitehybrid":
            shared = 0
        return replace(
            layer,
            experts_used=used,
            expert_feed_forward=inner or dense // used,
            shared_feed_forward=shared,
        )

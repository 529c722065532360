"""Shapes of published models, without weights: what their converted files state and hold.

The numbers come from the models' published configurations, the keys and tensor names from llama.cpp's
``src/models/<architecture>.cpp``. A name that ends in ``-like`` has its architecture's features in proportions of our
own. Every shape loads in the library (``tests/model/test_oracle.py``). Weight types are those of a usual Q4_K_M file in
rough: what matters is that they are real types whose blocks fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muniment_runtime.model.skeleton import Shape, ShapeTensor, ShapeValue

__all__ = ["SHAPES", "Maker", "dense"]


@dataclass
class Maker:
    """A shape under construction: the parts that all architectures share."""

    architecture: str
    layers: int
    embedding: int
    vocabulary: int
    type_name: str = "Q4_K"
    lookup_type: str = "Q6_K"
    context: int = 131072
    keys: dict[str, ShapeValue] = field(default_factory=dict)
    tensors: list[ShapeTensor] = field(default_factory=list)

    def put(self, name: str, *shape: int, type_name: str | None = None) -> None:
        self.tensors.append(ShapeTensor(name, shape, type_name or self.type_name))

    def vector(self, name: str, *shape: int) -> None:
        self.put(name, *shape, type_name="F32")

    def start(self, *, tied: bool, norm: bool = True, **keys: ShapeValue) -> None:
        self.keys.update(
            {"context_length": self.context, "embedding_length": self.embedding, "block_count": self.layers}
        )
        self.keys["attention.layer_norm_rms_epsilon"] = 1e-5
        self.keys.update({key.replace("__", "."): value for key, value in keys.items()})
        self.put("token_embd.weight", self.embedding, self.vocabulary, type_name=self.lookup_type)
        if norm:
            self.vector("output_norm.weight", self.embedding)
        if not tied:
            self.put("output.weight", self.embedding, self.vocabulary, type_name=self.lookup_type)

    def attention(
        self,
        layer: str,
        heads: int,
        heads_kv: int,
        dim: int,
        *,
        bias: bool = False,
        norms: bool = False,
        own: bool = True,
    ) -> None:
        """Query, key, value and output matrices; ``own`` is off where another layer's K and V are used."""
        wide, narrow = heads * dim, heads_kv * dim
        self.put(layer + "attn_q.weight", self.embedding, wide)
        if own:
            self.put(layer + "attn_k.weight", self.embedding, narrow)
            self.put(layer + "attn_v.weight", self.embedding, narrow)
        self.put(layer + "attn_output.weight", wide, self.embedding)
        if bias:
            for name, width in (("q", wide), ("k", narrow), ("v", narrow)):
                self.vector(f"{layer}attn_{name}.bias", width)
        if norms:
            self.vector(layer + "attn_q_norm.weight", dim)
            if own:
                self.vector(layer + "attn_k_norm.weight", dim)

    def feed_forward(self, layer: str, width: int) -> None:
        self.put(layer + "ffn_gate.weight", self.embedding, width)
        self.put(layer + "ffn_up.weight", self.embedding, width)
        self.put(layer + "ffn_down.weight", width, self.embedding)

    def experts(self, layer: str, count: int, width: int, *, bias: bool = False, down: str | None = None) -> None:
        self.vector(layer + "ffn_gate_inp.weight", self.embedding, count)
        self.put(layer + "ffn_gate_exps.weight", self.embedding, width, count)
        self.put(layer + "ffn_up_exps.weight", self.embedding, width, count)
        self.put(layer + "ffn_down_exps.weight", width, self.embedding, count, type_name=down)
        if bias:
            self.vector(layer + "ffn_gate_inp.bias", count)
            self.vector(layer + "ffn_gate_exps.bias", width, count)
            self.vector(layer + "ffn_up_exps.bias", width, count)
            self.vector(layer + "ffn_down_exps.bias", self.embedding, count)

    def norms(self, layer: str, *names: str) -> None:
        for name in names:
            self.vector(f"{layer}{name}.weight", self.embedding)

    def shape(self) -> Shape:
        return Shape(self.architecture, self.vocabulary, self.keys, tuple(self.tensors))


def dense(
    architecture: str,
    *,
    layers: int,
    embedding: int,
    feed_forward: int,
    heads: int,
    heads_kv: int,
    vocabulary: int,
    dim: int | None = None,
    tied: bool = False,
    bias: bool = False,
    norms: bool = False,
    after: bool = False,
    types: tuple[str, str] = ("Q4_K", "Q6_K"),
    context: int = 131072,
    keys: Mapping[str, ShapeValue] | None = None,
) -> Shape:
    """The plain transformer with grouped queries: llama, qwen2 (bias), qwen3 (norms), gemma (norms after as well)."""
    made = Maker(architecture, layers, embedding, vocabulary, *types, context)
    width = dim or embedding // heads
    made.start(tied=tied, feed_forward_length=feed_forward)
    made.keys.update({"attention.head_count": heads, "attention.head_count_kv": heads_kv})
    made.keys.update({"attention.key_length": width, "attention.value_length": width, "rope.dimension_count": width})
    made.keys.update(keys or {})
    for number in range(layers):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, heads, heads_kv, width, bias=bias, norms=norms)
        made.feed_forward(layer, feed_forward)
        if after:
            made.norms(layer, "post_attention_norm", "post_ffw_norm")
    return made.shape()


def llama_3_2_1b() -> Shape:
    return dense(
        "llama", layers=16, embedding=2048, feed_forward=8192, heads=32, heads_kv=8, vocabulary=128256, tied=True
    )


def llama_3_1_8b() -> Shape:
    return dense("llama", layers=32, embedding=4096, feed_forward=14336, heads=32, heads_kv=8, vocabulary=128256)


def qwen2_5_0_5b() -> Shape:
    # Rows of 896 do not divide into blocks of 256, so its Q4_K_M file holds Q5_0 and Q8_0.
    return dense(
        "qwen2",
        layers=24,
        embedding=896,
        feed_forward=4864,
        heads=14,
        heads_kv=2,
        vocabulary=151936,
        tied=True,
        bias=True,
        types=("Q5_0", "Q8_0"),
        context=32768,
    )


def qwen2_5_7b() -> Shape:
    return dense(
        "qwen2", layers=28, embedding=3584, feed_forward=18944, heads=28, heads_kv=4, vocabulary=152064, bias=True
    )


def qwen3_4b() -> Shape:
    return dense(
        "qwen3",
        layers=36,
        embedding=2560,
        feed_forward=9728,
        heads=32,
        heads_kv=8,
        dim=128,
        vocabulary=151936,
        tied=True,
        norms=True,
        types=("Q8_0", "Q8_0"),
        context=40960,
    )


def phi3_mini() -> Shape:
    made = Maker("phi3", 32, 3072, 32064, context=131072)
    made.start(tied=False, feed_forward_length=8192, attention__head_count=32, attention__head_count_kv=32)
    made.keys.update({"rope.dimension_count": 96, "rope.scaling.original_context_length": 4096})
    # The file states a window of 262144 tokens; llama.cpp reads it and turns windows off.
    made.keys["attention.sliding_window"] = 262144
    made.vector("rope_factors_long.weight", 48)
    made.vector("rope_factors_short.weight", 48)
    for number in range(32):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.put(layer + "attn_qkv.weight", 3072, 9216)
        made.put(layer + "attn_output.weight", 3072, 3072)
        made.put(layer + "ffn_up.weight", 3072, 16384)
        made.put(layer + "ffn_down.weight", 8192, 3072)
    return made.shape()


def gemma2_2b() -> Shape:
    return dense(
        "gemma2",
        layers=26,
        embedding=2304,
        feed_forward=9216,
        heads=8,
        heads_kv=4,
        dim=256,
        vocabulary=256000,
        tied=True,
        after=True,
        context=8192,
        keys={
            "attention.sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    )


def gemma3_4b() -> Shape:
    return dense(
        "gemma3",
        layers=34,
        embedding=2560,
        feed_forward=10240,
        heads=8,
        heads_kv=4,
        dim=256,
        vocabulary=262144,
        tied=True,
        norms=True,
        after=True,
        types=("Q4_0", "Q6_K"),
        keys={"attention.sliding_window": 1024, "rope.freq_base": 1e6},
    )


def gemma3_270m() -> Shape:
    return dense(
        "gemma3",
        layers=18,
        embedding=640,
        feed_forward=2048,
        heads=4,
        heads_kv=1,
        dim=256,
        vocabulary=262144,
        tied=True,
        norms=True,
        after=True,
        types=("Q5_0", "Q8_0"),
        context=32768,
        keys={"attention.sliding_window": 512, "rope.freq_base": 1e6},
    )


def gpt_oss_20b() -> Shape:
    made = Maker("gpt-oss", 24, 2880, 201088, "Q8_0", "Q8_0", 131072)
    made.start(tied=False, feed_forward_length=2880, attention__head_count=64, attention__head_count_kv=8)
    made.keys.update({"attention.key_length": 64, "attention.value_length": 64, "rope.dimension_count": 64})
    made.keys.update({"attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4})
    made.keys["expert_feed_forward_length"] = 2880
    made.keys["rope.freq_base"] = 150000.0
    for number in range(24):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "post_attention_norm")
        made.attention(layer, 64, 8, 64, bias=True)
        made.vector(layer + "attn_output.bias", 2880)
        made.vector(layer + "attn_sinks.weight", 64)
        made.type_name = "MXFP4"
        made.experts(layer, 32, 2880, bias=True)
        made.type_name = "Q8_0"
    return made.shape()


def command_r7b() -> Shape:
    made = Maker("cohere2", 32, 4096, 256000, context=8192)
    made.start(tied=True, feed_forward_length=14336, attention__head_count=32, attention__head_count_kv=8)
    made.keys.update({"attention.layer_norm_epsilon": 1e-5, "attention.sliding_window": 4096, "logit_scale": 0.25})
    made.keys["rope.dimension_count"] = 128
    for number in range(32):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm")
        made.attention(layer, 32, 8, 128)
        made.feed_forward(layer, 14336)
    return made.shape()


def deepseek2_lite() -> Shape:
    heads, latent, rope, width = 16, 512, 64, 1408
    made = Maker("deepseek2", 27, 2048, 102400, context=163840)
    made.start(tied=False, feed_forward_length=10944, attention__head_count=heads, attention__head_count_kv=1)
    made.keys.update({"attention.key_length": latent + rope, "attention.value_length": latent})
    made.keys.update({"attention.key_length_mla": 192, "attention.value_length_mla": 128})
    made.keys.update({"attention.kv_lora_rank": latent, "rope.dimension_count": rope, "leading_dense_block_count": 1})
    made.keys.update({"expert_count": 64, "expert_used_count": 6, "expert_feed_forward_length": width})
    made.keys.update({"expert_shared_count": 2, "expert_weights_scale": 1.0})
    for number in range(27):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.vector(layer + "attn_kv_a_norm.weight", latent)
        made.put(layer + "attn_q.weight", 2048, heads * 192)
        made.put(layer + "attn_kv_a_mqa.weight", 2048, latent + rope)
        made.put(layer + "attn_k_b.weight", 128, latent, heads, type_name="Q8_0")
        made.put(layer + "attn_v_b.weight", latent, 128, heads, type_name="Q8_0")
        made.put(layer + "attn_output.weight", heads * 128, 2048)
        if number == 0:
            made.type_name = "Q4_0"
            made.feed_forward(layer, 10944)
            made.type_name = "Q4_K"
            continue
        made.experts(layer, 64, width, down="Q8_0")
        made.put(layer + "ffn_gate_shexp.weight", 2048, 2 * width)
        made.put(layer + "ffn_up_shexp.weight", 2048, 2 * width)
        made.put(layer + "ffn_down_shexp.weight", 2 * width, 2048)
    return made.shape()


def qwen3_30b_a3b() -> Shape:
    made = Maker("qwen3moe", 48, 2048, 151936, context=262144)
    made.start(tied=False, feed_forward_length=6144, attention__head_count=32, attention__head_count_kv=4)
    made.keys.update({"attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128})
    made.keys.update({"expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768})
    for number in range(48):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, 32, 4, 128, norms=True)
        made.experts(layer, 128, 768)
    return made.shape()


def mixtral_8x7b() -> Shape:
    made = Maker("llama", 32, 4096, 32000, context=32768)
    made.start(tied=False, feed_forward_length=14336, attention__head_count=32, attention__head_count_kv=8)
    made.keys.update({"rope.dimension_count": 128, "expert_count": 8, "expert_used_count": 2})
    for number in range(32):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, 32, 8, 128)
        made.experts(layer, 8, 14336)
    return made.shape()


def lfm2_1_2b() -> Shape:
    heads_kv = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
    made = Maker("lfm2", 16, 2048, 65536, context=128000)
    made.start(tied=True, norm=False, feed_forward_length=8192, attention__head_count=32)
    made.keys.update({"attention.head_count_kv": heads_kv, "shortconv.l_cache": 3, "rope.dimension_count": 64})
    made.vector("token_embd_norm.weight", 2048)
    for number, count in enumerate(heads_kv):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.feed_forward(layer, 8192)
        if count:
            made.attention(layer, 32, count, 64, norms=True)
        else:
            made.vector(layer + "shortconv.conv.weight", 3, 2048)
            made.put(layer + "shortconv.in_proj.weight", 2048, 6144)
            made.put(layer + "shortconv.out_proj.weight", 2048, 2048)
    return made.shape()


def qwen3_5_4b_like() -> Shape:
    """Three layers of gated delta net, then one of attention whose query matrix holds a gate as well."""
    dim, heads, heads_kv, state, groups, ranks = 256, 16, 4, 128, 16, 32
    keys, values = state * groups, state * ranks
    made = Maker("qwen35", 32, 2560, 248320, context=262144)
    made.start(tied=True, feed_forward_length=9216, attention__head_count=heads, attention__head_count_kv=heads_kv)
    made.keys.update({"attention.key_length": dim, "attention.value_length": dim, "rope.dimension_count": 64})
    made.keys.update({"rope.dimension_sections": [11, 11, 10, 0], "full_attention_interval": 4})
    made.keys.update({"ssm.conv_kernel": 4, "ssm.inner_size": values, "ssm.state_size": state})
    made.keys.update({"ssm.time_step_rank": ranks, "ssm.group_count": groups})
    for number in range(32):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "post_attention_norm")
        made.feed_forward(layer, 9216)
        if number % 4 == 3:
            made.put(layer + "attn_q.weight", 2560, 2 * dim * heads)
            made.put(layer + "attn_k.weight", 2560, dim * heads_kv)
            made.put(layer + "attn_v.weight", 2560, dim * heads_kv)
            made.put(layer + "attn_output.weight", dim * heads, 2560)
            made.vector(layer + "attn_q_norm.weight", dim)
            made.vector(layer + "attn_k_norm.weight", dim)
            continue
        made.put(layer + "attn_qkv.weight", 2560, 2 * keys + values)
        made.put(layer + "attn_gate.weight", 2560, values)
        made.vector(layer + "ssm_conv1d.weight", 4, 2 * keys + values)
        made.vector(layer + "ssm_dt.bias", ranks)
        made.vector(layer + "ssm_a", ranks)
        made.vector(layer + "ssm_beta.weight", 2560, ranks)
        made.vector(layer + "ssm_alpha.weight", 2560, ranks)
        made.vector(layer + "ssm_norm.weight", state)
        made.put(layer + "ssm_out.weight", values, 2560)
    return made.shape()


def mamba_2_8b() -> Shape:
    inner, state, rank, kernel = 5120, 16, 160, 4
    made = Maker("mamba", 64, 2560, 50280, context=1048576)
    made.start(tied=True, feed_forward_length=0, attention__head_count=0)
    made.keys.update({"ssm.conv_kernel": kernel, "ssm.inner_size": inner, "ssm.state_size": state})
    made.keys["ssm.time_step_rank"] = rank
    for number in range(64):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm")
        made.put(layer + "ssm_in.weight", 2560, 2 * inner)
        made.vector(layer + "ssm_conv1d.weight", kernel, inner)
        made.vector(layer + "ssm_conv1d.bias", inner)
        made.put(layer + "ssm_x.weight", inner, rank + 2 * state)
        made.vector(layer + "ssm_dt.weight", rank, inner)
        made.vector(layer + "ssm_dt.bias", inner)
        made.vector(layer + "ssm_a", state, inner)
        made.vector(layer + "ssm_d", inner)
        made.put(layer + "ssm_out.weight", inner, 2560)
    return made.shape()


def granite_4_like() -> Shape:
    """Hybrid of Mamba-2 layers and attention with a mixture of experts and one shared expert in every layer."""
    attention = {5, 15, 25, 35}
    inner, state, groups, ranks, kernel = 3072, 128, 1, 48, 4
    heads_kv = [4 if number in attention else 0 for number in range(40)]
    made = Maker("granitehybrid", 40, 1536, 100352, context=131072)
    made.start(tied=True, feed_forward_length=512, attention__head_count=12, attention__head_count_kv=heads_kv)
    made.keys.update({"rope.dimension_count": 128, "rope.scaling.finetuned": False, "expert_count": 62})
    made.keys.update({"expert_used_count": 6, "expert_shared_feed_forward_length": 1024})
    made.keys.update({"ssm.conv_kernel": kernel, "ssm.inner_size": inner, "ssm.state_size": state})
    made.keys.update({"ssm.time_step_rank": ranks, "ssm.group_count": groups})
    convolved = inner + 2 * groups * state
    for number in range(40):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.experts(layer, 62, 512)
        made.put(layer + "ffn_gate_shexp.weight", 1536, 1024)
        made.put(layer + "ffn_up_shexp.weight", 1536, 1024)
        made.put(layer + "ffn_down_shexp.weight", 1024, 1536)
        if number in attention:
            made.attention(layer, 12, 4, 128)
            continue
        made.put(layer + "ssm_in.weight", 1536, inner + convolved + ranks)
        made.vector(layer + "ssm_conv1d.weight", kernel, convolved)
        made.vector(layer + "ssm_conv1d.bias", convolved)
        made.vector(layer + "ssm_dt.bias", ranks)
        made.vector(layer + "ssm_a", 1, ranks)
        made.vector(layer + "ssm_d", 1, ranks)
        made.vector(layer + "ssm_norm.weight", inner // groups, groups)
        made.put(layer + "ssm_out.weight", inner, 1536)
    return made.shape()


def gemma4_e2b_like() -> Shape:
    """The last 20 of 35 layers use another layer's K and V; window layers have narrower heads."""
    layers, embedding, shared, per_layer = 35, 1536, 20, 256
    windows = [number % 5 != 4 for number in range(layers)]
    own = layers - shared
    widths = [6144 if number < own else 12288 for number in range(layers)]
    made = Maker("gemma4", layers, embedding, 262144, context=131072)
    made.start(tied=True, feed_forward_length=widths, attention__head_count=8, attention__head_count_kv=1)
    made.keys.update({"attention.key_length": 512, "attention.value_length": 512, "rope.dimension_count": 512})
    made.keys.update({"attention.key_length_swa": 256, "attention.value_length_swa": 256})
    made.keys.update({"rope.dimension_count_swa": 256, "attention.shared_kv_layers": shared})
    made.keys.update({"attention.sliding_window": 512, "attention.sliding_window_pattern": windows})
    made.keys.update({"embedding_length_per_layer_input": per_layer, "final_logit_softcapping": 30.0})
    made.vector("rope_freqs.weight", 256)
    made.put("per_layer_token_embd.weight", per_layer * layers, 262144, type_name="Q5_K")
    made.put("per_layer_model_proj.weight", embedding, per_layer * layers, type_name="F16")
    made.vector("per_layer_proj_norm.weight", per_layer)
    for number, window in enumerate(windows):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "post_norm")
        made.attention(layer, 8, 1, 256 if window else 512, norms=True, own=number < own)
        made.feed_forward(layer, widths[number])
        made.put(layer + "inp_gate.weight", embedding, per_layer)
        made.put(layer + "proj.weight", per_layer, embedding)
        made.vector(layer + "layer_output_scale.weight", 1)
    return made.shape()


def per_layer_dense(
    architecture: str,
    *,
    embedding: int,
    dim: int,
    heads: Sequence[int],
    heads_kv: Sequence[int],
    feed_forward: Sequence[int],
    vocabulary: int,
    fused: bool,
    context: int,
    types: tuple[str, str] = ("Q4_K", "Q6_K"),
) -> Shape:
    """Another number of heads and another width in every layer; a layer may have no attention or no feed-forward."""
    made = Maker(architecture, len(heads), embedding, vocabulary, *types, context)
    made.start(tied=fused, feed_forward_length=feed_forward)
    made.keys.update({"attention.head_count": heads, "attention.head_count_kv": heads_kv})
    made.keys.update({"attention.key_length": dim, "attention.value_length": dim, "rope.dimension_count": dim})
    for number, (count, count_kv, width) in enumerate(zip(heads, heads_kv, feed_forward, strict=True)):
        layer = f"blk.{number}."
        if count:
            made.norms(layer, "attn_norm")
        if width:
            made.norms(layer, "ffn_norm")
            made.feed_forward(layer, width)
        if count and fused:
            made.put(layer + "attn_qkv.weight", embedding, (count + 2 * count_kv) * dim)
            made.put(layer + "attn_output.weight", count * dim, embedding)
            made.vector(layer + "attn_q_norm.weight", dim)
            made.vector(layer + "attn_k_norm.weight", dim)
        elif count_kv:
            made.attention(layer, count, count_kv, dim)
        elif count:
            made.put(layer + "attn_output.weight", embedding, embedding)
    return made.shape()


def openelm_1_1b() -> Shape:
    return per_layer_dense(
        "openelm",
        embedding=2048,
        dim=64,
        heads=[16] * 4 + [20] * 7 + [24] * 7 + [28] * 6 + [32] * 4,
        heads_kv=[4] * 4 + [5] * 7 + [6] * 7 + [7] * 6 + [8] * 4,
        feed_forward=[1024 + 256 * number for number in range(28)],
        vocabulary=32000,
        fused=True,
        context=2048,
    )


def deci_like() -> Shape:
    """Made by architecture search: some layers have fewer K and V heads, a linear attention, or no attention."""
    layers = 80
    heads_kv = [0 if number % 7 == 6 else (8, 4, 2)[number % 3] for number in range(layers)]
    heads = [0 if number % 14 == 13 else 64 for number in range(layers)]
    return per_layer_dense(
        "deci",
        embedding=8192,
        dim=128,
        heads=heads,
        heads_kv=[0 if count == 0 else own for count, own in zip(heads, heads_kv, strict=True)],
        feed_forward=[(28672, 14336, 7168, 21504)[number % 4] for number in range(layers)],
        vocabulary=128256,
        fused=False,
        context=131072,
    )


SHAPES: Mapping[str, Callable[[], Shape]] = {
    "llama-3.2-1b": llama_3_2_1b,
    "llama-3.1-8b": llama_3_1_8b,
    "qwen2.5-0.5b": qwen2_5_0_5b,
    "qwen2.5-7b": qwen2_5_7b,
    "qwen3-4b": qwen3_4b,
    "phi3-mini": phi3_mini,
    "gemma2-2b": gemma2_2b,
    "gemma3-4b": gemma3_4b,
    "gemma3-270m": gemma3_270m,
    "gpt-oss-20b": gpt_oss_20b,
    "command-r7b": command_r7b,
    "deepseek2-lite": deepseek2_lite,
    "qwen3-30b-a3b": qwen3_30b_a3b,
    "mixtral-8x7b": mixtral_8x7b,
    "lfm2-1.2b": lfm2_1_2b,
    "qwen3.5-4b-like": qwen3_5_4b_like,
    "mamba-2.8b": mamba_2_8b,
    "granite-4-like": granite_4_like,
    "gemma4-e2b-like": gemma4_e2b_like,
    "openelm-1.1b": openelm_1_1b,
    "deci-like": deci_like,
}
"""Name -> maker. Makers, not values: thousands of tensors are described only when a test needs them."""

"""Model specifications for planner tests; the defaults make a small dense model."""

from __future__ import annotations

from pathlib import Path

from muniment_runtime.contracts import GraphShape, LayerKv, ModelSpec


def spec_of(
    model_id: str = "small",
    *,
    architecture: str = "llama",
    layers: tuple[LayerKv, ...] = (LayerKv(128, 128),) * 24,
    embedding_length: int = 896,
    feed_forward_length: int = 4864,
    head_count: int = 14,
    head_count_kv: int = 2,
    head_dim: int = 64,
    vocabulary: int = 32000,
    weights_bytes: int = 400 << 20,
    repack_bytes: int = 0,
    context_train: int = 32768,
    parameters: int = 600_000_000,
    template: str | None = "chatml",
    supported: bool = True,
    quantization: str = "Q4_K_M",
    single_sequence: bool = False,
    tied_copy_bytes: int = 0,
    recurrent_elements: int = 0,
    latent: bool = False,
    shape: GraphShape | None = None,
) -> ModelSpec:
    return ModelSpec(
        model_id=model_id,
        path=Path("model.gguf"),
        sha256="0" * 64,
        architecture=architecture,
        quantization=quantization,
        file_bytes=weights_bytes,
        weights_bytes=weights_bytes,
        repack_bytes=repack_bytes,
        layers=layers,
        layer_count=len(layers),
        embedding_length=embedding_length,
        feed_forward_length=feed_forward_length,
        head_count=head_count,
        head_count_kv=head_count_kv,
        head_dim=head_dim,
        vocabulary=vocabulary,
        context_train=context_train,
        parameters=parameters,
        template=template,
        supported=supported,
        single_sequence=single_sequence,
        tied_copy_bytes=tied_copy_bytes,
        recurrent_elements=recurrent_elements,
        latent=latent,
        shape=shape,
    )

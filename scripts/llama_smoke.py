"""Child process that proves a build of llama.cpp on this processor: loads a made-up model and decodes with it.

A wrong instruction-set flag does not fail at build time; it kills the process at the first matrix product
(illegal instruction). So the proof runs here, in a child, with every tensor type that the catalogue's models hold,
both KV types, and the weight repacking that real loads use.

Run as ``python llama_smoke.py FOLDER`` where FOLDER holds the unpacked wheel. Needs the standard library only: the
binding module is imported without its package, whose ``__init__`` would pull in further libraries.
"""

from __future__ import annotations

import importlib
import math
import random
import struct
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["smoke", "write_tiny_gguf"]

EMBEDDING, HEADS, HEADS_KV, FEED_FORWARD, VOCABULARY, LAYERS, CONTEXT = 256, 4, 2, 512, 288, 2, 256
PREFILL_TOKENS = 64

# name -> (ggml type number, elements in a block, bytes of a block, offsets of its f16 scales); ggml.h and ggml-common.h
TYPES: dict[str, tuple[int, int, int, tuple[int, ...]]] = {
    "F32": (0, 1, 4, ()),
    "F16": (1, 1, 2, ()),
    "Q4_0": (2, 32, 18, (0,)),
    "Q4_1": (3, 32, 20, (0, 2)),
    "Q5_0": (6, 32, 22, (0,)),
    "Q8_0": (8, 32, 34, (0,)),
    "Q4_K": (12, 256, 144, (0, 2)),
    "Q6_K": (14, 256, 210, (208,)),
}
# Two layers with different types, so that each type meets both a long prompt and a single token.
LAYER_TYPES = (
    {"q": "Q4_K", "k": "Q4_0", "v": "Q6_K", "output": "Q4_1", "gate": "Q4_K", "up": "Q5_0", "down": "Q6_K"},
    {"q": "Q4_0", "k": "Q8_0", "v": "Q4_K", "output": "F16", "gate": "Q8_0", "up": "Q4_0", "down": "F32"},
)


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _metadata(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", 8) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", 4, value)
    return _text(key) + struct.pack("<If", 6, value)


def _tensor_bytes(kind: str, elements: int, draw: random.Random) -> bytes:
    """Random weights of one type, scaled so that the numbers stay finite."""
    _, block, size, scales = TYPES[kind]
    if kind == "F32":
        return struct.pack(f"<{elements}f", *(draw.uniform(-0.05, 0.05) for _ in range(elements)))
    if kind == "F16":
        return struct.pack(f"<{elements}e", *(draw.uniform(-0.05, 0.05) for _ in range(elements)))
    data = bytearray(draw.randbytes(elements // block * size))
    for start in range(0, len(data), size):
        for offset in scales:
            struct.pack_into("<e", data, start + offset, 0.0005 if kind in ("Q4_K", "Q6_K") else 0.005)
    return bytes(data)


def write_tiny_gguf(path: Path) -> None:
    """Write a llama-architecture model with fixed pseudo-random weights and no vocabulary (about 1.6 MB)."""
    draw = random.Random(20250101)
    kv = EMBEDDING // HEADS * HEADS_KV
    shapes: list[tuple[str, str, tuple[int, ...]]] = [
        ("token_embd.weight", "Q4_0", (EMBEDDING, VOCABULARY)),
        ("output_norm.weight", "F32", (EMBEDDING,)),
        ("output.weight", "Q6_K", (EMBEDDING, VOCABULARY)),
    ]
    for layer, kinds in enumerate(LAYER_TYPES):
        shapes += [
            (f"blk.{layer}.attn_norm.weight", "F32", (EMBEDDING,)),
            (f"blk.{layer}.attn_q.weight", kinds["q"], (EMBEDDING, EMBEDDING)),
            (f"blk.{layer}.attn_k.weight", kinds["k"], (EMBEDDING, kv)),
            (f"blk.{layer}.attn_v.weight", kinds["v"], (EMBEDDING, kv)),
            (f"blk.{layer}.attn_output.weight", kinds["output"], (EMBEDDING, EMBEDDING)),
            (f"blk.{layer}.ffn_norm.weight", "F32", (EMBEDDING,)),
            (f"blk.{layer}.ffn_gate.weight", kinds["gate"], (EMBEDDING, FEED_FORWARD)),
            (f"blk.{layer}.ffn_up.weight", kinds["up"], (EMBEDDING, FEED_FORWARD)),
            (f"blk.{layer}.ffn_down.weight", kinds["down"], (FEED_FORWARD, EMBEDDING)),
        ]
    fields: dict[str, str | int | float] = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.vocab_size": VOCABULARY,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": EMBEDDING,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.rope.dimension_count": EMBEDDING // HEADS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS_KV,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "no_vocab",
    }
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields))
    header += b"".join(_metadata(key, value) for key, value in fields.items())
    body = bytearray()
    for name, kind, shape in shapes:
        header += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", TYPES[kind][0], len(body))
        body += _tensor_bytes(kind, math.prod(shape), draw)
        body += bytes(-len(body) % 32)
    path.write_bytes(header + bytes(-len(header) % 32) + body)


def _binding(folder: Path) -> Any:
    """Import ``llama_cpp.llama_cpp`` from an unpacked wheel without running the package's ``__init__``."""
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(folder / "llama_cpp")]
    sys.modules["llama_cpp"] = package
    try:
        importlib.import_module("typing_extensions")
    except ModuleNotFoundError:
        stand_in = types.ModuleType("typing_extensions")
        stand_in.TypeAlias = object  # type: ignore[attr-defined]  # the only name that the binding takes from it
        sys.modules["typing_extensions"] = stand_in
    return importlib.import_module("llama_cpp.llama_cpp")


def _decode(binding: Any, context: Any, tokens: Sequence[int], start: int) -> list[float]:
    """Decode tokens at positions from ``start``; returns the logits of the last one."""
    batch = binding.llama_batch_init(len(tokens), 0, 1)
    try:
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = start + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = index == len(tokens) - 1
        if binding.llama_decode(context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        logits = binding.llama_get_logits_ith(context, len(tokens) - 1)
        return [float(logits[index]) for index in range(VOCABULARY)]
    finally:
        binding.llama_batch_free(batch)


def smoke(folder: Path) -> None:
    """Load the tiny model and decode a prompt and one more token, with each KV type.

    Raises:
        RuntimeError: The library loads but does not compute: no model, no context, or numbers that are not finite.
    """
    binding = _binding(folder)
    binding.llama_backend_init()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "tiny.gguf"
        write_tiny_gguf(path)
        params = binding.llama_model_default_params()
        params.n_gpu_layers = 0
        model = binding.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            raise RuntimeError("the test model does not load")
        for kv_type in (TYPES["F16"][0], TYPES["Q8_0"][0]):
            settings = binding.llama_context_default_params()
            settings.n_ctx, settings.n_batch, settings.n_ubatch = CONTEXT, PREFILL_TOKENS, PREFILL_TOKENS
            settings.n_threads = settings.n_threads_batch = 2
            settings.type_k = settings.type_v = kv_type
            settings.flash_attn_type = 1
            context = binding.llama_init_from_model(model, settings)
            if not context:
                raise RuntimeError("no context for the test model")
            prompt = [index * 7 % VOCABULARY for index in range(PREFILL_TOKENS)]
            for tokens, start in ((prompt, 0), ([5], PREFILL_TOKENS)):
                logits = _decode(binding, context, tokens, start)
                if not all(map(math.isfinite, logits)) or max(logits) - min(logits) < 1e-6:
                    raise RuntimeError("the test model computes no sensible numbers")
            binding.llama_free(context)
        binding.llama_model_free(model)


if __name__ == "__main__":
    smoke(Path(sys.argv[1]))
    print("smoke: ok")

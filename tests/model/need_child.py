"""Loads one model as the engine does and prints what the library reports and what the process takes, as JSON lines.

A process of its own for each measurement: resident memory is that of one model alone, and an abort inside the library
ends this process only. Arguments: model file, context, ubatch, sequences, flash attention (0/1), KV type (f16/q8_0),
and whether to fill the context (0/1).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

KV_TYPES = {"f16": 1, "q8_0": 8}


def resident_bytes() -> tuple[int, int]:
    text = Path("/proc/self/smaps_rollup").read_text()
    found = {name: int(size) * 1024 for name, size in re.findall(r"^(Rss|Anonymous):\s+(\d+) kB", text, re.MULTILINE)}
    return found["Anonymous"], found["Rss"] - found["Anonymous"]


def sizes(log: str, kind: str) -> list[float]:
    return [float(value) for value in re.findall(rf"{kind} buffer size =\s*([\d.]+) MiB", log)]


def main(path: str, settings: list[tuple[int, int, int, int, str]], fill: bool) -> None:
    import llama_cpp.llama_cpp as llama

    lines: list[str] = []

    def keep(_level: int, text: bytes, _data: object) -> None:
        lines.append(text.decode("utf-8", "replace"))

    callback = llama.llama_log_callback(keep)  # the library calls it as long as it lives
    llama.llama_log_set(callback, None)
    llama.llama_backend_init()
    model_params = llama.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(path.encode(), model_params)
    assert model, "".join(lines)
    repacked = sum(sizes("".join(lines), r"(?:REPACK|AMX) model"))
    for context, ubatch, sequences, flash, kv_type in settings:
        lines.clear()
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, 512, ubatch
        params.n_seq_max, params.n_outputs_max, params.kv_unified = sequences, sequences, True
        params.type_k = params.type_v = KV_TYPES[kv_type]
        params.flash_attn_type, params.swa_full = flash, False
        params.n_threads = params.n_threads_batch = 2
        handle = llama.llama_init_from_model(model, params)
        log = "".join(lines)
        assert handle, log
        if fill:
            prefill(llama, model, handle, ubatch)
        anonymous, file = resident_bytes()
        report = {
            "setting": [context, ubatch, sequences, flash, kv_type],
            "repack_mib": repacked,
            "kv_mib": sizes(log, "KV"),
            "compute_mib": sizes(log, "compute"),
            "output_mib": sizes(log, "output"),
            "anonymous_bytes": anonymous,
            "file_bytes": file,
        }
        sys.stdout.write(json.dumps(report) + "\n")
        llama.llama_free(handle)
    llama.llama_model_free(model)


def prefill(llama, model, handle, ubatch: int) -> None:  # type: ignore[no-untyped-def]  # ctypes objects
    """Fill the whole context in full batches: the temporary tensors are resident only after that."""
    cells = llama.llama_n_ctx(handle)
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    batch = llama.llama_batch_init(ubatch, 0, 1)
    for start in range(0, cells, ubatch):
        batch.n_tokens = min(ubatch, cells - start)
        for index in range(batch.n_tokens):
            batch.token[index] = 300 + (start + index) * 7919 % (vocabulary - 600)
            batch.pos[index] = start + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = int(index == batch.n_tokens - 1)
        assert llama.llama_decode(handle, batch) == 0
    llama.llama_batch_free(batch)


if __name__ == "__main__":
    main(sys.argv[1], [tuple(item) for item in json.loads(sys.argv[2])], sys.argv[3] == "1")

"""Loads one model as the engine does and prints what the library reports and what the process takes, as JSON lines.

A process of its own for each measurement: resident memory is that of one model alone, and an abort inside the library
ends this process only. Arguments: model file and a JSON object: ``mmap``, ``repack``, ``fill`` (read a prompt that
fills the context) and ``settings``, a list of objects with ``context`` (cells in all), ``ubatch``, ``sequences``,
``unified``, ``flash`` and ``kv_type``. One line a setting.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def resident_bytes() -> dict[str, int]:
    text = Path("/proc/self/smaps_rollup").read_text()
    found = {name: int(size) * 1024 for name, size in re.findall(r"^(Rss|Anonymous):\s+(\d+) kB", text, re.MULTILINE)}
    return {"anonymous": found["Anonymous"], "file": found["Rss"] - found["Anonymous"]}


def sizes(log: str, kind: str) -> list[float]:
    return [float(value) for value in re.findall(rf"{kind} buffer size =\s*([\d.]+) MiB", log)]


def main(path: str, task: dict[str, Any]) -> None:
    import llama_cpp.llama_cpp as llama

    lines: list[str] = []

    def keep(_level: int, text: bytes, _data: object) -> None:
        lines.append(text.decode("utf-8", "replace"))

    callback = llama.llama_log_callback(keep)  # the library calls it as long as it lives
    llama.llama_log_set(callback, None)
    llama.llama_backend_init()
    bare = resident_bytes() if sys.platform == "linux" else {}
    model_params = llama.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model_params.load_mode = llama.LLAMA_LOAD_MODE_MMAP if task["mmap"] else llama.LLAMA_LOAD_MODE_NONE
    model_params.use_extra_bufts = task["repack"]
    model = llama.llama_model_load_from_file(path.encode(), model_params)
    assert model, "".join(lines)
    copied = sum(sizes("".join(lines), r"(?:REPACK|AMX) model"))
    for setting in task["settings"]:
        lines.clear()
        params = llama.llama_context_default_params()
        params.n_ctx = setting["context"]
        params.n_batch = min(512, params.n_ctx)
        params.n_ubatch = min(setting["ubatch"], params.n_batch)
        params.n_seq_max = params.n_outputs_max = setting["sequences"]
        params.kv_unified = setting["unified"]
        params.type_k = params.type_v = getattr(llama, f"GGML_TYPE_{setting['kv_type'].upper()}")
        params.flash_attn_type, params.swa_full = int(setting["flash"]), False
        params.n_threads = params.n_threads_batch = 2
        handle = llama.llama_init_from_model(model, params)
        log = "".join(lines)
        assert handle, log
        report = {
            "copied_mib": copied,
            "kv_mib": sizes(log, "KV"),
            "compute_mib": sizes(log, "compute"),
            "output_mib": sizes(log, "output"),
        }
        if task["fill"]:
            report["bare"], report["loaded"] = bare, resident_bytes()
            prefill(llama, model, handle, int(params.n_ubatch), setting["sequences"])
            report["filled"] = resident_bytes()
        sys.stdout.write(json.dumps(report) + "\n")
        llama.llama_free(handle)
    llama.llama_model_free(model)


def prefill(llama: Any, model: Any, handle: Any, ubatch: int, sequences: int) -> None:
    """Fill the whole context in full batches: the temporary tensors are resident only after that.

    Every batch holds the same share of each sequence, which is what the library reserves for.
    """
    cells = llama.llama_n_ctx(handle)
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    batch = llama.llama_batch_init(ubatch, 0, 1)
    share = ubatch // sequences
    for start in range(0, cells // sequences, share):
        count = min(share, cells // sequences - start)
        batch.n_tokens = count * sequences
        for index in range(batch.n_tokens):
            sequence, position = divmod(index, count)
            batch.token[index] = 300 + (start + index) * 7919 % (vocabulary - 600)
            batch.pos[index] = start + position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = int(position == count - 1)
        assert llama.llama_decode(handle, batch) == 0
    llama.llama_batch_free(batch)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

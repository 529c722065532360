"""The library's log lines about sizes, as it printed them, read into bytes that were worked out by hand."""

from __future__ import annotations

import pytest

from muniment_runtime.engine.buffers import Buffers, read_buffers

MIB = 1 << 20

# A real load with a mapping: sliding windows (two caches) and weights copied into a faster layout.
WINDOWED = """\
print_info: file size   = 235.16 MiB (7.36 BPW)
load_tensors:   CPU_Mapped model buffer size =   235.16 MiB
load_tensors:   CPU_REPACK model buffer size =    12.66 MiB
llama_context:        CPU  output buffer size =     1.00 MiB
llama_kv_cache:        CPU KV buffer size =     1.50 MiB
llama_kv_cache: size =    1.50 MiB (   512 cells,   3 layers,  1/1 seqs), K (f16):    0.75 MiB, V (f16):    0.75 MiB
llama_kv_cache:        CPU KV buffer size =     7.50 MiB
llama_kv_cache: size =    7.50 MiB (   512 cells,  15 layers,  1/1 seqs), K (f16):    3.75 MiB, V (f16):    3.75 MiB
sched_reserve:        CPU compute buffer size =    18.77 MiB
"""

# A dry run of a hybrid: the cache's own buffer line says 0, the recurrent state has a line of another form.
HYBRID_DRY = """\
load_tensors:          CPU model buffer size =     0.00 MiB
llama_context:        CPU  output buffer size =     0.95 MiB
llama_kv_cache:        CPU KV buffer size =     0.00 MiB
llama_kv_cache: size =  128.00 MiB (  4096 cells,   8 layers,  1/1 seqs), K (f16):   64.00 MiB, V (f16):   64.00 MiB
llama_memory_recurrent:        CPU RS buffer size =    50.25 MiB
llama_memory_recurrent: size =   50.25 MiB (     1 cells,  32 layers,  1 seqs  0 rs_seq), R (f32):    2.25 MiB, \
S (f32):   48.00 MiB, P (f32):    0.00 MiB
sched_reserve:        CPU compute buffer size =    73.02 MiB
"""


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def test_a_real_load_with_two_caches_and_copied_weights() -> None:
    assert read_buffers(_lines(WINDOWED)) == Buffers(
        model_bytes=259_858_104,  # 247.82 MiB
        kv_bytes=9 * MIB,
        recurrent_bytes=None,
        compute_bytes=19_681_772,  # 18.77 MiB
        output_bytes=MIB,
    )


def test_a_dry_run_of_a_hybrid() -> None:
    assert read_buffers(_lines(HYBRID_DRY)) == Buffers(
        model_bytes=0,
        kv_bytes=128 * MIB,
        recurrent_bytes=50 * MIB + MIB // 4,
        compute_bytes=76_567_020,  # 73.02 MiB
        output_bytes=996_147,  # 0.95 MiB
    )


def test_several_devices_add_up() -> None:
    lines = [
        "sched_reserve:      CUDA0 compute buffer size =  100.00 MiB\n",
        "sched_reserve:  CUDA_Host compute buffer size =    8.50 MiB\n",
        "llama_context:  CUDA_Host  output buffer size =    0.50 MiB\n",
    ]
    assert read_buffers(lines) == Buffers(compute_bytes=108 * MIB + MIB // 2, output_bytes=MIB // 2)


def test_states_of_a_compressing_cache_count_as_state() -> None:
    line = "llama_kv_cache_dsv4:        CPU DSV4 csa state buffer size =     1.25 MiB\n"
    assert read_buffers([line]) == Buffers(recurrent_bytes=MIB + MIB // 4)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "sched_reserve: graph nodes  = 991\n",
        "sched_reserve: CPU compute buffer size = many MiB\n",
        "sched_reserve:        CPU compute buffer size is   18.7695 MiB, matches expectation of  18.7695 MiB\n",
        "llama_kv_cache: size = 1.50 MiB\n",
        # Names that a model file states are logged as well; none may pass for a size.
        "print_info: general.name     = x: CPU compute buffer size = 999.00 MiB\n",
        "llama_model_loader: - kv   3: general.name str = CPU compute buffer size = 999.00 MiB\n",
        "print_info: arch = a\nsched_reserve: CPU compute buffer size = 999.00 MiB\n",
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert read_buffers([line]) == Buffers()

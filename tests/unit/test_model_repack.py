"""Copied weights: by type, rows and role, and what the processor offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from muniment_runtime.model.gguf import GgufHeader, read_header
from muniment_runtime.model.repack import (
    WIDEST,
    Cpu,
    cpu_of_flags,
    cpu_of_sysctl,
    cpu_of_windows,
    host_cpu,
    repack_bytes,
    tied_copy_bytes,
)
from tests.helpers import gguf_writer as gw

AVX2 = Cpu(avx2=True)
NEON = Cpu(dotprod=True)
EMBEDDING = 64 * 96 // 32 * 18
FEED_FORWARD = 64 * 128 // 32 * 18


def header_of(made: gw.GgufFile, folder: Path) -> GgufHeader:
    return read_header(made.write(folder / "m.gguf"))


def test_copied_weights_follow_type_rows_and_tied_output(tmp_path: Path) -> None:
    tied = header_of(gw.model(layers=1, type_name="Q4_0", tied=True), tmp_path)
    assert (repack_bytes(tied, AVX2), tied_copy_bytes(tied, AVX2)) == (FEED_FORWARD + EMBEDDING, EMBEDDING)
    free = header_of(gw.model(layers=1, type_name="Q4_0", tied=False), tmp_path)
    assert (repack_bytes(free, AVX2), tied_copy_bytes(free, AVX2)) == (FEED_FORWARD + EMBEDDING, 0)
    odd = header_of(gw.model(layers=1, type_name="Q4_0", tied=False, vocabulary=97), tmp_path)
    assert repack_bytes(odd, AVX2) == FEED_FORWARD
    four = header_of(gw.model(layers=1, type_name="Q4_0", tied=False, vocabulary=100), tmp_path)
    assert repack_bytes(four, AVX2) == FEED_FORWARD
    assert repack_bytes(four, NEON) == FEED_FORWARD + 64 * 100 // 32 * 18
    eight = header_of(gw.model(layers=1, type_name="Q8_0", tied=False), tmp_path)
    assert repack_bytes(eight, AVX2) == 0
    assert repack_bytes(eight, NEON) == (64 * 128 + 64 * 96) // 32 * 34


@pytest.mark.parametrize("type_name", ["Q4_0", "Q8_0", "Q5_0"])
def test_a_processor_without_these_instructions_copies_nothing(type_name: str, tmp_path: Path) -> None:
    assert repack_bytes(header_of(gw.model(type_name=type_name), tmp_path), Cpu()) == 0


def test_two_bits_are_copied_with_the_widest_registers_alone(tmp_path: Path) -> None:
    made = gw.GgufFile().add("general.architecture", "string", "llama").add_tensor("a.weight", (256, 8), "Q2_K")
    header = header_of(made, tmp_path)
    assert repack_bytes(header, AVX2) == 0
    assert repack_bytes(header, Cpu(avx2=True, avx512=True)) == 8 * 84


def test_only_operands_of_products_are_copied(tmp_path: Path) -> None:
    made = gw.GgufFile().add("general.architecture", "string", "llama").add_tensor("output.weight", (32, 1))
    made.add_tensor("blk.0.ffn_up_exps.weight", (32, 8, 4), "Q4_0")
    counted = header_of(made, tmp_path)
    assert repack_bytes(counted, AVX2) == 8 * 4 * 18
    for name, shape in (
        ("blk.0.attn_k_b.weight", (32, 8, 4)),  # a stack in a plain product
        ("blk.0.ssm_conv1d.weight", (32, 8)),
        ("per_layer_token_embd.weight", (32, 8)),
        ("token_embd.weight", (32, 8)),
        ("blk.0.attn_norm.weight", (32,)),
    ):
        made.add_tensor(name, shape, "Q4_0")
    assert repack_bytes(header_of(made, tmp_path), AVX2) == repack_bytes(counted, AVX2)


def test_features_are_read_from_linux() -> None:
    intel = "processor\t: 0\nflags\t\t: fpu avx avx2 avx512f avx512cd avx512vl avx512dq avx512bw amx_tile\n"
    assert cpu_of_flags(intel) == Cpu(avx2=True, avx512=True)
    assert cpu_of_flags(intel.replace("avx512bw", "")) == AVX2
    assert cpu_of_flags("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n") == Cpu(dotprod=True, int8_matrix=True)
    assert cpu_of_flags("Features\t: fp asimd\n") == Cpu()
    assert cpu_of_flags("hart\t: 0\nisa\t: rv64imafdcv\n") is None


def test_features_are_read_from_macos() -> None:
    apple = "hw.optional.floatingpoint: 1\nhw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_I8MM: 0\n"
    assert cpu_of_sysctl(apple) == NEON
    assert cpu_of_sysctl(apple.replace("I8MM: 0", "I8MM: 1")) == Cpu(dotprod=True, int8_matrix=True)
    assert cpu_of_sysctl("hw.optional.avx2_0: 1\nhw.optional.avx512f: 0\n") == AVX2


def test_features_are_read_from_windows() -> None:
    assert cpu_of_windows(lambda number: number == 40, arm=False) == AVX2
    assert cpu_of_windows(lambda number: number in (40, 41), arm=False) == Cpu(avx2=True, avx512=True)
    assert cpu_of_windows(lambda number: number == 43, arm=True) == Cpu(dotprod=True, int8_matrix=True)


def test_an_unknown_processor_counts_as_the_widest() -> None:
    assert host_cpu("riscv64", "plan9") == WIDEST
    assert host_cpu("x86_64", "linux", lambda _system, _machine: None) == WIDEST
    asked: list[tuple[str, str]] = []

    def features(system: str, machine: str) -> Cpu:
        asked.append((system, machine))
        return AVX2

    assert host_cpu("AMD64", "win32", features) == AVX2
    assert asked == [("win32", "amd64")]

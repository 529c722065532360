"""Which weights the CPU backend copies into another layout, and what the processor must offer for that.

Source: ``ggml/src/ggml-cpu/repack.cpp``: ``ggml_repack_get_optimal_repack_type`` (type, rows, instruction set) and
``extra_buffer_type::supports_op`` (a matrix in a product, or a stack of matrices in a product by expert). The
library asks what it was compiled for; our builds follow the processor, AMX always left out
(``scripts/llama_wheel.py``).
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muniment_runtime.model.gguf import GgufHeader, GgufTensor

__all__ = ["WIDEST", "Cpu", "host_cpu", "is_copied", "repack_bytes", "tied_copy_bytes"]


@dataclass(frozen=True)
class Cpu:
    """Instruction sets, as far as the copied weights depend on them.

    Attributes:
        avx2, avx512: Of x86.
        dotprod, int8_matrix: Of ARM.
    """

    avx2: bool = False
    avx512: bool = False
    dotprod: bool = False
    int8_matrix: bool = False


WIDEST = Cpu(avx2=True, avx512=True, dotprod=True, int8_matrix=True)
"""A processor that copies whatever any would: the safe bound where nothing is known."""

# Tensors that are looked up by row, convolved or added: not operands of a product, hence never copied.
_NO_PRODUCT = frozenset(
    {"token_embd.weight", "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight"}
)
_NO_PRODUCT_ENDINGS = ("ssm_conv1d.weight", "shortconv.conv.weight", ".bias")
_TIED = "token_embd.weight"


def _divisors(cpu: Cpu) -> Mapping[str, int]:
    """Tensor type -> the number that the count of rows must divide by."""
    found: dict[str, int] = {}
    if cpu.dotprod or cpu.int8_matrix:
        found |= {"Q4_0": 4, "Q8_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "Q1_0": 4}
    if cpu.dotprod:
        found |= {"IQ4_NL": 4, "MXFP4": 4}
    if cpu.avx2:
        for name in ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"):
            found.setdefault(name, 8)
    if cpu.avx512:
        found["Q2_K"] = 8
    return found


def is_copied(tensor: GgufTensor, cpu: Cpu, *, as_output: bool = False) -> bool:
    """Return whether the backend keeps this tensor in its own layout.

    Args:
        tensor: The tensor.
        cpu: The processor.
        as_output: Judge the token embedding in its second role, as the output matrix.
    """
    divisor = _divisors(cpu).get(tensor.type.name)
    if divisor is None or len(tensor.shape) < 2 or tensor.shape[1] % divisor:
        return False
    if tensor.name in _NO_PRODUCT or tensor.name.endswith(_NO_PRODUCT_ENDINGS):
        return as_output and tensor.name == _TIED
    dimensions = max(index + 1 for index, extent in enumerate(tensor.shape) if extent > 1 or index == 0)
    by_expert = "_exps." in tensor.name
    return dimensions == (3 if by_expert else 2)


def tied_copy_bytes(header: GgufHeader, cpu: Cpu) -> int:
    """Return the bytes of an output matrix that is the token embedding once more, 0 where they share memory.

    Source: ``llama_model_loader::create_tensor``: the output of a tied model is a tensor of its own when its best
    buffer is not the embedding's.
    """
    if any(tensor.name == "output.weight" for tensor in header.tensors):
        return 0
    return sum(
        tensor.size_bytes
        for tensor in header.tensors
        if tensor.name == _TIED and is_copied(tensor, cpu, as_output=True)
    )


def repack_bytes(header: GgufHeader, cpu: Cpu) -> int:
    """Return the bytes of all weights that are copied into another layout, a tied output matrix included.

    The copies are anonymous memory. Where the file is mapped, its pages stay as well; where it is read, a copied
    weight exists in its new layout only, except a tied embedding.
    """
    own = sum(tensor.size_bytes for tensor in header.tensors if is_copied(tensor, cpu))
    return own + tied_copy_bytes(header, cpu)


def host_cpu(
    machine: str | None = None, system: str | None = None, features: Callable[[str, str], Cpu | None] | None = None
) -> Cpu:
    """Return what this machine's processor offers; ``WIDEST`` where the system does not tell.

    Args:
        machine: As ``platform.machine()``.
        system: As ``sys.platform``.
        features: Reads the instruction sets of a system and a machine, ``None`` where it cannot.
    """
    found = (features or read_features)(system or sys.platform, (machine or platform.machine()).lower())
    return WIDEST if found is None else found


def read_features(system: str, machine: str) -> Cpu | None:
    """Ask the operating system; ``None`` where it does not answer."""
    arm = machine.startswith(("arm", "aarch"))
    try:
        if system == "linux":
            return cpu_of_flags(Path("/proc/cpuinfo").read_text("ascii", "replace"))
        if system == "darwin":
            command = ["/usr/sbin/sysctl", "hw.optional"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
            return cpu_of_sysctl(done.stdout)
        if system == "win32":
            asked: Any = ctypes.windll.kernel32.IsProcessorFeaturePresent  # type: ignore[attr-defined]  # Windows only
            return cpu_of_windows(lambda number: bool(asked(number)), arm=arm)
    except (OSError, subprocess.SubprocessError, AttributeError):
        return None
    return None


def cpu_of_flags(text: str) -> Cpu | None:
    """Read ``/proc/cpuinfo``: the line ``flags`` (x86) or ``Features`` (ARM) of the first processor."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        flags = set(rest.split())
        if name.strip() == "flags":
            return Cpu(avx2="avx2" in flags, avx512=flags >= _WHOLE_AVX512)
        if name.strip() == "Features":
            return Cpu(dotprod="asimddp" in flags, int8_matrix="i8mm" in flags)
    return None


_WHOLE_AVX512 = {"avx2", "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"}
"""What our builds ask for before they use AVX-512 at all."""


def cpu_of_sysctl(text: str) -> Cpu:
    """Read macOS's ``sysctl hw.optional``: lines such as ``hw.optional.arm.FEAT_DotProd: 1``."""
    present = {
        name.strip().lower()
        for name, _, value in (line.partition(":") for line in text.splitlines())
        if value.strip() == "1"
    }
    return Cpu(
        avx2="hw.optional.avx2_0" in present,
        avx512={"hw.optional.avx512f", "hw.optional.avx512bw", "hw.optional.avx512vl"} <= present,
        dotprod="hw.optional.arm.feat_dotprod" in present,
        int8_matrix="hw.optional.arm.feat_i8mm" in present,
    )


def cpu_of_windows(present: Callable[[int], bool], *, arm: bool) -> Cpu:
    """Ask ``IsProcessorFeaturePresent`` by number (``PF_AVX2_INSTRUCTIONS_AVAILABLE`` and others of ``winnt.h``)."""
    if arm:
        # The kernel tells of the dot product only, so the matrix instructions count as there.
        return Cpu(dotprod=present(43), int8_matrix=present(43))
    return Cpu(avx2=present(40), avx512=present(41))

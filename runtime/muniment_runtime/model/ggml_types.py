"""Tensor types and file types of GGUF files, as plain facts.

Sources, all in llama.cpp: the numbers of ``enum ggml_type`` in ``ggml/include/ggml.h``; elements and bytes per
block in ``GGML_QUANT_SIZES`` of ``gguf-py/gguf/constants.py``; file types in ``LlamaFileType`` of the same file.
Types whose support was removed upstream (4, 5, 31-33, 36-38) are left out, so a file that uses them is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FILE_TYPES", "TENSOR_TYPES", "TensorType", "base_type"]


@dataclass(frozen=True)
class TensorType:
    """One element type: ``block_elements`` consecutive elements of a row take ``block_bytes`` bytes."""

    number: int
    name: str
    block_elements: int
    block_bytes: int


_ROWS: tuple[tuple[int, str, int, int], ...] = (
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
)

TENSOR_TYPES: Mapping[int, TensorType] = MappingProxyType({row[0]: TensorType(*row) for row in _ROWS})
"""Every tensor type that a file may use, by its number."""

FILE_TYPES: Mapping[int, str] = MappingProxyType(
    {
        0: "F32",
        1: "F16",
        2: "Q4_0",
        3: "Q4_1",
        7: "Q8_0",
        8: "Q5_0",
        9: "Q5_1",
        10: "Q2_K",
        11: "Q3_K_S",
        12: "Q3_K_M",
        13: "Q3_K_L",
        14: "Q4_K_S",
        15: "Q4_K_M",
        16: "Q5_K_S",
        17: "Q5_K_M",
        18: "Q6_K",
        19: "IQ2_XXS",
        20: "IQ2_XS",
        21: "Q2_K_S",
        22: "IQ3_XS",
        23: "IQ3_XXS",
        24: "IQ1_S",
        25: "IQ4_NL",
        26: "IQ3_S",
        27: "IQ3_M",
        28: "IQ2_S",
        29: "IQ2_M",
        30: "IQ4_XS",
        31: "IQ1_M",
        32: "BF16",
        36: "TQ1_0",
        37: "TQ2_0",
        38: "MXFP4",
        39: "NVFP4",
        40: "Q1_0",
        41: "Q2_0",
    }
)
"""Names of ``general.file_type``: what the quantizer was asked for, not what each tensor is."""

# File types that are a mixture whose name is not a tensor type plus a size suffix.
_MIXTURES = {"IQ3_XS": "IQ3_S", "IQ3_M": "IQ3_S", "IQ2_M": "IQ2_S"}


def base_type(file_type: str) -> str:
    """Return the tensor type that a file type such as ``Q4_K_M`` is built on (``Q4_K``)."""
    if file_type in _MIXTURES:
        return _MIXTURES[file_type]
    for suffix in ("_S", "_M", "_L"):
        if file_type.endswith("_K" + suffix):
            return file_type.removesuffix(suffix)
    return file_type

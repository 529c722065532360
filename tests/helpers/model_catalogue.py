"""A catalogue of one tiny real GGUF file with chosen sources, and wheels that hold its parts."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from muniment_runtime.model.catalogue import Catalogue, CatalogueEntry, Source, WheelsSource
from tests.helpers import gguf_writer as gw

MODEL_ID = "tiny-q8_0"
MEMBER = r"[a-z0-9_]+/data/part\d\d\.bin"


def tiny_bytes(vocabulary: int = 96) -> bytes:
    return gw.model("qwen2", vocabulary=vocabulary, template="<|im_start|>").data()


def entry_for(data: bytes, sources: Sequence[Source], *, sha256: str | None = None) -> CatalogueEntry:
    return CatalogueEntry(
        model_id=MODEL_ID,
        family="Tiny",
        parameters=1,
        quantization="Q8_0",
        size_bytes=len(data),
        sha256=sha256 or hashlib.sha256(data).hexdigest(),
        licence="MIT",
        languages=("en",),
        context=2048,
        template="chatml",
        starter=True,
        sources=tuple(sources),
    )


def catalogue_for(data: bytes, *sources: Source, sha256: str | None = None) -> Catalogue:
    return Catalogue((entry_for(data, sources, sha256=sha256),))


def wheels_source(count: int) -> WheelsSource:
    return WheelsSource(tuple(f"tiny-part{number}" for number in range(1, count + 1)), "1.0", MEMBER)


def write_wheel(folder: Path, number: int, part: bytes, *, members: int = 1) -> Path:
    """Write a wheel that pip accepts, with ``members`` copies of the part."""
    name, info = f"tiny_part{number}", f"tiny_part{number}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "")
        for member in range(members):
            archive.writestr(f"{name}/data/part{number + member:02}.bin", part)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def write_wheels(folder: Path, data: bytes, count: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    step = -(-len(data) // count)
    return [write_wheel(folder, n + 1, data[n * step : (n + 1) * step]) for n in range(count)]

"""The proof of a freshly built engine happens in a real child, whose death is an answer and not a crash."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from scripts import llama_wheel


def wheel_with(tmp_path: Path, binding: str) -> Path:
    path = tmp_path / "llama.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llama_cpp/llama_cpp.py", binding)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_an_illegal_instruction_is_reported(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    assert llama_wheel._prove(wheel) == "signal 4"


def test_a_library_that_does_not_load_is_reported(tmp_path: Path) -> None:
    problem = llama_wheel._prove(wheel_with(tmp_path, "raise OSError('libgomp.so.1 is missing')\n"))
    assert problem == "exit 1: OSError: libgomp.so.1 is missing"


def test_a_cached_wheel_that_dies_here_is_not_used(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "raise SystemExit(3)\n")
    flags = llama_wheel.flags_for(set(), "x86_64")
    llama_wheel._write_note(tmp_path, {"flags": flags, "file": wheel.name, "sha256": llama_wheel._sha256(wheel)})
    said: list[str] = []
    assert llama_wheel._cached(tmp_path, flags, said.append) is None
    assert "does not run here (exit 3" in said[0]

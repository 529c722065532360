"""Installation decisions that can be checked without installing: flags, keys, cache, missing libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import install, llama_smoke, llama_wheel

AVX2 = {"sse4_2", "avx", "avx2", "fma", "f16c", "bmi2"}
AVX512 = AVX2 | {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"}


def on(features: set[str]) -> set[str]:
    return {name for name, value in llama_wheel.flags_for(features, "x86_64").items() if value == "ON"}


def test_no_features_means_every_switch_is_off() -> None:
    flags = llama_wheel.flags_for(set(), "x86_64")
    assert set(flags.values()) == {"OFF"}
    assert {"GGML_NATIVE", "GGML_AVX", "GGML_SSE42", "GGML_AMX_TILE"} <= set(flags)


def test_flags_follow_the_processor() -> None:
    assert on(AVX2) == {"GGML_SSE42", "GGML_AVX", "GGML_AVX2", "GGML_FMA", "GGML_F16C", "GGML_BMI2"}
    assert on(AVX512 | {"avx512_vnni", "avx512_vbmi"}) - on(AVX2) == {
        "GGML_AVX512",
        "GGML_AVX512_VNNI",
        "GGML_AVX512_VBMI",
    }


@pytest.mark.parametrize("missing", ["avx512cd", "avx512vl", "avx512dq", "avx512bw", "avx2"])
def test_avx512_needs_its_whole_set(missing: str) -> None:
    assert not {name for name in on((AVX512 | {"avx512_vnni"}) - {missing}) if "AVX512" in name}


def test_tile_instructions_stay_off_even_when_advertised() -> None:
    assert on(AVX512 | {"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16"}) == on(AVX512)


def test_another_machine_gets_no_x86_switch() -> None:
    flags = llama_wheel.flags_for({"asimddp", "asimdhp"}, "aarch64")
    assert flags["GGML_CPU_ARM_ARCH"] == "armv8.2-a+dotprod+fp16"
    assert "GGML_AVX" not in flags
    assert "GGML_CPU_ARM_ARCH" not in llama_wheel.flags_for(set(), "aarch64")


def test_other_flags_have_another_cache_key() -> None:
    keys = {llama_wheel.cache_key(llama_wheel.flags_for(features, "x86_64")) for features in (set(), AVX2, AVX512)}
    assert len(keys) == 3


def test_wheel_cache_can_be_moved(tmp_path: Path) -> None:
    assert llama_wheel.wheel_cache({"MUNIMENT_WHEEL_CACHE": str(tmp_path)}) == tmp_path.resolve()


@pytest.mark.skipif(sys.platform != "linux", reason="the folder differs per system")
def test_wheel_cache_follows_xdg(tmp_path: Path) -> None:
    assert llama_wheel.wheel_cache({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "muniment" / "wheels"


def cached(folder: Path, flags: llama_wheel.Flags, changes: dict[str, object]) -> tuple[Path | None, list[str]]:
    """Look up a cached wheel whose note is right but for ``changes``."""
    folder.mkdir(exist_ok=True)
    wheel = folder / "llama.whl"
    wheel.write_bytes(b"not a wheel")
    note: dict[str, object] = {"flags": flags, "file": wheel.name, "sha256": llama_wheel._sha256(wheel)} | changes
    (folder / "wheel.json").write_text(json.dumps(note), "utf-8")
    said: list[str] = []
    return llama_wheel._cached(folder, flags, said.append), said


def test_a_cached_wheel_with_other_flags_or_bytes_is_refused(tmp_path: Path) -> None:
    flags = llama_wheel.flags_for(AVX2, "x86_64")
    changes: list[dict[str, object]] = [{"flags": llama_wheel.flags_for(AVX512, "x86_64")}, {"sha256": "0" * 64}]
    for number, change in enumerate(changes):
        wheel, said = cached(tmp_path / str(number), flags, change)
        assert wheel is None
        assert "does not match its note" in said[0]


def test_a_broken_note_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "wheel.json").write_text("{", "utf-8")
    assert llama_wheel._cached(tmp_path, {}, pytest.fail) is None


def test_the_test_model_is_a_well_formed_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    llama_smoke.write_tiny_gguf(path)
    first = path.read_bytes()
    llama_smoke.write_tiny_gguf(path)
    assert path.read_bytes() == first
    assert first[:4] == b"GGUF"
    assert len(first) < 4_000_000


def test_missing_libraries_name_their_packages() -> None:
    known = set(install.QT_LIBRARIES) - {"libEGL.so.1", "libxcb-cursor.so.0"}
    assert install.missing_packages({"gui"}, known) == ["libegl1", "libxcb-cursor0"]
    assert install.missing_packages({"gui"}, set(install.QT_LIBRARIES)) == []
    assert install.missing_packages({"llama"}, set()) == []
    assert install.missing_packages({"gui"}, None) == []


def test_stamp_key_changes_with_the_pins(tmp_path: Path) -> None:
    for name in install.INPUTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a", "utf-8")
    before = install.stamp_key(tmp_path)
    assert install.stamp_key(tmp_path) == before
    (tmp_path / "constraints.txt").write_text("b", "utf-8")
    assert install.stamp_key(tmp_path) != before


def test_a_stamp_counts_only_under_its_own_key(tmp_path: Path) -> None:
    stamp = tmp_path / "stamp.json"
    stamp.write_text(json.dumps({"key": "k", "extras": ["llama", "gui"]}), "utf-8")
    assert install._installed_extras(stamp, "k") == {"core", "llama", "gui"}
    assert install._installed_extras(stamp, "other") == set()
    stamp.write_text("torn", "utf-8")
    assert install._installed_extras(stamp, "k") == set()


def test_constraints_pin_each_name_once() -> None:
    lines = [
        line
        for line in (install.ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    names = [line.partition("==")[0].lower().replace("-", "_") for line in lines]
    assert all("==" in line for line in lines)
    assert len(set(names)) == len(names)
    assert {"pyside6_essentials", "llama_cpp_python", "reportlab", "pypdfium2"} <= set(names)


def test_make_without_a_verb_lists_the_verbs() -> None:
    done = subprocess.run(["make", "-s"], cwd=install.ROOT, capture_output=True, text=True, timeout=60, check=True)
    for verb in ("demo", "app", "test", "check", "clean"):
        assert f"make {verb} " in done.stdout

"""Gets a llama-cpp-python wheel that fits this processor: from the user's wheel cache, or built and proven here.

The package index holds no wheel of this release, and its source build asks the compiler for every instruction set
that the processor advertises (``-march=native``), which dies with "illegal instruction" on virtual machines that
advertise more than they run. So the flags are set one by one from the processor's features, proven by a child
process (``llama_smoke.py``), and replaced by portable ones when that child dies.

A wheel is cached by version, flags, Python, platform and recipe, and checked (SHA-256, proof) before each use, so
that a wheel built with other flags is never picked up. pip's own cache does not know the flags: it is not used.

Standard library only. Run by ``install.py`` with the Python of the virtual environment::

    python scripts/llama_wheel.py    # progress on stderr, the wheel's path on stdout
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["Flags", "WheelError", "cache_key", "cpu_features", "flags_for", "get_wheel", "wheel_cache"]

HERE = Path(__file__).resolve().parent
VERSION = "0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
RECIPE = 1
BUILD_LIMIT_S = 3600
SMOKE_LIMIT_S = 120

Flags = dict[str, str]
Say = Callable[[str], None]

# Off in every build. GGML_NATIVE would undo the choice below; tile instructions (AMX) are advertised by virtual
# machines that cannot run them; no model of the catalogue holds bf16 weights, so that path would stay unproven.
ALWAYS_OFF = ("GGML_NATIVE", "LLAVA_BUILD", "GGML_AMX_TILE", "GGML_AMX_INT8", "GGML_AMX_BF16", "GGML_AVX512_BF16")
# flag -> features that must all be there, in the names of /proc/cpuinfo
X86_FLAGS: dict[str, tuple[str, ...]] = {
    "GGML_SSE42": ("sse4_2",),
    "GGML_AVX": ("avx",),
    "GGML_AVX2": ("avx", "avx2"),
    "GGML_FMA": ("avx", "fma"),
    "GGML_F16C": ("avx", "f16c"),
    "GGML_BMI2": ("bmi2",),
    "GGML_AVX_VNNI": ("avx2", "avx_vnni"),
    "GGML_AVX512": ("avx2", "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
}
AVX512_FLAGS = {"GGML_AVX512_VBMI": "avx512_vbmi", "GGML_AVX512_VNNI": "avx512_vnni"}


class WheelError(Exception):
    """No usable wheel; the text is one sentence for the person who installs."""


def _features_linux() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            # The kernel spells this one without the underscore that its siblings have.
            return {"avx512_vbmi" if word == "avx512vbmi" else word for word in value.split()}
    return set()


def _features_macos() -> set[str]:
    done = subprocess.run(
        ["sysctl", "-n", "machdep.cpu.features", "machdep.cpu.leaf7_features"],
        capture_output=True,
        text=True,
        check=False,
    )
    names = {"sse4.2": "sse4_2", "avx1.0": "avx", "avx512vbmi": "avx512_vbmi", "avx512vnni": "avx512_vnni"}
    return {names.get(word, word) for word in done.stdout.lower().split()}


def _features_windows() -> set[str]:
    """Ask the kernel (PF_* numbers of IsProcessorFeaturePresent); every AVX2 processor has the three beside it."""
    present = ctypes.CDLL("kernel32").IsProcessorFeaturePresent
    found = {name for name, number in {"sse4_2": 38, "avx": 39, "avx2": 40}.items() if present(number)}
    return found | ({"fma", "f16c", "bmi2"} if "avx2" in found else set())


def cpu_features() -> set[str]:
    """Return the instruction sets of this processor in the names of /proc/cpuinfo; empty when unknown."""
    readers = {"Linux": _features_linux, "Darwin": _features_macos, "Windows": _features_windows}
    try:
        return readers[platform.system()]()
    except (KeyError, OSError, AttributeError):
        return set()


def flags_for(features: set[str], machine: str) -> Flags:
    """Return the CMake settings for a processor; with no features these are the portable ones.

    Every switch is set in words, on or off: what is left out would follow a default of the source.
    """
    flags = dict.fromkeys(ALWAYS_OFF, "OFF")
    if machine.lower() not in ("x86_64", "amd64"):
        if {"asimddp", "asimdhp"} <= features:  # Arm on Linux; the Apple toolchain knows its processors by itself
            flags["GGML_CPU_ARM_ARCH"] = "armv8.2-a+dotprod+fp16"
        return flags
    for flag, needed in X86_FLAGS.items():
        flags[flag] = "ON" if features.issuperset(needed) else "OFF"
    for flag, feature in AVX512_FLAGS.items():
        flags[flag] = "ON" if flags["GGML_AVX512"] == "ON" and feature in features else "OFF"
    return flags


def wheel_cache(environment: Mapping[str, str]) -> Path:
    """Return the user's wheel cache folder; ``MUNIMENT_WHEEL_CACHE`` overrides it."""
    if override := environment.get("MUNIMENT_WHEEL_CACHE"):
        return Path(override).expanduser().resolve()
    if platform.system() == "Windows":
        base = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform.system() == "Darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "muniment" / "wheels"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_key(flags: Flags) -> str:
    """Return the key of a build: equal only when the same bytes would be built for the same kind of machine."""
    parts = {
        "version": VERSION,
        "sdist": SDIST_SHA256,
        "flags": flags,
        "python": sys.implementation.cache_tag,
        "platform": sysconfig.get_platform(),
        "recipe": RECIPE,
        "cmake": _sha256(HERE / "llama_only.cmake"),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _prove(wheel: Path) -> str | None:
    """Run the smoke decode on a wheel; ``None`` when it computes, else what happened to the child."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        try:
            done = subprocess.run(
                [sys.executable, "-B", str(HERE / "llama_smoke.py"), folder],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SMOKE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no result within {SMOKE_LIMIT_S} s"
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}: {last}"


def _read_note(folder: Path) -> dict[str, object]:
    try:
        note = json.loads((folder / "wheel.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(folder: Path, note: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"wheel.json.{os.getpid()}"
    partial.write_text(json.dumps(note, indent=2, sort_keys=True) + "\n", "utf-8")
    partial.replace(folder / "wheel.json")


def _cached(folder: Path, flags: Flags, say: Say) -> Path | None:
    """Return the folder's wheel when its note, its hash and the proof on this machine all agree."""
    note = _read_note(folder)
    wheel = folder / Path(str(note.get("file", "none"))).name
    if not wheel.is_file():
        return None
    if note.get("flags") != flags or note.get("sha256") != _sha256(wheel):
        say(f"  the cached wheel in {folder} does not match its note: building again")
        return None
    if problem := _prove(wheel):
        say(f"  the cached wheel does not run here ({problem}): building again")
        return None
    return wheel


def _need_compiler(say: Say) -> None:
    if platform.system() == "Windows":
        return  # CMake finds Visual Studio by itself; its own message says when there is none
    named = os.environ.get("CXX", "").split()[:1]
    if any(shutil.which(name) for name in (*named, "c++", "g++", "clang++")):
        return
    if platform.system() == "Darwin":
        raise WheelError("A C++ compiler is missing. Run: xcode-select --install")
    if shutil.which("apt-get") and os.geteuid() == 0:
        say("  no C++ compiler: installing g++ with apt-get")
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", "g++"]):
            done = subprocess.run(
                ["apt-get", *words], check=False, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        if done.returncode == 0:
            return
    raise WheelError("A C++ compiler is missing. Run: sudo apt-get install g++   (or your system's equivalent)")


def _build(flags: Flags, target: Path, say: Say) -> tuple[Path, float]:
    """Build the wheel into ``target`` with pip's build isolation (which brings cmake and ninja by itself)."""
    started = time.monotonic()
    include = (HERE / "llama_only.cmake").as_posix()
    arguments = [f"-D{name}={value}" for name, value in sorted(flags.items())]
    arguments.append(shlex.quote(f"-DCMAKE_PROJECT_INCLUDE={include}"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    environment = os.environ | {
        "CMAKE_ARGS": " ".join(arguments),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(cores),
        "SKBUILD_BUILD_TARGETS": "llama",
    }
    requirement = target / "requirement.txt"
    requirement.write_text(f"llama-cpp-python=={VERSION} --hash=sha256:{SDIST_SHA256}\n", "utf-8")
    log = target / "build.log"
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--no-input", "--no-binary"]
    command += ["llama-cpp-python", "--disable-pip-version-check", "-w", str(target), "-r", str(requirement)]
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while True:
                try:
                    child.wait(timeout=20)
                    break
                except subprocess.TimeoutExpired:
                    elapsed_s = time.monotonic() - started
                    if elapsed_s > BUILD_LIMIT_S:
                        raise WheelError(f"The build did not end within {BUILD_LIMIT_S} s.") from None
                    say(f"  still building ({elapsed_s:.0f} s)")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    wheels = list(target.glob("*.whl"))
    if child.returncode != 0 or len(wheels) != 1:
        kept = Path(tempfile.gettempdir()) / f"muniment-llama-build-{os.getpid()}.log"
        shutil.copy(log, kept)
        tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
        raise WheelError(f"{tail}\nllama-cpp-python does not build here. The whole log: {kept}")
    return wheels[0], time.monotonic() - started


def _build_into_cache(flags: Flags, folder: Path, say: Say) -> tuple[Path | None, str]:
    """Build, prove and store one wheel; (its path, "") or (``None``, why it does not run here)."""
    _need_compiler(say)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder.parent) as temporary:
        built, took_s = _build(flags, Path(temporary), say)
        problem = _prove(built)
        note: dict[str, object] = {"version": VERSION, "flags": flags, "recipe": RECIPE, "built_s": round(took_s, 1)}
        if problem:
            _write_note(folder, note | {"rejected": problem})
            return None, problem
        folder.mkdir(parents=True, exist_ok=True)
        wheel = folder / built.name
        built.replace(wheel)
        _write_note(folder, note | {"file": wheel.name, "sha256": _sha256(wheel)})
    say(f"  built and proven in {took_s:.0f} s")
    return wheel, ""


def get_wheel(say: Say) -> Path:
    """Return a proven wheel for this machine, building it when the cache has none.

    Raises:
        WheelError: Nothing can be built, or not even the portable build runs.
    """
    machine = platform.machine()
    fitting, portable = flags_for(cpu_features(), machine), flags_for(set(), machine)
    cache = wheel_cache(os.environ)
    problem = "no build was tried"
    for flags in [fitting] if fitting == portable else [fitting, portable]:
        folder = cache / f"llama-cpp-python-{VERSION}-{cache_key(flags)}"
        if rejected := _read_note(folder).get("rejected"):
            problem = str(rejected)
            say(f"  these flags did not run here before ({problem}): {_words(flags)}")
            continue
        if wheel := _cached(folder, flags, say):
            say(f"  llama-cpp-python {VERSION} from the wheel cache ({_words(flags)})")
            return wheel
        say(f"  building llama-cpp-python {VERSION} ({_words(flags)}): 3 to 7 minutes on 2 cores")
        wheel, problem = _build_into_cache(flags, folder, say)
        if wheel:
            return wheel
        say(f"  the build does not run on this processor ({problem})")
    raise WheelError(f"llama-cpp-python builds but does not run here ({problem}); the wheel cache is {cache}")


def _words(flags: Flags) -> str:
    names = [name.removeprefix("GGML_") for name, value in sorted(flags.items()) if value != "OFF"]
    return ", ".join(names) or "portable flags"


def main() -> int:
    """Print the path of the wheel on stdout, progress on stderr."""
    argparse.ArgumentParser(description="Get a llama-cpp-python wheel that fits this processor.").parse_args()
    try:
        print(get_wheel(lambda line: print(line, file=sys.stderr, flush=True)))
    except WheelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Installs Muniment into ``.venv`` of this repository: what is missing, and nothing twice.

Usage: ``python3 scripts/install.py [--extras llama,gui,dev]``. Runs with the system's Python (3.11 or newer) and the
standard library only. Steps: virtual environment, Python packages at the pinned versions, llama-cpp-python through
the wheel cache, system libraries for the window. A stamp in ``.venv`` makes a second run end at once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["InstallError", "missing_packages", "stamp_key", "venv_python"]

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("llama", "gui", "dev")
# Everything that decides what is installed; an edit of one of these makes the next run install again.
INPUTS = (
    "pyproject.toml",
    "constraints.txt",
    "scripts/install.py",
    "scripts/llama_wheel.py",
    "scripts/llama_only.cmake",
)

# Shared libraries that PySide6 loads from the system, with the Debian package of each.
QT_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
# For tests alone: a display without a screen, and Chinese glyphs for the pictures that tests look at.
TEST_PROGRAMS = {"Xvfb": "xvfb", "xauth": "xauth"}
CJK_FONT = ("/usr/share/fonts", "NotoSansCJK-Regular.ttc", "fonts-noto-cjk")


class InstallError(Exception):
    """The installation cannot go on; the text says what to run."""


def say(line: str) -> None:
    """Print one progress line at once."""
    print(line, flush=True)


def venv_python(venv: Path) -> Path:
    """Return the interpreter inside a virtual environment of this system."""
    return venv / "Scripts" / "python.exe" if platform.system() == "Windows" else venv / "bin" / "python"


def _base(root: Path) -> str:
    """What a virtual environment is tied to: its Python, and its place (scripts in it hold absolute paths)."""
    return f"{sys.version}|{sys.base_prefix}|{root}"


def stamp_key(root: Path) -> str:
    """Return a hash of everything that decides what is installed, the Python included."""
    digest = hashlib.sha256(_base(root).encode())
    for name in INPUTS:
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()


def _installed_extras(stamp: Path, key: str) -> set[str]:
    """Return the extras that are there already; empty when anything has changed since."""
    try:
        note = json.loads(stamp.read_text("utf-8"))
        return set(note["extras"]) | {"core"} if note["key"] == key else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _is_root_on_debian() -> bool:
    return platform.system() == "Linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def _apt(packages: Sequence[str], what: str) -> None:
    """Install Debian packages when root; otherwise say the one line that does it.

    Raises:
        InstallError: Not root, no apt-get, or apt-get failed.
    """
    line = f"{what} missing. Run: sudo apt-get install {' '.join(packages)}"
    if not _is_root_on_debian():
        raise InstallError(line)
    say(f"  apt-get install {' '.join(packages)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            check=False,
        )
        if done.returncode != 0 and words[0] == "install":
            raise InstallError(f"{done.stdout[-2000:]}\n{line}")


def _make_venv(venv: Path, base: str) -> None:
    """Create the virtual environment unless a complete one of this Python and place is there."""
    mark = venv / "muniment-base"
    if mark.exists() and mark.read_text("utf-8") == base and venv_python(venv).exists():
        return
    say("Virtual environment")
    try:
        __import__("ensurepip")
    except ModuleNotFoundError:
        # Debian splits it out of python3; only the versioned package is certain to match this interpreter.
        _apt([f"python{sys.version_info.major}.{sys.version_info.minor}-venv"], "Python's venv module is")
    # The base interpreter, also when this runs inside the very environment that is being replaced.
    base_python = getattr(sys, "_base_executable", None) or sys.executable
    command = [base_python, "-m", "venv", "--clear", str(venv)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise InstallError(f"{done.stdout}{done.stderr}\nThe virtual environment {venv} cannot be created.")
    mark.write_text(base, "utf-8")


def _pip(python: Path, log: Path, *words: str) -> None:
    """Run pip with its output in a log file; a sign of life every 20 s."""
    command = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["-c", str(ROOT / "constraints.txt"), *words]
    started = time.monotonic()
    with log.open("ab") as output:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    child.wait(timeout=20)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  still installing ({time.monotonic() - started:.0f} s)")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if child.returncode != 0:
        tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
        raise InstallError(f"{tail}\npip failed. The whole log: {log}")


def _install_llama(python: Path, log: Path) -> None:
    done = subprocess.run(
        [str(python), str(ROOT / "scripts" / "llama_wheel.py")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError("The model engine could not be built (see above).")
    # The version stays the same when the flags change, so pip must be told to replace it.
    _pip(python, log, "--force-reinstall", "--no-deps", done.stdout.strip())


def _known_libraries() -> set[str] | None:
    """Return the names of shared libraries that the loader knows, or ``None`` where it cannot be asked."""
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if platform.system() != "Linux" or ldconfig is None:
        return None
    done = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False)
    return {line.split()[0] for line in done.stdout.splitlines() if "=>" in line} or None


def missing_packages(extras: Iterable[str], known: set[str] | None) -> list[str]:
    """Return the Debian packages that these extras need and this system lacks.

    Args:
        extras: The chosen extras.
        known: Names of shared libraries that are there; ``None`` means unknown, then none is called missing.
    """
    missing = set()
    if "gui" in extras and known is not None:
        missing |= {package for library, package in QT_LIBRARIES.items() if library not in known}
    if "dev" in extras and platform.system() == "Linux":
        missing |= {package for program, package in TEST_PROGRAMS.items() if shutil.which(program) is None}
        folder, font, package = CJK_FONT
        if not any(Path(folder).rglob(font)):
            missing.add(package)
    return sorted(missing)


def install(extras: set[str], root: Path = ROOT) -> None:
    """Bring ``.venv`` to the wanted state; extras that are there already stay.

    Raises:
        InstallError: Something is missing that this program may not or cannot install.
    """
    venv = root / ".venv"
    stamp = venv / "muniment-install.json"
    python = venv_python(venv)
    key = stamp_key(root)
    present = _installed_extras(stamp, key) if python.exists() else set()
    if present >= extras | {"core"}:
        return
    wanted = sorted((extras | present) - {"core"})
    started = time.monotonic()
    say(f"Installing Muniment into {venv} ({', '.join(wanted) or 'core only'}). The first time takes some minutes.")
    packages = missing_packages(wanted, _known_libraries())
    if packages and shutil.which("apt-get"):
        say("System packages")
        _apt(packages, "System packages are")
    elif packages:
        say(f"System packages seem to be missing; their Debian names: {' '.join(packages)}")
    _make_venv(venv, _base(root))
    stamp.unlink(missing_ok=True)  # from here on an interrupted run must not look finished
    log = venv / "install.log"
    log.write_bytes(b"")
    # The engine comes as a wheel of our own making; its Python dependencies come with the rest.
    names = ",".join(name for name in wanted if name != "llama")
    more = ["diskcache", "jinja2", "numpy", "typing-extensions"] if "llama" in wanted else []
    say("Python packages")
    _pip(python, log, "-e", f"{root}[{names}]" if names else str(root), *more)
    if "llama" in wanted and "llama" not in present:
        say("Model engine (llama.cpp)")
        _install_llama(python, log)
    stamp.write_text(json.dumps({"key": key, "extras": wanted}) + "\n", "utf-8")
    say(f"Installed in {time.monotonic() - started:.0f} s.")


def main() -> int:
    """Parse the arguments and install."""
    parser = argparse.ArgumentParser(description="Install Muniment into .venv of this repository.")
    parser.add_argument("--extras", default="llama", help=f"comma-separated, out of: {', '.join(EXTRAS)}")
    chosen = {name for name in parser.parse_args().extras.split(",") if name}
    if unknown := chosen.difference(EXTRAS):
        parser.error(f"unknown extras: {', '.join(sorted(unknown))}")
    try:
        install(chosen)
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. Run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    # Spelled so that an older Python parses this file and can say what is wrong.
    if sys.version_info < (3, 11):  # noqa: UP036  # reached when the system's python3 is too old
        sys.exit("Muniment needs Python 3.11 or newer; this is %d.%d." % sys.version_info[:2])  # noqa: UP031
    sys.exit(main())

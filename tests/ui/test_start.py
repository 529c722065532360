"""The start of the program: the window is ready without services, and nothing heavy is loaded before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ("cryptography", "sqlcipher3", "sqlite_utils", "psutil", "numpy", "muniment_app.bootstrap")


def run(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "MUNIMENT_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_window_says_ready_and_ends_without_touching_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = run(["-m", "muniment_app", "gui", "--exit-when-ready"], home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    assert not home.exists()


def test_nothing_heavy_is_loaded_before_the_first_picture(tmp_path: Path) -> None:
    code = (
        "import sys, muniment_app.entry\n"
        "status = muniment_app.entry.main(['gui', '--exit-when-ready'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], status)\n"
    )
    done = run(["-c", code], tmp_path / "home")
    assert done.stdout == "ready\n[] 0\n", done.stderr


def test_help_loads_neither_the_window_nor_the_services(tmp_path: Path) -> None:
    code = (
        "import sys, muniment_app.entry\n"
        "status = muniment_app.entry.main(['--help'])\n"
        f"print([name for name in {('PySide6', *HEAVY)!r} if name in sys.modules], status)\n"
    )
    done = run(["-c", code], tmp_path / "home")
    assert done.stdout.endswith("[] 0\n"), done.stdout + done.stderr
    assert "exit-when-ready" not in done.stdout


def test_a_damaged_settings_file_does_not_stop_the_window(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text("language = ", "utf-8")
    done = run(["-m", "muniment_app", "gui", "--exit-when-ready"], home)
    assert (done.returncode, done.stdout) == (0, "ready\n")
    assert [path.name for path in home.iterdir()] == ["settings.broken-1"]

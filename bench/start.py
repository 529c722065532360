"""Cold start: from process start to a window that takes input.

Each sample is a new process that opens the real window on a fresh or used data folder and ends when it is ready.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import Report, Settings, percentile, run

__all__ = ["measure"]


def _start_once(home: Path, platform: str) -> float:
    environ = {**os.environ, "MUNIMENT_HOME": str(home), "QT_QPA_PLATFORM": platform}
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "muniment_app", "gui", "--exit-when-ready"],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        elapsed_s = time.perf_counter() - started
        process.communicate(timeout=60)
    if line.strip() != "ready" or process.returncode != 0:
        raise RuntimeError(f"the window did not become ready (exit code {process.returncode})")
    return elapsed_s


def measure(settings: Settings, report: Report) -> None:
    """Take the samples."""
    samples = 10 if settings.quick else 30
    platform = os.environ.get("QT_QPA_PLATFORM") or ("xcb" if os.environ.get("DISPLAY") else "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        first_s = _start_once(home, platform)
        times_s = [_start_once(home, platform) for _ in range(samples)]
    report.add("interactive_s_first", first_s, 1)
    report.add("interactive_s_p50", percentile(times_s, 50), samples)
    report.add("interactive_s_p95", percentile(times_s, 95), samples)
    report.notes.append(
        f"Qt platform {platform}; process start to the window's first idle moment after its first paint"
    )


if __name__ == "__main__":
    raise SystemExit(run("start", measure, ("PySide6-Essentials",)))

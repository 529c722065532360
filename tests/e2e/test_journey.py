"""Runs the journeys of ``journey.py`` in a process of their own.

The other window tests share one process that draws off screen; a program can have only one Qt platform, and these
need a real display where one can be had (an X server that pytest-xvfb started, or the user's own).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

JOURNEY = Path(__file__).with_name("journey.py")
LIMIT_S = 300


def test_the_journeys_through_the_real_window() -> None:
    # Qt takes the first platform of the list that works here.
    platform = "xcb;offscreen" if os.environ.get("DISPLAY") else "offscreen"
    if sys.platform in ("win32", "darwin"):
        platform = "offscreen"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--no-header", "--no-xvfb", "-q", str(JOURNEY)],
        env={**os.environ, "QT_QPA_PLATFORM": platform},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout

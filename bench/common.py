"""What all benches share: arguments, the machine, versions, and the one line of JSON at the end."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

__all__ = ["Report", "Settings", "machine", "percentile", "run", "versions"]

DATA_VARIABLE = "MUNIMENT_EVAL"


@dataclass(frozen=True)
class Settings:
    """How a bench was asked to run. ``data`` is the evaluation folder, ``None`` when there is none."""

    quick: bool
    data: Path | None


@dataclass
class Report:
    """Figures by key with the number of samples behind each, and notes on what could not be measured."""

    figures: dict[str, float] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, key: str, value: float, samples: int) -> None:
        """Record a figure."""
        self.figures[key] = round(value, 4)
        self.samples[key] = samples


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of a non-empty sample."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def machine() -> dict[str, object]:
    """Describe the machine without anything that identifies it."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": [round(value, 2) for value in psutil.getloadavg()],
    }


def versions(*packages: str) -> dict[str, str]:
    """Return versions of Python, this program and some packages."""
    found = {"python": platform.python_version()}
    for name in ("muniment", *packages):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run(
    name: str,
    measure: Callable[[Settings, Report], None],
    packages: Sequence[str] = (),
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, measure, print; the last line of ``--json`` is one object."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}")
    parser.add_argument("--quick", action="store_true", help="smaller samples, same keys")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--data", type=Path, help=f"evaluation folder (default: {DATA_VARIABLE})")
    options = parser.parse_args(arguments)
    named = os.environ.get(DATA_VARIABLE)
    data = options.data or (Path(named) if named else None)
    if data is not None and not data.is_dir():
        parser.error(f"no folder {data}")
    before = machine()
    report = Report()
    measure(Settings(options.quick, data), report)
    if options.json:
        result = {
            "bench": name,
            "machine": before,
            "versions": versions(*packages),
            "figures": report.figures,
            "samples": report.samples,
            "notes": report.notes,
        }
        print(json.dumps(result, ensure_ascii=False))
    else:
        for key, value in report.figures.items():
            print(f"{key:32} {value:>12}   n={report.samples.get(key, 0)}")
        for note in report.notes:
            print(f"note: {note}")
    return 0

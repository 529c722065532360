"""What every bench shares: arguments, machine and versions, and the one JSON object at the end."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import psutil

__all__ = ["Bench", "percentile"]

DISTRIBUTIONS = ("muniment", "llama-cpp-python", "pypdfium2", "PySide6-Essentials", "sqlcipher3")


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of a non-empty sample."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def _machine() -> dict[str, object]:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {
        "system": platform.system(),
        "cpu": name,
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@dataclass
class Bench:
    """One run of one bench.

    Attributes:
        name: The bench.
        quick: Smaller samples, same keys.
        data: Folder with evaluation data, or ``None``.
    """

    name: str
    quick: bool
    as_json: bool
    data: Path | None
    figures: dict[str, float] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_arguments(cls, name: str, description: str) -> Bench:
        """Parse the arguments that every bench takes."""
        parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
        parser.add_argument("--quick", action="store_true", help="smaller samples, at most five minutes")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON line at the end")
        parser.add_argument("--data", type=Path, help="evaluation data (default: MUNIMENT_EVAL)")
        given = parser.parse_args()
        environ = os.environ.get("MUNIMENT_EVAL")
        data = given.data or (Path(environ) if environ else None)
        return cls(name, given.quick, given.json, data)

    def need_data(self) -> Path:
        """Return the data folder, or end with a sentence that says what is missing."""
        if self.data is None or not self.data.is_dir():
            sys.exit(
                f"bench.{self.name} needs evaluation data: a folder whose sub-folders hold pdf/ and questions.jsonl. "
                "Give it with --data DIR or the variable MUNIMENT_EVAL."
            )
        return self.data

    def figure(self, key: str, value: float, samples: int) -> None:
        """Record a figure with its sample size."""
        self.figures[key] = round(value, 4)
        self.samples[key] = samples
        print(f"{key:32} {value:12.4f}   n={samples}", file=sys.stderr)

    def note(self, text: str) -> None:
        """Record what a reader must know about the figures, such as one that could not be measured."""
        self.notes.append(text)

    def report(self) -> None:
        """Print the result."""
        for note in self.notes:
            print(f"note: {note}", file=sys.stderr)
        if self.as_json:
            print(
                json.dumps(
                    {
                        "bench": self.name,
                        "machine": _machine(),
                        "versions": _versions(),
                        "figures": self.figures,
                        "samples": self.samples,
                        "notes": self.notes,
                    }
                )
            )

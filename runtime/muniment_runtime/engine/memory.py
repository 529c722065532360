"""How much memory this process holds, private and file-backed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Resident", "resident"]


@dataclass(frozen=True)
class Resident:
    """Resident bytes of this process; zeros where the system does not tell them apart."""

    anonymous_bytes: int = 0
    file_bytes: int = 0

    def growth_since(self, before: Resident) -> Resident:
        """Return the increase, never negative."""
        return Resident(
            max(0, self.anonymous_bytes - before.anonymous_bytes), max(0, self.file_bytes - before.file_bytes)
        )


def resident(source: Path = Path("/proc/self/smaps_rollup")) -> Resident:
    """Return resident memory from Linux's summary of all mappings; zeros elsewhere.

    Format: lines such as ``Anonymous:   1234 kB`` (``Documentation/filesystems/proc.rst``).
    """
    try:
        lines = source.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return Resident()
    sizes: dict[str, int] = {}
    for line in lines:
        name, _, rest = line.partition(":")
        number = rest.split()
        if len(number) == 2 and number[0].isdigit() and number[1] == "kB":
            sizes[name] = int(number[0]) * 1024
    anonymous = sizes.get("Anonymous", 0)
    return Resident(anonymous, max(0, sizes.get("Rss", 0) - anonymous))

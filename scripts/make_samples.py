"""Writes the sample documents and their known answers; two runs give the same bytes.

Usage: ``python -m scripts.make_samples [FOLDER]``; the default is the folder of the shipped samples.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from scripts.samples import contract, ledger, report
from scripts.samples.style import Fact, settle_output

__all__ = ["UNANSWERABLE", "make_samples"]

SHIPPED = Path(__file__).resolve().parent.parent / "resources" / "muniment_resources" / "samples"

# Questions that sound at home in these documents and have no answer there.
UNANSWERABLE = (
    Fact("What was the revenue of Aldermoor Instruments in 2019?", "en"),
    Fact("What is the name of the Chief Executive of Aldermoor Instruments?", "en"),
    Fact("How many patents does the group hold?", "en"),
    Fact("Which bank holds account 1020?", "en"),
    Fact("乙方的注册资本是多少？", "zh"),
    Fact("合同约定的进口关税由哪一方承担？", "zh"),
)


def make_samples(folder: Path) -> list[Path]:
    """Write the three PDFs and ``facts.json`` into ``folder``; returns their paths."""
    settle_output()
    folder.mkdir(parents=True, exist_ok=True)
    facts: list[Fact] = []
    written: list[Path] = []
    for name, write in (
        (report.FILE, report.write_report),
        (contract.FILE, contract.write_contract),
        (ledger.FILE, ledger.write_ledger),
    ):
        facts += write(folder / name)
        written.append(folder / name)
    target = folder / "facts.json"
    rows = [asdict(fact) for fact in (*facts, *UNANSWERABLE)]
    target.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", "utf-8", newline="\n")
    return [*written, target]


if __name__ == "__main__":
    for path in make_samples(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED):
        print(f"{path.stat().st_size:9,d}  {path}")

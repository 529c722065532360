"""A document worker that dies, hangs or lies on certain pages, for tests of those who depend on it.

Arguments: ``crash=2,5``, ``hang=3``, ``lie=4``; the real reader serves the rest.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from muniment_retrieval.model import Line, PageText, RenderedPage
from muniment_retrieval.pdf.handler import DocumentHandler
from muniment_retrieval.pdf.reader import PdfReader
from muniment_retrieval.ports import OpenedDocument
from muniment_runtime.worker.host import claim_pipes, serve


class Fragile:
    def __init__(self, plan: dict[str, set[int]]) -> None:
        self._plan = plan
        self._reader = PdfReader()

    def open(self, path: Path, password: str | None = None) -> OpenedDocument:
        if 0 in self._plan.get("crash", set()):
            os.abort()
        return self._reader.open(path, password)

    def is_open(self, path: Path) -> bool:
        return self._reader.is_open(path)

    def read(self, number: int) -> PageText:
        if number in self._plan.get("crash", set()):
            os.abort()
        if number in self._plan.get("hang", set()):
            time.sleep(60)
        if number in self._plan.get("lie", set()):
            return PageText(number + 1, "x", "lie", (Line("lie", 0, 3, (0, 0, 1, 1)),), 10, 10)
        return self._reader.read(number)

    def render(self, number: int, scale: float) -> RenderedPage:
        if number in self._plan.get("crash", set()):
            os.abort()
        return self._reader.render(number, scale)

    def close(self) -> None:
        self._reader.close()


def main() -> None:
    stdin, stdout = claim_pipes()
    plan = {}
    for argument in sys.argv[1:]:
        kind, _, numbers = argument.partition("=")
        plan[kind] = {int(number) for number in numbers.split(",")}
    serve(DocumentHandler(Fragile(plan)), stdin, stdout)


if __name__ == "__main__":
    main()

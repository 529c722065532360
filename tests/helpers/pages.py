"""Pages and evidence for tests that need no file."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_retrieval.model import Evidence, Line, PageText, Passage


def page(number: int, lines: Sequence[str], error: str | None = None) -> PageText:
    made: list[Line] = []
    position = 0
    for index, text in enumerate(lines):
        top = 50.0 + 14 * index
        made.append(Line(text, position, position + len(text), (50.0, top, 50.0 + 5 * len(text), top + 10)))
        position += len(text) + 1
    return PageText(number, str(number), "\n".join(lines), tuple(made), 600.0, 5000.0, error)


def passage(text: str, *, chunk_id: int = 1, document: str = "a.pdf", header: str = "", start: int = 0) -> Passage:
    return Passage(chunk_id, document.split(".", maxsplit=1)[0], document, 3, "3", header, text, start, 1.0, 1.0)


def evidence(*texts: str, header: str = "") -> list[Evidence]:
    return [
        Evidence(n, passage(text, chunk_id=n, header=header), text, 10, used=True) for n, text in enumerate(texts, 1)
    ]


def lines_of(text: str, start: int = 0) -> tuple[Line, ...]:
    made: list[Line] = []
    for index, line in enumerate(text.split("\n")):
        made.append(Line(line, start, start + len(line), (0.0, 10.0 * index, 100.0, 10.0 * index + 8)))
        start += len(line) + 1
    return tuple(made)

"""Chat templates as reviewed data. A model file's own template is code from a stranger and is never run here."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

from muniment_resources.errors import BugError
from muniment_runtime.contracts import Segment

__all__ = ["ChatTemplate", "Speaker", "Turn", "load_template", "template_names"]


class Speaker(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Turn:
    """One turn. Its text is never trusted, also when this program wrote it: it needs no control tokens."""

    speaker: Speaker
    text: str


@dataclass(frozen=True)
class ChatTemplate:
    """How one family of models marks turns.

    Attributes:
        name: Key of the family, such as ``chatml``.
        marks: Opening and closing text per speaker.
        answer: Text after which the model's answer begins.
        system_first: The first turn must be the system's: without it, the files of this family put in words of
            their own, which nobody has reviewed.
        sha256: Of the template's data, for the audit record.
    """

    name: str
    marks: Mapping[Speaker, tuple[str, str]]
    answer: str
    system_first: bool
    sha256: str

    def render(self, turns: Sequence[Turn], answer_start: str = "") -> tuple[Segment, ...]:
        """Return the prompt: trusted marks around untrusted texts, ending where the answer begins.

        Args:
            turns: The conversation.
            answer_start: First words of the answer, put into the model's mouth; not trusted either.

        Raises:
            BugError: No turn, or the system's turn is missing or not the first.
        """
        if not turns or (self.system_first and turns[0].speaker is not Speaker.SYSTEM):
            raise BugError(f"template {self.name} needs a system turn first")
        segments: list[Segment] = []
        for turn in turns:
            begin, end = self.marks[turn.speaker]
            segments += [Segment(begin, trusted=True), Segment(turn.text), Segment(end, trusted=True)]
        segments += [Segment(self.answer, trusted=True), Segment(answer_start)]
        return tuple(segment for segment in segments if segment.text)


def template_names() -> tuple[str, ...]:
    """Return the families that have a reviewed template."""
    folder = resources.files("muniment_resources") / "templates"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_template(name: str) -> ChatTemplate:
    """Return the reviewed template of a family.

    Raises:
        BugError: No such family, or its data is incomplete.
    """
    if name not in template_names():
        raise BugError(f"no reviewed chat template {name!r}")
    text = (resources.files("muniment_resources") / "templates" / f"{name}.toml").read_text("utf-8")
    data = tomllib.loads(text)
    try:
        marks = {who: (str(data[who]["open"]), str(data[who]["close"])) for who in Speaker}
        answer = str(data["answer"])
        system_first = bool(data["system_first"])
    except KeyError as error:
        raise BugError(f"chat template {name!r} lacks {error}") from None
    return ChatTemplate(name, marks, answer, system_first, hashlib.sha256(text.encode()).hexdigest())

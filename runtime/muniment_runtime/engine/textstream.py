"""From token bytes to text that may be shown: whole characters, and nothing of a stop string. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

__all__ = ["StopFilter", "TextStream", "Utf8Stream"]


class Utf8Stream:
    """Decodes UTF-8 that arrives in arbitrary pieces; a character comes out once all its bytes are there.

    Bytes that can never become a character give U+FFFD. A character that is unfinished at the end is dropped.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Return the characters that ``data`` completes."""
        return self._decoder.decode(data)


class StopFilter:
    """Ends the text at the first stop string and holds back what might become one.

    Args:
        stops: Stop strings; empty ones are ignored.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Return the text that is safe to show now; after a stop string nothing more comes."""
        if self.stopped:
            return ""
        pending = self._held + text
        found = [at for at in (pending.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return pending[: min(found)]
        keep = max((_overlap(pending, stop) for stop in self._stops), default=0)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep]

    def finish(self) -> str:
        """Return what was held back for a stop string that never came."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` that is a beginning of ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


class TextStream:
    """Both steps, and the sum of all that was shown: what was streamed is exactly the result.

    Args:
        stops: Stop strings.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._utf8 = Utf8Stream()
        self._filter = StopFilter(stops)
        self._shown: list[str] = []

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._filter.stopped

    @property
    def text(self) -> str:
        """All text shown so far."""
        return "".join(self._shown)

    def feed(self, data: bytes) -> str:
        """Return the new text to show for the bytes of one token, possibly empty."""
        return self._show(self._filter.feed(self._utf8.feed(data)))

    def finish(self) -> str:
        """Return the last text to show."""
        return self._show(self._filter.finish())

    def _show(self, text: str) -> str:
        if text:
            self._shown.append(text)
        return text

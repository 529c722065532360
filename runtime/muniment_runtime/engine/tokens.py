"""Text to tokens and back, with the one rule that matters for safety: document text never becomes a control token."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from muniment_resources.errors import BugError
from muniment_runtime.contracts import Segment
from muniment_runtime.engine.library import Library

__all__ = ["Tokenizer"]

_INT32_MIN = -(2**31)
_SPACE_FOR_PIECE = 64


class Tokenizer:
    """Tokenizes for one loaded model.

    Args:
        library: The native library.
        vocabulary: Its pointer to the vocabulary; owned by the model.
    """

    def __init__(self, library: Library, vocabulary: object) -> None:
        self._api = library.api
        self._vocabulary = vocabulary
        self.size = int(self._api.llama_vocab_n_tokens(vocabulary))
        self.bos = int(self._api.llama_vocab_bos(vocabulary))
        self.wants_bos = bool(self._api.llama_vocab_get_add_bos(vocabulary)) and self.bos >= 0

    def plain(self, text: str) -> list[int]:
        """Return the tokens of untrusted text: whatever it spells, no control token comes out."""
        return self._plain(text, frozenset())

    def prompt(self, segments: Sequence[Segment]) -> list[int]:
        """Return the tokens of a rendered prompt: special tokens only from trusted segments, one BOS iff wanted.

        Neighbours of equal trust are joined first, so that the cut between two pieces of text does not change
        their tokens.
        """
        joined: list[Segment] = []
        for segment in segments:
            if joined and joined[-1].trusted == segment.trusted:
                joined[-1] = Segment(joined[-1].text + segment.text, segment.trusted)
            else:
                joined.append(segment)
        trusted = {index: self._raw(part.text, special=True) for index, part in enumerate(joined) if part.trusted}
        # Some files mark their turn markers as "user defined", which the tokenizer finds in any text. Those that
        # this prompt's template uses are guarded as well.
        guarded = frozenset(token for tokens in trusted.values() for token in tokens if self._is_marked(token))
        tokens: list[int] = []
        for index, part in enumerate(joined):
            tokens += trusted[index] if part.trusted else self._plain(part.text, guarded)
        if self.wants_bos:
            while tokens[:1] == [self.bos]:
                del tokens[0]
            tokens.insert(0, self.bos)
        return tokens

    def ends(self, token: int) -> bool:
        """Whether the token ends a generation."""
        return bool(self._api.llama_vocab_is_eog(self._vocabulary, token))

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for control tokens."""
        return self._piece(token, special=False)

    def _is_control(self, token: int) -> bool:
        return bool(self._api.llama_vocab_is_control(self._vocabulary, token)) or self.ends(token)

    def _is_marked(self, token: int) -> bool:
        marks = self._api.LLAMA_TOKEN_ATTR_CONTROL | self._api.LLAMA_TOKEN_ATTR_USER_DEFINED
        return bool(self._api.llama_vocab_get_attr(self._vocabulary, token) & marks) or self._is_control(token)

    def _plain(self, text: str, guarded: frozenset[int]) -> list[int]:
        tokens = self._raw(text, special=False)
        for token in tokens:
            if token in guarded or self._is_control(token):
                literal = self._piece(token, special=True).decode("utf-8", "replace")
                return self._around(text, literal, guarded)
        return tokens

    def _around(self, text: str, literal: str, guarded: frozenset[int]) -> list[int]:
        """Tokenize with every occurrence of ``literal`` cut after its first character, so that it is plain text."""
        if len(literal) < 2 or literal not in text:
            raise BugError("a control token came out of plain text and cannot be cut")
        parts = text.split(literal)
        tokens: list[int] = []
        for index, part in enumerate(parts):
            before = literal[1:] if index > 0 else ""
            after = literal[0] if index < len(parts) - 1 else ""
            tokens += self._plain(before + part + after, guarded)
        return tokens

    def _raw(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        if not data:
            return []
        room = len(data) + 8
        while True:
            buffer = (ctypes.c_int32 * room)()
            count = int(self._api.llama_tokenize(self._vocabulary, data, len(data), buffer, room, False, special))
            if count >= 0:
                return list(buffer[:count])
            if count == _INT32_MIN or -count <= room:
                raise BugError("the tokenizer refused the text")
            room = -count

    def _piece(self, token: int, *, special: bool) -> bytes:
        room = _SPACE_FOR_PIECE
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = int(self._api.llama_token_to_piece(self._vocabulary, token, buffer, room, 0, special))
            if count >= 0:
                return buffer.raw[:count]
            if -count <= room:
                raise BugError("the tokenizer refused a token")
            room = -count

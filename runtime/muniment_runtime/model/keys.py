"""Typed access to the metadata of one architecture in a checked GGUF header."""

from __future__ import annotations

from muniment_resources.errors import KnownError
from muniment_runtime.model.gguf import GgufArray, GgufHeader

__all__ = ["MAX_LAYERS", "Keys"]

MAX_LAYERS = 1024


class Keys:
    """Numbers, arrays and flags by their key without the architecture's prefix.

    Args:
        header: The checked header.
        name: The file's name, for refusals.

    Attributes:
        architecture: ``general.architecture``.
        strict: A missing or impossible value is refused. Off, it is read as 0: then nothing is computed from it.

    Raises:
        KnownError: ``E-MODEL-MALFORMED``: the file names no architecture.
    """

    def __init__(self, header: GgufHeader, name: str) -> None:
        self._metadata = header.metadata
        self._name = name
        architecture = header.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise self.refused("general.architecture")
        self.architecture = architecture
        self.strict = False

    def number(self, key: str, default: int | None = None, *, prefixed: bool = True) -> int:
        """Return a whole number that is not negative; without a default the key must be there."""
        value = self._metadata.get(f"{self.architecture}.{key}" if prefixed else key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            if self.strict:
                raise self.refused(key)
            return default or 0
        return value

    def positive(self, key: str) -> int:
        """Return a whole number above zero."""
        value = self.number(key)
        if value <= 0 and self.strict:
            raise self.refused(key)
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean; any other value counts as missing."""
        value = self._metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, bool) else default

    def holds(self, key: str) -> bool:
        """Whether a key is there and says more than nothing (0 or false)."""
        return self._metadata.get(f"{self.architecture}.{key}") not in (None, 0, False)

    def array(self, key: str) -> tuple[bool | int | float | str, ...] | None:
        """Return an array's elements, or ``None`` when the key is missing, not an array or too large."""
        value = self._metadata.get(f"{self.architecture}.{key}")
        return value.values if isinstance(value, GgufArray) else None

    def per_layer(
        self, key: str, count: int, *, fallback: tuple[int, ...] | None = None, default: int | None = None
    ) -> tuple[int, ...]:
        """Return one number per layer from a scalar or an array.

        Args:
            key: The key.
            count: Number of layers.
            fallback: Numbers in place of a missing key.
            default: Number for every layer in place of a missing key.
        """
        if fallback is not None and f"{self.architecture}.{key}" not in self._metadata:
            return fallback
        values = self.array(key)
        if values is None:
            return (self.number(key, default),) * min(count, MAX_LAYERS)
        numbers = tuple(value for value in values if isinstance(value, int) and value >= 0)
        if self.strict and (len(numbers) != len(values) or len(numbers) != count):
            raise self.refused(key)
        return numbers

    def vocabulary(self) -> int:
        """Return the number of tokens: the tokenizer's list counts, as in llama.cpp, else ``vocab_size``."""
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, GgufArray) else self.number("vocab_size")

    def refused(self, key: str) -> KnownError:
        """Return the refusal of a file for an impossible value."""
        return KnownError("E-MODEL-MALFORMED", name=self._name, what=key)

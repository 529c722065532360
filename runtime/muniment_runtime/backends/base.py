"""The seam to anything that can run a model. Every implementation passes ``tests/contract/backend_contract.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from muniment_runtime.contracts import GenerateRequest, GenerateResult, LoadedModel, RunConfig, Segment
from muniment_runtime.headroom.device import DeviceMemory

__all__ = ["Backend"]


class Backend(Protocol):
    """Loads one model and generates with it. Not thread-safe: one owner thread."""

    @property
    def name(self) -> str:
        """Stable name: ``llama_cpp``, ``fake``."""
        ...

    def devices(self) -> list[DeviceMemory]:
        """Return the graphics devices that this backend can use, with their memory now; none on processors alone."""
        ...

    def load(self, path: Path, config: RunConfig) -> LoadedModel:
        """Load a model file; replaces the model that was loaded before.

        Raises:
            KnownError: ``E-MODEL-LOAD`` when the file cannot be loaded with this configuration.
        """
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens off.

        Raises:
            KnownError: ``E-MODEL-NOT-LOADED``.
        """
        ...

    def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        """Return the tokens of a rendered prompt; only trusted segments may yield control tokens."""
        ...

    def generate(
        self,
        request: GenerateRequest,
        on_text: Callable[[str], None],
        cancelled: Callable[[], bool],
        on_progress: Callable[[int, int], None],
    ) -> GenerateResult:
        """Generate until a stop rule, the limit or ``cancelled()``.

        Args:
            request: The prompt and its limits.
            on_text: Called with each new piece of text; only whole characters.
            cancelled: Polled often enough that a cancel takes effect within 200 ms, also during prefill.
            on_progress: Called with (prompt tokens read, prompt tokens in all) during prefill.

        Raises:
            KnownError: ``E-MODEL-CONTEXT`` when prompt and answer do not fit the context (nothing is cut).
        """
        ...

    def unload(self) -> None:
        """Free the model and its context. Idempotent."""
        ...

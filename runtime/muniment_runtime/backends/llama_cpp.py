"""The default backend: llama.cpp through our own engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import GenerateRequest, GenerateResult, LoadedModel, RunConfig, Segment
from muniment_runtime.engine.generation import generate
from muniment_runtime.engine.library import Library
from muniment_runtime.engine.llama import LlamaModel
from muniment_runtime.headroom.device import DeviceMemory, ggml_devices

__all__ = ["LlamaCppBackend"]


class LlamaCppBackend:
    """Runs GGUF models with llama.cpp. Not thread-safe: one owner thread.

    Args:
        library: The opened native library.
        extra_buffers: Allow the faster copy of the weights; off where such code paths crash.
    """

    def __init__(self, library: Library, *, extra_buffers: bool = True) -> None:
        self._library = library
        self._extra_buffers = extra_buffers
        self._model: LlamaModel | None = None

    @property
    def name(self) -> str:
        """See ``Backend.name``."""
        return "llama_cpp"

    def devices(self) -> list[DeviceMemory]:
        """See ``Backend.devices``."""
        return ggml_devices(self._library.api)

    def load(self, path: Path, config: RunConfig) -> LoadedModel:
        """See ``Backend.load``; also ``E-MODEL-MEMORY`` when memory did not suffice."""
        # Before the new one: two models at once is what the plan did not count on.
        self.unload()
        self._model = LlamaModel(self._library, path, config, extra_buffers=self._extra_buffers)
        return self._model.facts

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See ``Backend.count_tokens``."""
        tokenizer = self._loaded().tokenizer
        return [len(tokenizer.plain(text)) for text in texts]

    def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        """See ``Backend.tokenize``."""
        return self._loaded().tokenizer.prompt(segments)

    def generate(
        self,
        request: GenerateRequest,
        on_text: Callable[[str], None],
        cancelled: Callable[[], bool],
        on_progress: Callable[[int, int], None],
    ) -> GenerateResult:
        """See ``Backend.generate``."""
        return generate(self._library, self._loaded(), request, on_text, cancelled, on_progress)

    def unload(self) -> None:
        """See ``Backend.unload``."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def _loaded(self) -> LlamaModel:
        if self._model is None:
            raise KnownError("E-MODEL-NOT-LOADED")
        return self._model

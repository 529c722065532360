"""Choosing the next token with llama.cpp's own samplers."""

from __future__ import annotations

from types import TracebackType

from muniment_runtime.engine.library import Library

__all__ = ["Sampler"]

_UINT32 = 0xFFFFFFFF
_LAST_ROW = -1


class Sampler:
    """A sampler chain of one generation; a context manager, because it is native memory.

    Args:
        library: The native library.
        temperature: 0 means greedy: the most likely token, the same on every run.
        seed: For a temperature above 0; equal seeds give equal texts.
    """

    def __init__(self, library: Library, temperature: float, seed: int) -> None:
        self._api = library.api
        self._chain = self._api.llama_sampler_chain_init(self._api.llama_sampler_chain_default_params())
        # The chain owns what is added and frees it.
        if temperature <= 0.0:
            self._api.llama_sampler_chain_add(self._chain, self._api.llama_sampler_init_greedy())
        else:
            self._api.llama_sampler_chain_add(self._chain, self._api.llama_sampler_init_temp(temperature))
            self._api.llama_sampler_chain_add(self._chain, self._api.llama_sampler_init_dist(seed & _UINT32))

    def __enter__(self) -> Sampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._chain is not None:
            self._api.llama_sampler_free(self._chain)
            self._chain = None

    def next_token(self, context: object) -> int:
        """Return the token that follows the last evaluated one and remember it."""
        return int(self._api.llama_sampler_sample(self._chain, context, _LAST_ROW))

"""One loaded model with its context: load, evaluate, clear. Not thread-safe; one owner thread.

Everything that could make llama.cpp abort the process is checked here before the call: more tokens than a batch
holds, more rows of logits than were reserved, a prompt longer than the context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import Clock, LoadedModel, Need, NeedBasis, RunConfig
from muniment_runtime.engine.buffers import Buffers, read_buffers
from muniment_runtime.engine.library import Library
from muniment_runtime.engine.memory import resident
from muniment_runtime.engine.params import context_params, model_params
from muniment_runtime.engine.tokens import Tokenizer

__all__ = ["Aborted", "LlamaModel"]

_SEQUENCE = 0
_DECODE_OK = 0
_DECODE_NO_ROOM = 1
_DECODE_ABORTED = 2
_ABORT_POLL_S = 0.02
"""The native code asks before every tensor operation, hundreds of times per token; the clock decides when to look."""


class Aborted(Exception):
    """A native call ended early because the caller cancelled."""


class _AbortSwitch:
    """Answers llama.cpp's question "go on?" from the caller's ``cancelled``; never raises into native code."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = 0.0
        self.cancelled: Callable[[], bool] | None = None
        self.error: Exception | None = None

    def ask(self, _data: object) -> bool:
        if self.cancelled is None:
            return False
        now = self._clock()
        if now < self._next_s:
            return False
        self._next_s = now + _ABORT_POLL_S
        try:
            return self.cancelled()
        except Exception as error:  # re-raised by ``evaluate`` once the native call has returned
            self.error = error
            return True


class LlamaModel:
    """A model file loaded with one configuration.

    Args:
        library: The native library.
        path: The GGUF file.
        config: How to run it. ``context`` counts per sequence.
        extra_buffers: Let the processor backend keep weights in a faster layout (copies them: part of the need).
        clock: Seconds for durations.

    Raises:
        KnownError: ``E-MODEL-LOAD`` when the file does not load, ``E-MODEL-MEMORY`` when memory did not suffice.
    """

    def __init__(
        self,
        library: Library,
        path: Path,
        config: RunConfig,
        *,
        extra_buffers: bool = True,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._library = library
        self._api = library.api
        self._model: Any = None
        self._context: Any = None
        self._batch: Any = None
        self._switch = _AbortSwitch(clock)
        # The native side keeps this pointer: it must live as long as the context.
        self._abort = self._api.ggml_abort_callback(self._switch.ask)
        self._position = 0
        before = resident()
        started_s = clock()
        library.forget_errors()
        library.take_sizes()
        try:
            self._model = self._load(path, config, extra_buffers)
            self._context = self._create_context(config)
        except BaseException:
            self.close()
            raise
        self.chunk = int(self._api.llama_n_ubatch(self._context))
        self._batch = self._api.llama_batch_init(self.chunk, 0, 1)
        self.tokenizer = Tokenizer(library, self._api.llama_model_get_vocab(self._model))
        grown = resident().growth_since(before)
        self.facts = LoadedModel(
            model_id=config.model_id,
            context=int(self._api.llama_n_ctx_seq(self._context)),
            sequences=int(self._api.llama_n_seq_max(self._context)),
            vocabulary=self.tokenizer.size,
            load_s=clock() - started_s,
            anonymous_bytes=grown.anonymous_bytes,
            file_bytes=grown.file_bytes,
            reported=_reported(read_buffers(library.take_sizes())),
        )

    @property
    def context(self) -> Any:
        """The native context, for samplers."""
        return self._context

    def evaluate(self, tokens: Sequence[int], *, want_logits: bool, cancelled: Callable[[], bool]) -> None:
        """Append at most ``chunk`` tokens to the sequence and evaluate them.

        Args:
            tokens: Token ids.
            want_logits: Keep the row of the last token for sampling.
            cancelled: Polled inside the native call.

        Raises:
            Aborted: ``cancelled()`` was true; the sequence must be cleared.
            KnownError: ``E-MODEL-CONTEXT`` without room, ``E-MODEL-RUN`` when evaluation failed for good.
        """
        if self._context is None or not 0 < len(tokens) <= self.chunk:
            raise BugError(f"evaluation of {len(tokens)} tokens")
        batch = self._batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = self._position + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = _SEQUENCE
            batch.logits[index] = 0
        batch.logits[len(tokens) - 1] = int(want_logits)
        self._switch.cancelled = cancelled
        self._switch.error = None
        try:
            status = int(self._api.llama_decode(self._context, batch))
        finally:
            self._switch.cancelled = None
        if self._switch.error is not None:
            raise self._switch.error
        if status == _DECODE_ABORTED:
            raise Aborted
        if status == _DECODE_NO_ROOM:
            raise KnownError("E-MODEL-CONTEXT", needed=self._position + len(tokens), context=self.facts.context)
        if status != _DECODE_OK:
            raise KnownError("E-MODEL-RUN", status=status)
        self._position += len(tokens)

    def clear(self, *, erase: bool = False) -> None:
        """Forget the sequence.

        Args:
            erase: Overwrite the whole cache, so that nothing of the text stays in memory (a workspace was left).
        """
        self._position = 0
        memory = self._api.llama_get_memory(self._context)
        self._api.llama_memory_clear(memory, erase)

    def close(self) -> None:
        """Free everything native. Idempotent."""
        if self._batch is not None:
            self._api.llama_batch_free(self._batch)
            self._batch = None
        if self._context is not None:
            self._api.llama_free(self._context)
            self._context = None
        if self._model is not None:
            self._api.llama_model_free(self._model)
            self._model = None

    def _load(self, path: Path, config: RunConfig, extra_buffers: bool) -> Any:
        if not path.is_file():
            raise KnownError("E-MODEL-LOAD", model=config.model_id)
        api = self._api
        params = model_params(api, config, extra_buffers=extra_buffers)
        model = api.llama_model_load_from_file(str(path).encode("utf-8", "surrogateescape"), params)
        if not model:
            raise self._load_error(config)
        return model

    def _create_context(self, config: RunConfig) -> Any:
        params = context_params(self._api, config)
        params.abort_callback = self._abort
        context = self._api.llama_init_from_model(self._model, params)
        if not context:
            raise self._load_error(config)
        return context

    def _load_error(self, config: RunConfig) -> KnownError:
        code = "E-MODEL-MEMORY" if self._library.lacked_memory() else "E-MODEL-LOAD"
        return KnownError(code, model=config.model_id)


def _reported(told: Buffers) -> Need | None:
    """Return the library's own figures of a load; ``None`` when a line that always comes is missing.

    The model's buffers hold the file's mapping and any copies of weights in a faster layout. The process itself is
    not the library's matter, so base and residual are 0.
    """
    if told.model_bytes is None or told.compute_bytes is None or told.output_bytes is None:
        return None
    return Need(
        weights_bytes=told.model_bytes,
        kv_bytes=told.kv_bytes or 0,
        recurrent_bytes=told.recurrent_bytes or 0,
        compute_bytes=told.compute_bytes,
        output_bytes=told.output_bytes,
        base_bytes=0,
        residual_bytes=0,
        basis=NeedBasis.MEASURED,
    )

"""Asks llama.cpp itself what a configuration would take, without allocating it: the dry run.

With ``no_alloc`` the library reads the header, builds every cache and the worst-case graphs, logs their sizes and
allocates none of them (``src/llama-context.cpp``, ``sched_reserve``; ``src/llama-kv-cache.cpp``). Two things it does
allocate for real: the output buffer, a row of logits per sequence, and recurrent state, which is small because such
models run one sequence. Graphs are planned for the processor: ``device_layers`` plays no part.

The faster layouts of weights are left off, because a dry run with them stops the process for latent attention
(``ggml-backend.cpp``, an assertion); their bytes come by rule from the model's tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.contracts import OracleSizes, RunConfig
from muniment_runtime.engine.buffers import Buffers, read_buffers
from muniment_runtime.engine.library import Library
from muniment_runtime.engine.params import context_params

__all__ = ["DryRun"]


class DryRun:
    """A model file loaded without its weights, ready for any number of configurations. Not thread-safe.

    A file on which the library gives up by ending the process ends this process: use it in a child only.

    Args:
        library: The native library.
        path: A GGUF file, real or weightless.
        model_id: For errors.

    Raises:
        KnownError: ``E-PROBE-MODEL`` when the library does not load the file.
    """

    def __init__(self, library: Library, path: Path, model_id: str) -> None:
        self._library = library
        self._api = library.api
        self._model_id = model_id
        params = self._api.llama_model_default_params()
        params.no_alloc = True
        params.n_gpu_layers = 0
        params.use_extra_bufts = False
        # A mapping is something that a run without allocations cannot have (asserted in src/llama-model.cpp).
        params.load_mode = self._api.LLAMA_LOAD_MODE_NONE
        self._model: Any = self._api.llama_model_load_from_file(str(path).encode("utf-8", "surrogateescape"), params)
        if not self._model:
            raise KnownError("E-PROBE-MODEL", model=model_id)

    def sizes(self, config: RunConfig) -> OracleSizes:
        """Return what the library would allocate for one configuration.

        Raises:
            KnownError: ``E-PROBE-CONFIG`` when the library refuses the configuration, ``E-MODEL-MEMORY`` when even
                the small real parts could not be had, ``E-PROBE-OUTPUT`` when a size is missing in its log.
        """
        if self._model is None:
            raise BugError("a closed dry run was asked")
        self._library.forget_errors()
        self._library.take_sizes()
        context = self._api.llama_init_from_model(self._model, context_params(self._api, config))
        if not context:
            raise self._refused(config)
        try:
            remembers = bool(self._api.llama_get_memory(context))
            effective = int(self._api.llama_n_ctx_seq(context))
            sequences = int(self._api.llama_n_seq_max(context))
        finally:
            self._api.llama_free(context)
        return self._complete(read_buffers(self._library.take_sizes()), remembers, effective, sequences)

    def close(self) -> None:
        """Free the model. Idempotent."""
        if self._model is not None:
            self._api.llama_model_free(self._model)
            self._model = None

    def _complete(self, told: Buffers, remembers: bool, context: int, sequences: int) -> OracleSizes:
        compute, output = told.compute_bytes, told.output_bytes
        # A model with memory has a cache, a state or both; one without (an embedding model) has neither.
        silent = remembers and told.kv_bytes is None and told.recurrent_bytes is None
        if compute is None or output is None or silent:
            raise KnownError("E-PROBE-OUTPUT", model=self._model_id)
        return OracleSizes(
            kv_bytes=told.kv_bytes or 0,
            recurrent_bytes=told.recurrent_bytes or 0,
            compute_bytes=compute,
            output_bytes=output,
            weights_bytes=int(self._api.llama_model_size(self._model)),
            context=context,
            sequences=sequences,
        )

    def _refused(self, config: RunConfig) -> KnownError:
        if self._library.lacked_memory():
            return KnownError("E-MODEL-MEMORY", model=self._model_id)
        return KnownError(
            "E-PROBE-CONFIG",
            model=self._model_id,
            context=config.context,
            sequences=config.sequences,
            kv_type=str(config.kv_type),
        )

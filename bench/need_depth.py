"""Fills a loaded model to the end of its context, through the native calls, in the child that is measured."""

from __future__ import annotations

import ctypes
import gc
import mmap
from typing import Any

from bench.need_state import lengthened
from muniment_runtime.engine.llama import LlamaModel

__all__ = ["RestoreRefused", "evaluate_depth", "ordinary_token", "restore_depth"]

_ORDINARY_TOKEN = 300
"""The first ids of most vocabularies are control tokens and single bytes."""


def ordinary_token(position: int, vocabulary: int) -> int:
    """Return some token that is no control token, the same at every call."""
    return _ORDINARY_TOKEN + position * 7919 % (vocabulary - 2 * _ORDINARY_TOKEN)


class RestoreRefused(Exception):
    """The library did not take the lengthened state."""


class _Filler:
    """Appends tokens to any sequence of a loaded model.

    ``LlamaModel`` evaluates one sequence; here all of them share the last batch, as in a busy worker.
    """

    def __init__(self, api: Any, model: LlamaModel) -> None:
        self._api = api
        self._context = model.context
        self._vocabulary = model.tokenizer.size
        self._chunk = model.chunk
        self._batch = api.llama_batch_init(model.chunk, 0, 1)

    def evaluate(self, spans: dict[int, range]) -> None:
        """Evaluate the positions of each sequence in one batch; the last token of each keeps its logits."""
        count = 0
        for sequence, positions in spans.items():
            for position in positions:
                self._batch.token[count] = ordinary_token(position, self._vocabulary)
                self._batch.pos[count] = position
                self._batch.n_seq_id[count] = 1
                self._batch.seq_id[count][0] = sequence
                self._batch.logits[count] = int(position == positions[-1])
                count += 1
        if not 0 < count <= self._chunk:
            raise ValueError(f"a batch of {count} tokens")
        self._batch.n_tokens = count
        status = int(self._api.llama_decode(self._context, self._batch))
        if status != 0:
            raise RuntimeError(f"evaluation ended with {status}")

    def all_together(self, start: int) -> None:
        """Evaluate one full batch in which every sequence goes on at position ``start``."""
        sequences = int(self._api.llama_n_seq_max(self._context))
        share = self._chunk // sequences
        self.evaluate({sequence: range(start, start + share) for sequence in range(sequences)})

    def close(self) -> None:
        self._api.llama_batch_free(self._batch)


def evaluate_depth(api: Any, model: LlamaModel) -> None:
    """Evaluate every token of every sequence: slow, and what the other way is held against."""
    filler = _Filler(api, model)
    before = model.facts.context - model.chunk // model.facts.sequences
    for sequence in range(model.facts.sequences):
        for start in range(0, before, model.chunk):
            filler.evaluate({sequence: range(start, min(start + model.chunk, before))})
    filler.all_together(before)
    filler.close()


def restore_depth(api: Any, model: LlamaModel, beginning: int) -> None:
    """Reach full depth with two short evaluations: of a beginning, and of one batch over all cells.

    The beginning is lengthened to the whole context and restored into every sequence. Then cells in the middle are
    freed, and the batch takes their place while the last cells are still in use: its temporary tensors span the whole
    cache, as at full depth, but the freed cells cost no time. (Positions go on behind the context; they are only
    numbers.) Restored once more, every cell is in use.

    Args:
        api: The native library.
        model: Freshly loaded.
        beginning: Tokens that are evaluated first: a full batch, and more than a sliding window holds.

    Raises:
        RestoreRefused: The library did not take the state.
    """
    filler = _Filler(api, model)
    context, sequences = model.facts.context, range(model.facts.sequences)
    for start in range(0, beginning, model.chunk):
        filler.evaluate({0: range(start, min(start + model.chunk, beginning))})
    size, state = _whole(api, model, context)
    _restore(api, model, size, state)
    memory = api.llama_get_memory(model.context)
    for sequence in sequences:
        # What a sliding window looks at stays, and the first cell.
        if not api.llama_memory_seq_rm(memory, sequence, 1, context - beginning):
            raise RestoreRefused
    filler.all_together(context)
    _restore(api, model, size, state)
    filler.close()
    # The states were private mappings of their own: with their last reference nothing of them is left.
    del state
    gc.collect()


def _whole(api: Any, model: LlamaModel, context: int) -> tuple[int, mmap.mmap]:
    """Return a state of the whole context, made from what the first sequence holds, and its size."""
    saved = _saved(api, model)
    pieces = list(lengthened(memoryview(saved), context))
    size = sum(len(piece) for piece in pieces)
    state = mmap.mmap(-1, size)
    at = 0
    with memoryview(state) as room:
        for piece in pieces:
            room[at : at + len(piece)] = piece
            at += len(piece)
    return size, state


def _restore(api: Any, model: LlamaModel, size: int, state: mmap.mmap) -> None:
    native = (ctypes.c_uint8 * size).from_buffer(state)
    for sequence in range(model.facts.sequences):
        if int(api.llama_state_seq_set_data(model.context, native, size, sequence)) != size:
            raise RestoreRefused


def _saved(api: Any, model: LlamaModel) -> mmap.mmap:
    """Save the first sequence."""
    size = int(api.llama_state_seq_get_size(model.context, 0))
    saved = mmap.mmap(-1, size)
    native = (ctypes.c_uint8 * size).from_buffer(saved)
    if int(api.llama_state_seq_get_data(model.context, native, size, 0)) != size:
        raise RestoreRefused
    return saved

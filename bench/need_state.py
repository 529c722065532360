"""Lengthens the saved state of one sequence, so that a full cache need not be evaluated token by token.

Memory at full depth depends on how many cells are used and on the size of the last batch, not on what the cells hold.
So a few hundred tokens are evaluated for real, their state is saved, its rows are repeated up to the wanted length and
the result is restored. What the model would say after that is meaningless: nothing here looks at it.

Layout, native byte order (``src/llama-context.cpp``, ``state_seq_get_data``; ``src/llama-kv-cache.cpp``,
``state_write``, ``state_write_meta``, ``state_write_data``; ``src/llama-kv-cache-iswa.cpp``, ``state_write``)::

    u32 magic, i32 sequence
    per cache (one, or two with sliding windows: the whole context first, the window second):
        u32 streams
        per stream:
            u32 cells; the rest only when it is not 0
            per cell: i32 position, u32 sequences (1), i32 sequence
            u32 V is transposed, u32 layers
            per layer, K:  i32 type, u64 row bytes, rows
            per layer, V:  the same
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["CellRows", "SavedCache", "lengthened", "parse"]

_START = struct.Struct("=Ii")
_COUNT = struct.Struct("=I")
_CELL = struct.Struct("=iIi")
_KIND = struct.Struct("=II")
_ROWS = struct.Struct("=iQ")


@dataclass(frozen=True)
class CellRows:
    """The rows of K or V of one layer, a row a cell."""

    type_number: int
    row_bytes: int
    rows: memoryview


@dataclass(frozen=True)
class SavedCache:
    """What one cache saved of the sequence.

    Attributes:
        streams: Streams of the cache.
        stream: The one that holds the sequence.
        positions: Position of each cell.
        layers: K of every layer, then V of every layer.
        layer_count: As the blob states it.
    """

    streams: int
    stream: int
    positions: tuple[int, ...]
    layers: tuple[CellRows, ...]
    layer_count: int


class _Reader:
    def __init__(self, blob: memoryview) -> None:
        self._blob = blob
        self.at = 0

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._blob, self.at)
        self.at += layout.size
        return values

    def rows(self, count: int) -> memoryview:
        if self.at + count > len(self._blob):
            raise ValueError("the state ends inside a row")
        self.at += count
        return self._blob[self.at - count : self.at]

    @property
    def done(self) -> bool:
        return self.at == len(self._blob)


def parse(blob: memoryview) -> tuple[bytes, list[SavedCache]]:
    """Split a state into its first bytes and its caches.

    Raises:
        ValueError: The state is laid out otherwise (V transposed, cells shared by sequences, latent attention).
    """
    reader = _Reader(blob)
    reader.take(_START)
    start = bytes(blob[: reader.at])
    caches: list[SavedCache] = []
    while not reader.done:
        caches.append(_cache(reader))
    return start, caches


def _cache(reader: _Reader) -> SavedCache:
    (streams,) = reader.take(_COUNT)
    found: SavedCache | None = None
    for stream in range(streams):
        (cells,) = reader.take(_COUNT)
        if cells == 0:
            continue
        if found is not None:
            raise ValueError("a sequence in two streams")
        positions: list[int] = []
        for _ in range(cells):
            position, sequences, _ = reader.take(_CELL)
            if sequences != 1:
                raise ValueError("a cell of several sequences")
            positions.append(position)
        transposed, layer_count = reader.take(_KIND)
        if transposed:
            raise ValueError("V is transposed")
        layers: list[CellRows] = []
        for _ in range(2 * layer_count):
            type_number, row_bytes = reader.take(_ROWS)
            layers.append(CellRows(type_number, row_bytes, reader.rows(row_bytes * cells)))
        found = SavedCache(streams, stream, tuple(positions), tuple(layers), layer_count)
    if found is None:
        raise ValueError("an empty cache")
    return found


def lengthened(blob: memoryview, length: int) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a state of ``length`` tokens that is made from a shorter one.

    A cache that holds every position grows to ``length`` cells, a window keeps its cells and moves to the end. Both
    can be told apart only if more tokens were evaluated than the window holds.

    Args:
        blob: As saved, of at most ``length`` tokens.
        length: Tokens of the new state; positions are 0 to ``length - 1``.
    """
    start, caches = parse(blob)
    held = max(cache.positions[-1] for cache in caches) + 1
    if held > length:
        raise ValueError(f"{held} tokens are longer than {length}")
    if len(caches) > 1 and any(len(cache.positions) == held for cache in caches[1:]):
        raise ValueError("fewer tokens than the window holds")
    yield start
    for cache in caches:
        whole = len(cache.positions) == held
        cells = length if whole else len(cache.positions)
        positions = range(length) if whole else range(length - cells, length)
        yield _COUNT.pack(cache.streams)
        for stream in range(cache.streams):
            if stream != cache.stream:
                yield _COUNT.pack(0)
                continue
            yield _COUNT.pack(cells)
            yield _cells(positions)
            yield _KIND.pack(0, cache.layer_count)
            for layer in cache.layers:
                yield _ROWS.pack(layer.type_number, layer.row_bytes)
                yield from _repeated(layer, cells)


def _cells(positions: range) -> memoryview:
    """Positions, each of one sequence; its number is ignored when a single sequence is restored."""
    flat = array("i", [0]) * (3 * len(positions))
    flat[0::3] = array("i", positions)
    flat[1::3] = array("i", [1]) * len(positions)
    return memoryview(flat).cast("B")


def _repeated(layer: CellRows, cells: int) -> Iterator[memoryview]:
    left = cells * layer.row_bytes
    while left > 0:
        piece = layer.rows[: min(left, len(layer.rows))]
        yield piece
        left -= len(piece)

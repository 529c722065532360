"""How much memory the temporary tensors of a graph take, found by placing them as the library does.

llama.cpp gives every temporary tensor a place in one buffer before anything is computed, so that tensors which
never live at the same time share bytes. What a graph needs is therefore decided by that placement, gaps between
tensors included. ``Tape`` records a graph; ``Tape.peak`` places it.

Sizes depend on a handful of quantities (``Quantity``): tokens in a batch, cells of the cache, sequences. A size is
a sum of these with fixed factors, and so is the place where a tensor ends. The placement runs with numbers and
carries the factors along; its answer is the peak as such a sum, which holds for all settings around.

Source: ``ggml/src/ggml-alloc.c``: ``ggml_gallocr_alloc_graph_impl`` (order, reference counts),
``ggml_gallocr_allocate_node`` (a result may take over its operand's place), ``ggml_dyn_tallocr_alloc`` (best fit).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

__all__ = ["FACTORS", "Point", "Quantity", "Size", "Tape", "size", "unpacked"]

_BITS: Final = 48
_MASK: Final = (1 << _BITS) - 1

Size = int
"""A size in bytes as factors of the quantities, packed into one integer so that adding two adds all factors."""

Point = tuple[int, ...]
"""A value for each quantity."""


class Quantity(IntEnum):
    """What sizes are made of."""

    ONE = 0
    TOKENS = 1
    """Tokens of one physical batch."""
    GLOBAL = 2
    """Tokens x cells of one stream of the cache."""
    WINDOW = 3
    """Tokens x cells of one stream of the sliding-window cache."""
    SEQUENCES = 4
    ROWS = 5
    """Rows of logits."""
    CELLS = 6
    """Cells of all streams of the cache."""


FACTORS: Final = len(Quantity)


def size(
    *,
    one: int = 0,
    tokens: int = 0,
    global_: int = 0,
    window: int = 0,
    sequences: int = 0,
    rows: int = 0,
    cells: int = 0,
) -> Size:
    """Return a size with these bytes per unit of each quantity."""
    packed = 0
    for factor in (cells, rows, sequences, window, global_, tokens, one):
        packed = packed << _BITS | factor
    return packed


def unpacked(packed: Size) -> tuple[int, ...]:
    """Return the factors in the order of ``Quantity``."""
    return tuple(packed >> _BITS * index & _MASK for index in range(FACTORS))


class Tape:
    """A graph: tensors in the order in which they are computed. Tensors are named by their number."""

    def __init__(self) -> None:
        self._sizes: list[Size] = []
        self._sources: list[tuple[int, ...]] = []
        self._reusable: list[tuple[int, ...]] = []
        self._users: list[int] = []
        self._inputs = 0

    def input(self, bytes_: Size) -> int:
        """Add an input: it exists from the start, before any ``node``, until its last user is done."""
        self._inputs += 1
        return self._add(bytes_, (), ())

    def node(self, bytes_: Size, *sources: int, reuse: Sequence[int] = ()) -> int:
        """Add a result.

        Args:
            bytes_: Its size; 0 for what is written into a cache or a state.
            sources: What it is computed from, directly or through a view, in order, once for each use.
            reuse: Sources whose place it may take over, best first: of equal layout, not seen through a view, and
                the operation is one that may work in place (``ggml_op_can_inplace``).
        """
        return self._add(bytes_, sources, tuple(reuse))

    def follow(self, source: int, *others: int) -> int:
        """Add an element-wise result that takes over its first source's place where nobody else needs it."""
        return self._add(self._sizes[source], (source, *others), (source,))

    def _add(self, bytes_: Size, sources: tuple[int, ...], reusable: tuple[int, ...]) -> int:
        self._sizes.append(bytes_)
        self._sources.append(sources)
        self._reusable.append(reusable)
        self._users.append(0)
        for source in sources:
            self._users[source] += 1
        return len(self._sizes) - 1

    def peak(self, point: Point) -> Size:
        """Place all tensors with the quantities at ``point`` and return where the last byte lies, as factors."""
        arena = _Arena()
        bytes_of = {packed: sum(map(int.__mul__, unpacked(packed), point)) for packed in set(self._sizes)}
        users = list(self._users)
        places: list[tuple[int, Size] | None] = [None] * len(users)
        inputs = 0
        for number, sources in enumerate(self._sources):
            packed = self._sizes[number]
            if number < self._inputs:
                places[number] = arena.take(bytes_of[packed], packed)
                inputs += 1
                continue
            if packed:
                for parent in self._reusable[number]:
                    if users[parent] == 1 and places[parent] is not None:
                        places[number], places[parent] = places[parent], None
                        break
                else:
                    places[number] = arena.take(bytes_of[packed], packed)
            for source in sources:
                users[source] -= 1
                place = places[source]
                if users[source] == 0 and place is not None:
                    arena.give(place, bytes_of[self._sizes[source]])
                    places[source] = None
        return arena.peak


class _Arena:
    """Free blocks in order of their offset. The last one has no end.

    Offsets and lengths are bytes; beside each offset stand the factors that it is made of.
    """

    def __init__(self) -> None:
        self._offsets = [0]
        self._lengths = [1 << 62]
        self._factors: list[Size] = [0]
        self._highest = 0
        self.peak: Size = 0

    def take(self, length: int, packed: Size) -> tuple[int, Size]:
        """Return the place of a new tensor: the smallest gap that fits (the last of equal ones), else the end."""
        chosen, best = len(self._lengths) - 1, 1 << 62
        for index in range(chosen):
            if length <= self._lengths[index] <= best:
                chosen, best = index, self._lengths[index]
        offset, factors = self._offsets[chosen], self._factors[chosen]
        if self._lengths[chosen] == length:
            del self._offsets[chosen], self._lengths[chosen], self._factors[chosen]
        else:
            self._offsets[chosen] = offset + length
            self._lengths[chosen] -= length
            self._factors[chosen] = factors + packed
        if offset + length > self._highest:
            self._highest = offset + length
            self.peak = factors + packed
        return offset, factors

    def give(self, place: tuple[int, Size], length: int) -> None:
        """Free a place and join it with its neighbours."""
        offset, factors = place
        offsets, lengths = self._offsets, self._lengths
        after = 0
        while offsets[after] < offset:
            after += 1
        joins_after = offset + length == offsets[after]
        if after and offsets[after - 1] + lengths[after - 1] == offset:
            lengths[after - 1] += length
            if joins_after:
                lengths[after - 1] += lengths[after]
                del offsets[after], lengths[after], self._factors[after]
        elif joins_after:
            offsets[after], self._factors[after] = offset, factors
            lengths[after] += length
        else:
            offsets.insert(after, offset)
            lengths.insert(after, length)
            self._factors.insert(after, factors)

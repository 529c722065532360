"""The append-only Merkle tree of RFC 6962 section 2.1 (unchanged in RFC 9162): roots and proofs. Pure.

Leaves are given as leaf hashes (32 bytes each), so that the data itself need not be at hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from muniment_resources.errors import BugError

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "Frontier",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "tree_root",
    "verify_consistency",
    "verify_inclusion",
]

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return SHA-256(0x00 || data)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class Frontier:
    """The roots of the full subtrees that make up a tree: all that appending needs.

    Attributes:
        size: Number of leaves.
        hashes: One hash for each bit set in ``size``, largest (leftmost) subtree first.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.hashes) != self.size.bit_count():
            raise BugError("frontier does not fit its size")

    def append(self, leaf: bytes) -> Frontier:
        """Return the frontier with one more leaf hash; O(log n)."""
        hashes = list(self.hashes)
        size = self.size
        while size & 1:
            leaf = node_hash(hashes.pop(), leaf)
            size >>= 1
        return Frontier(self.size + 1, (*hashes, leaf))

    def root(self) -> bytes:
        """Return the tree's root hash."""
        if not self.hashes:
            return EMPTY_ROOT
        root = self.hashes[-1]
        for left in reversed(self.hashes[:-1]):
            root = node_hash(left, root)
        return root

    def to_bytes(self) -> bytes:
        """Return size (8 bytes, big endian) and hashes, for storage."""
        return self.size.to_bytes(8, "big") + b"".join(self.hashes)

    @staticmethod
    def from_bytes(data: bytes) -> Frontier:
        """Read what ``to_bytes`` wrote.

        Raises:
            ValueError: The length does not fit the size.
        """
        size = int.from_bytes(data[:8], "big")
        if len(data) != 8 + HASH_BYTES * size.bit_count():
            raise ValueError("stored frontier is damaged")
        return Frontier(size, tuple(data[at : at + HASH_BYTES] for at in range(8, len(data), HASH_BYTES)))


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    return frontier.root()


def _split(size: int) -> int:
    """Return the largest power of two smaller than ``size`` (which is at least 2)."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of leaf ``index``, from leaf to root (RFC 6962 section 2.1.1).

    Raises:
        BugError: No such leaf.
    """
    if not 0 <= index < len(leaves):
        raise BugError("no such leaf")
    path: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low = middle
    path.reverse()
    return path


def consistency_proof(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """Return the proof that the tree of the first ``first`` leaves is a prefix of this one (section 2.1.2).

    Raises:
        BugError: ``first`` is negative or larger than the tree.
    """
    if not 0 <= first <= len(leaves):
        raise BugError("no such earlier tree")
    if first in (0, len(leaves)):
        return []
    proof: list[bytes] = []
    low, high, whole = 0, len(leaves), True
    while first < high:
        middle = low + _split(high - low)
        if first <= middle:
            proof.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            proof.append(tree_root(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        proof.append(tree_root(leaves[low:high]))
    proof.reverse()
    return proof


def _well_formed(*hashes: bytes) -> bool:
    return all(len(item) == HASH_BYTES for item in hashes)


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Tell whether ``proof`` shows leaf hash ``leaf`` at ``index`` of the tree (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size or not _well_formed(leaf, root, *proof):
        return False
    position, last, running = index, size - 1, leaf
    for item in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            running = node_hash(item, running)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            running = node_hash(running, item)
        position >>= 1
        last >>= 1
    return last == 0 and running == root


def verify_consistency(first: int, second: int, first_root: bytes, second_root: bytes, proof: Sequence[bytes]) -> bool:
    """Tell whether ``proof`` links two trees (RFC 9162 section 2.1.4.2).

    An empty first tree is a prefix of any tree: its proof must be empty and its root the empty root.
    """
    if not 0 <= first <= second or not _well_formed(first_root, second_root, *proof):
        return False
    if first == second:
        return not proof and first_root == second_root
    if first == 0:
        return not proof and first_root == EMPTY_ROOT
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    if not path:
        return False
    position, last = first - 1, second - 1
    while position & 1:
        position >>= 1
        last >>= 1
    old = new = path[0]
    for item in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            old = node_hash(item, old)
            new = node_hash(item, new)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            new = node_hash(new, item)
        position >>= 1
        last >>= 1
    return last == 0 and old == first_root and new == second_root

"""The tree against a second implementation, written from the words of RFC 6962 section 2.1."""

from __future__ import annotations

import hashlib

import pytest

from muniment_app.audit.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    tree_root,
    verify_consistency,
    verify_inclusion,
)
from muniment_resources.errors import BugError

DATA = [bytes([n]) * (n % 5) for n in range(20)]
LEAVES = [leaf_hash(item) for item in DATA]


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def largest_power_below(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def mth(items: list[bytes]) -> bytes:
    if not items:
        return sha(b"")
    if len(items) == 1:
        return sha(b"\x00" + items[0])
    k = largest_power_below(len(items))
    return sha(b"\x01" + mth(items[:k]) + mth(items[k:]))


def path(m: int, items: list[bytes]) -> list[bytes]:
    if len(items) == 1:
        return []
    k = largest_power_below(len(items))
    if m < k:
        return [*path(m, items[:k]), mth(items[k:])]
    return [*path(m - k, items[k:]), mth(items[:k])]


def subproof(m: int, items: list[bytes], complete: bool) -> list[bytes]:
    if m == len(items):
        return [] if complete else [mth(items)]
    k = largest_power_below(len(items))
    if m <= k:
        return [*subproof(m, items[:k], complete), mth(items[k:])]
    return [*subproof(m - k, items[k:], False), mth(items[:k])]


def test_roots_are_those_of_the_definition() -> None:
    assert mth([]) == EMPTY_ROOT == Frontier().root() == tree_root([])
    frontier = Frontier()
    for size in range(1, len(DATA) + 1):
        frontier = frontier.append(LEAVES[size - 1])
        assert frontier.root() == tree_root(LEAVES[:size]) == mth(DATA[:size])
        assert Frontier.from_bytes(frontier.to_bytes()) == frontier


@pytest.mark.parametrize("damaged", [b"", b"\x00" * 7, Frontier().append(LEAVES[0]).to_bytes()[:-1], b"\x00" * 40])
def test_damaged_frontier_is_refused(damaged: bytes) -> None:
    with pytest.raises((ValueError, BugError)):
        Frontier.from_bytes(damaged)


def test_inclusion_proofs_are_those_of_the_definition_and_nothing_else_verifies() -> None:
    for size in range(1, len(DATA) + 1):
        root = mth(DATA[:size])
        for index in range(size):
            proof = inclusion_proof(LEAVES[:size], index)
            assert proof == path(index, DATA[:size])
            assert verify_inclusion(LEAVES[index], index, size, proof, root)
            wrong = [
                (LEAVES[index], index + 1, size, proof, root),
                (LEAVES[index], -1, size, proof, root),
                (LEAVES[index], size, size, proof, root),
                (sha(LEAVES[index]), index, size, proof, root),
                (LEAVES[index], index, size, proof, sha(root)),
                (LEAVES[index], index, size, [*proof, root], root),
                (LEAVES[index], index, size, [root, *proof], root),
                (LEAVES[index], index, size, [item[:-1] for item in proof] or [b""], root),
                (LEAVES[index], index, 0, proof, root),
            ]
            if proof:
                wrong += [
                    (LEAVES[index], index, size, proof[:-1], root),
                    (LEAVES[index], index, size, proof[1:], root),
                    (LEAVES[index], index, size, [], root),
                    (LEAVES[index], index, size, [sha(proof[0]), *proof[1:]], root),
                ]
            assert [case for case in wrong if verify_inclusion(*case)] == []


def test_consistency_proofs_are_those_of_the_definition_and_nothing_else_verifies() -> None:
    for size in range(1, len(DATA) + 1):
        root = mth(DATA[:size])
        for first in range(1, size + 1):
            old = mth(DATA[:first])
            proof = consistency_proof(LEAVES[:size], first)
            assert proof == subproof(first, DATA[:size], True)
            assert verify_consistency(first, size, old, root, proof)
            wrong = [
                (first, size, sha(old), root, proof),
                (first, size, old, sha(root), proof),
                (first, size, old, root, [*proof, root]),
                (size + 1, size, old, root, proof),
                (-1, size, old, root, proof),
            ]
            if first != size:
                wrong += [
                    (first, size, root, old, proof),
                    (first - 1, size, old, root, proof),
                    (first, size, old, root, proof[:-1]),
                    (first, size, old, root, proof[1:]),
                    (first, size, old, root, [sha(proof[0]), *proof[1:]]),
                ]
            assert [case for case in wrong if verify_consistency(*case)] == []


def test_an_empty_tree_is_the_prefix_of_any() -> None:
    assert verify_consistency(0, 3, EMPTY_ROOT, tree_root(LEAVES[:3]), [])
    assert not verify_consistency(0, 3, LEAVES[0], tree_root(LEAVES[:3]), [])
    assert not verify_consistency(0, 3, EMPTY_ROOT, tree_root(LEAVES[:3]), [LEAVES[0]])


def test_asking_for_what_is_not_there_is_a_bug() -> None:
    for index in (20, -1):
        with pytest.raises(BugError):
            inclusion_proof(LEAVES, index)
    for first in (21, -1):
        with pytest.raises(BugError):
            consistency_proof(LEAVES, first)

"""Whatever is recorded and erased in whatever order verifies; canonical bytes and proofs hold for any input."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muniment_app.audit.canonical import INT_MAX, Json, NotCanonicalError, canonicalize, parse
from muniment_app.audit.events import EventType
from muniment_app.audit.export import export_bundle
from muniment_app.audit.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    tree_root,
    verify_consistency,
    verify_inclusion,
)
from muniment_app.audit.note import Ed25519Signer, NoteError, open_checkpoint, sign_checkpoint
from muniment_app.audit.verify import verify_log
from muniment_resources.i18n import Translator
from muniment_resources.verify.verify import VALID, check_bundle, read_bundle, read_json
from tests.helpers.audit_logs import open_log

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-INT_MAX, INT_MAX) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_LEAVES = st.lists(st.binary(max_size=4).map(leaf_hash), min_size=1, max_size=70)
_SIGNER = Ed25519Signer(b"p" * 32)
_NOTE = sign_checkpoint("ab" * 16, 300, b"r" * 32, _SIGNER)


@given(_VALUES)
def test_canonical_bytes_come_back_and_are_the_only_spelling(value: Json) -> None:
    body = canonicalize(value)
    assert parse(body) == value
    assert body == rfc8785.dumps(value)
    for other in (json.dumps(value, indent=1).encode(), body + b" ", json.dumps(value).encode()):
        if other != body:
            with pytest.raises(NotCanonicalError):
                parse(other)


def _for_everybody(value: Json) -> bool:
    """Tell whether the stand-alone reader takes the value inside an object: it wants ASCII keys."""
    if isinstance(value, dict):
        return all(key.isascii() and _for_everybody(item) for key, item in value.items())
    return not isinstance(value, list) or all(_for_everybody(item) for item in value)


@given(st.binary(max_size=60) | _VALUES.map(lambda value: json.dumps({"a": value}, ensure_ascii=False).encode()))
@example(b'{"a":9007199254740991}')
@example(b'{"a":9007199254740992}')
@example(b'{"a":-9007199254740992}')
@example(b'{"a":1,"a":1}')
@example(b'{"a":-0}')
@example(b'{"a":1.0}')
@example(b'{"a":"\\ud800"}')
def test_two_readers_agree_on_any_bytes(body: bytes) -> None:
    try:
        value = parse(body)
        accepted = isinstance(value, dict) and _for_everybody(value)
    except NotCanonicalError:
        value, accepted = None, False
    try:
        alone: object = read_json(body)
    except ValueError:
        assert not accepted
    else:
        assert accepted
        assert alone == value


@given(_LEAVES, st.data())
def test_proofs_of_any_tree_verify(leaves: list[bytes], data: st.DataObject) -> None:
    root = tree_root(leaves)
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    assert Frontier.from_bytes(frontier.to_bytes()).root() == root
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof = inclusion_proof(leaves, index)
    assert verify_inclusion(leaves[index], index, len(leaves), proof, root)
    first = data.draw(st.integers(1, len(leaves)))
    linked = consistency_proof(leaves, first)
    assert verify_consistency(first, len(leaves), tree_root(leaves[:first]), root, linked)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        bit = data.draw(st.integers(0, 255))
        flipped = bytearray(proof[at])
        flipped[bit // 8] ^= 1 << bit % 8
        assert not verify_inclusion(
            leaves[index], index, len(leaves), [*proof[:at], bytes(flipped), *proof[at + 1 :]], root
        )


@given(st.integers(0, len(_NOTE)), st.integers(0, len(_NOTE)), st.binary(max_size=6))
def test_a_note_with_any_piece_replaced_does_not_open(start: int, end: int, piece: bytes) -> None:
    changed = _NOTE[:start] + piece + _NOTE[max(start, end) :]
    if changed == _NOTE:
        assert open_checkpoint(changed, "ab" * 16, _SIGNER.public_key).size == 300
        return
    with pytest.raises(NoteError):
        open_checkpoint(changed, "ab" * 16, _SIGNER.public_key)


_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.dictionaries(st.sampled_from(["answer", "quote.1", "question"]), st.text(max_size=30))
        ),
        st.tuples(st.just("redact"), st.integers(0, 12)),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(_STEPS)
def test_any_history_verifies_here_and_elsewhere(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = open_log(folder / "w")
        kept: dict[int, set[str]] = {}
        total = 0
        for step, argument in steps:
            if step == "append":
                assert isinstance(argument, dict)
                seq = log.append(EventType.ANSWER_COMPLETED, {"n": len(argument)}, argument).seq
                kept[seq] = set(argument)
                total += len(argument)
            elif step == "redact":
                assert isinstance(argument, int)
                log.redact(argument, "request")
                kept.pop(argument, None)
            elif step == "checkpoint":
                log.checkpoint()
            else:
                log.close()
                log = open_log(folder / "w")
        left = sum(len(fields) for fields in kept.values())
        report = verify_log(log)
        assert (report.problem, report.redacted) == (None, total - left)
        result = check_bundle(read_bundle(export_bundle(log, folder, "all", Translator("en"))))
        assert (result.code, result.problem) == (VALID, "")
        assert (result.opened, result.closed, result.events) == (left, total - left, report.events + 1)
        log.close()

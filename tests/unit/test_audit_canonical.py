"""One value, one spelling: the RFC 8785 examples without fractions, and everything that is refused."""

from __future__ import annotations

import pytest

from muniment_app.audit.canonical import INT_MAX, Json, NotCanonicalError, canonicalize, parse
from muniment_resources.errors import BugError


def test_examples_of_the_rfc() -> None:
    literals: Json = {"literals": [None, True, False], "string": '\u20ac$\u000f\nA\'B"\\\\"/'}
    text = '{"literals":[null,true,false],"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert canonicalize(literals) == text.encode()
    keys: Json = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    body = canonicalize(keys)
    order = parse(body)
    assert isinstance(order, dict)
    # By UTF-16 units: the emoji's surrogates come before the Hebrew letter.
    assert list(order) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [0.5, 1.0, float("nan"), INT_MAX + 1, -INT_MAX - 1, "\ud800", {"\udfff": 1}, b"x"])
def test_values_without_a_place_in_an_event_are_bugs(value: object) -> None:
    with pytest.raises(BugError) as caught:
        canonicalize({"a": [value]})  # type: ignore[list-item]  # the wrong types are the test
    assert repr(value) not in str(caught.value)


def test_depth_is_limited_both_ways() -> None:
    deep: Json = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(BugError):
        canonicalize(deep)
    for depth in (40, 200_000):
        with pytest.raises(NotCanonicalError):
            parse(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a":1,"a":1}',
        b'{"a":1, "b":2}',
        b'{"b":1,"a":2}',
        b'{"a":1}\n',
        b' {"a":1}',
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":-0}',
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":9007199254740992}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\\u000A"}',
        b"\xef\xbb\xbf{}",
        b"9" * 5000,
    ],
)
def test_other_spellings_are_refused(body: bytes) -> None:
    with pytest.raises(NotCanonicalError):
        parse(body)


def test_limits_pass() -> None:
    assert parse(canonicalize({"a": INT_MAX, "b": -INT_MAX})) == {"a": INT_MAX, "b": -INT_MAX}

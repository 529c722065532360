#!/usr/bin/env python3
"""Checks an audit bundle of Muniment without Muniment: one file, the Python 3.11 standard library, no network.

    python3 verify.py [BUNDLE] [--key VERIFIER_KEY]

BUNDLE is the zip file or the folder it was unpacked to; by default the folder that this file lies in. Without
``--key`` the bundle is checked against the key inside it: compare the printed key with the one that the sender
gave you another way. SPEC.md describes the format; each check below names its section.

Exit codes: 0 valid, 1 tampered, 2 incomplete, 3 unreadable.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["Finding", "Result", "check_bundle", "check_log", "ed25519_verify", "main", "read_bundle"]

VALID, TAMPERED, INCOMPLETE, UNREADABLE = 0, 1, 2, 3
WORDS = ("VALID", "TAMPERED", "INCOMPLETE", "UNREADABLE")
FIXED_FILES = ("SPEC.md", "events.csv", "events.jsonl", "keys.json", "openings.jsonl", "report.html", "verify.py")
EVENT_KEYS = ["actor", "app_ver", "boot", "commit", "data", "id", "log", "mono", "prev", "seq", "ts", "type", "v", "ws"]
SEALING = {"app.started", "app.stopped", "audit.checkpoint", "audit.exported", "redaction.done"}
CHECKPOINT_EVENTS = 256
LOG_ID = re.compile(r"[0-9a-f]{32}")
HEX_32 = re.compile(r"[0-9a-f]{64}")
NOTE_NAME = re.compile(r"checkpoints/[0-9]{12}\.note")
Verify = Callable[[bytes, bytes, bytes], bool]


class Finding(Exception):
    """The first thing that is wrong, with the index of the first event that cannot be relied on, if it is known."""

    def __init__(self, code: int, problem: str, first_bad: int | None = None) -> None:
        super().__init__(problem)
        self.code, self.problem, self.first_bad = code, problem, first_bad


@dataclass
class Result:
    """What was found. ``closed`` counts sensitive fields whose text is not in the bundle."""

    code: int = VALID
    problem: str = ""
    first_bad: int | None = None
    events: int = 0
    checkpoints: int = 0
    opened: int = 0
    closed: int = 0
    openings: str = ""
    key: str = ""


# --- Ed25519 (RFC 8032 section 5.1), points in extended coordinates (x, y, z, x*y/z) --------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]
ZERO: Point = (0, 1, 1, 0)


def _add(a: Point, b: Point) -> Point:
    """Return a + b by the complete formulas of section 5.1.4, which also double."""
    low, high = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    c, d = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = high - low, d - c, d + c, high + low
    return e * f % P, g * h % P, f * g % P, e * h % P


def _decode_point(data: bytes) -> Point | None:
    """Return the point (section 5.1.3), ``None`` when there is none or it is not spelled canonically."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQRT_MINUS_1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _encode_point(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = _decode_point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def ed25519_verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether the signature is right (section 5.1.7): R == [S]B - [k]A, S below the group order."""
    point = _decode_point(public_key) if len(public_key) == 32 and len(signature) == 64 else None
    s = int.from_bytes(signature[32:], "little")
    if point is None or BASE is None or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    minus: Point = (P - point[0], point[1], 1, P - point[3])
    # One pass over the bits of both factors; nothing here is secret, so time may depend on them.
    terms = {(1, 0): BASE, (0, 1): minus, (1, 1): _add(BASE, minus)}
    total = ZERO
    for bit in range(252, -1, -1):
        total = _add(total, total)
        step = terms.get((s >> bit & 1, k >> bit & 1))
        total = total if step is None else _add(total, step)
    return _encode_point(total) == signature[:32]


# --- Merkle tree (RFC 6962 section 2.1) ----------------------------------------------------------------------


class Tree:
    """Roots of the full subtrees so far, largest first: enough to add leaves and to know the root."""

    def __init__(self) -> None:
        self.size = 0
        self.hashes: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        size = self.size
        while size & 1:
            leaf = hashlib.sha256(b"\x01" + self.hashes.pop() + leaf).digest()
            size >>= 1
        self.hashes.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of a tree that is not empty."""
        root = self.hashes[-1]
        for left in reversed(self.hashes[:-1]):
            root = hashlib.sha256(b"\x01" + left + root).digest()
        return root


# --- Strict reading ------------------------------------------------------------------------------------------


def require(condition: bool) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError


def _refuse(_text: str) -> NoReturn:
    raise ValueError


def _integer(text: str) -> int:
    require(-(2**53) < int(text) < 2**53)
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # RFC 8785 sorts keys by UTF-16 units; for ASCII keys, the only ones in use, that is Python's order.
    require(len(dict(pairs)) == len(pairs) and all(key.isascii() for key, _ in pairs))
    return dict(pairs)


def read_json(data: bytes) -> dict[str, Any]:
    """Return an object whose bytes are exactly its RFC 8785 form; no fractions (SPEC section 2); else ValueError."""
    try:
        text = data.decode()
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse
        )
        again = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError as error:
        raise ValueError from error
    require(again == data and isinstance(value, dict))
    return dict(value)


def read_document(data: bytes) -> dict[str, Any]:
    """Return the object of a file that holds one canonical line; else ValueError."""
    require(data.endswith(b"\n"))
    return read_json(data[:-1])


def read_lines(files: Mapping[str, bytes], name: str) -> Iterator[bytes]:
    """Return the lines of a file; each must end in a newline."""
    lines = files[name].split(b"\n")
    if lines.pop() != b"":
        raise Finding(TAMPERED, f"{name} does not end in a newline")
    return iter(lines)


def read_base64(text: str) -> bytes:
    """Return the bytes of base64 that is spelled the one canonical way; else ValueError."""
    data = base64.b64decode(text, validate=True)
    require(base64.b64encode(data).decode() == text)
    return data


@dataclass(frozen=True)
class Key:
    """The key of the log: its name and id as they stand in notes, and the raw public key."""

    log: str
    name: str
    key_id: bytes
    public: bytes
    text: str


def read_key(data: bytes) -> Key:
    """Read ``keys.json`` (SPEC section 5)."""
    try:
        value = read_document(data)
        log, text = value["log"], value["verifier"]
        name, key_id, encoded = text.split("+", 2)
        blob = read_base64(encoded)
        right_id = hashlib.sha256(name.encode() + b"\n" + blob).digest()[:4]
        require(set(value) == {"log", "v", "verifier"} and value["v"] == 1)
        # Plain hex only: this text is printed.
        require(bool(LOG_ID.fullmatch(log)) and name == f"local/muniment/{log}" and key_id == right_id.hex())
        require(len(blob) == 33 and blob[0] == 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Finding(TAMPERED, "keys.json is not well formed") from error
    return Key(log, name, right_id, blob[1:], text)


def open_note(note: bytes, key: Key, verify: Verify) -> list[str]:
    """Return the lines of a note that this key signed, and nobody else (SPEC section 4); else ValueError."""
    text, _, line = note.decode().rpartition("\n\n")
    prefix = f"\u2014 {key.name} "
    require(line.startswith(prefix) and line.endswith("\n"))
    require("\n\n" not in text and all(ord(char) >= 32 or char == "\n" for char in text))
    blob = read_base64(line[len(prefix) : -1])
    require(len(blob) == 68 and blob[:4] == key.key_id and verify(key.public, f"{text}\n".encode(), blob[4:]))
    return text.split("\n")


def read_checkpoint(name: str, note: bytes, key: Key, verify: Verify) -> tuple[int, bytes]:
    """Return (size, root) of a signed checkpoint."""
    try:
        origin, size_text, root_text = open_note(note, key, verify)
        size, root = int(size_text), read_base64(root_text)
        require(origin == key.name and size > 0 and str(size) == size_text and len(root) == 32)
        require(name == f"checkpoints/{size:012d}.note")
    except ValueError as error:
        raise Finding(TAMPERED, f"{name} does not verify") from error
    return size, root


# --- The checks ----------------------------------------------------------------------------------------------


def check_event(line: bytes, index: int, key: Key, previous: str) -> dict[str, Any]:
    """Check what one event says about itself (SPEC section 2)."""
    try:
        event = read_json(line)
        # Canonical JSON is sorted, so the keys come in this order.
        require(list(event) == EVENT_KEYS and event["v"] == 1 and isinstance(event["data"], dict))
        require(all(HEX_32.fullmatch(value) for value in event["commit"].values()))
    except (ValueError, TypeError, AttributeError) as error:
        raise Finding(TAMPERED, "an event is not well formed", index) from error
    if type(event["seq"]) is not int or event["seq"] != index or event["log"] != key.log or event["prev"] != previous:
        raise Finding(TAMPERED, "an event is missing, repeated, moved or from another log", index)
    return event


def check_log(files: Mapping[str, bytes], key: Key, result: Result, verify: Verify = ed25519_verify) -> None:
    """Check events, tree, checkpoints and openings (SPEC sections 2, 3, 4 and 6).

    Raises:
        Finding: The first thing that is wrong.
    """
    roots = dict(read_checkpoint(name, files[name], key, verify) for name in sorted(files) if NOTE_NAME.fullmatch(name))
    tree, previous, covered, events = Tree(), "0" * 64, 0, []
    for index, line in enumerate(read_lines(files, "events.jsonl")):
        event = check_event(line, index, key, previous)
        leaf = hashlib.sha256(b"\x00" + line).digest()
        tree.add(leaf)
        previous = leaf.hex()
        events.append(event)
        if tree.size in roots:
            if tree.root() != roots[tree.size]:
                raise Finding(TAMPERED, "the events are not those that were signed", covered)
            covered = tree.size
        elif event["type"] in SEALING or tree.size % CHECKPOINT_EVENTS == 0:
            raise Finding(TAMPERED, "a checkpoint is missing", covered)
    result.events, result.checkpoints = tree.size, len(roots)
    if any(size > tree.size for size in roots):
        raise Finding(TAMPERED, "events are missing at the end", tree.size)
    if covered != tree.size or not events:
        raise Finding(INCOMPLETE, "the last events are not covered by a checkpoint", covered)
    check_openings(files, events, result)


def check_openings(files: Mapping[str, bytes], events: Sequence[dict[str, Any]], result: Result) -> None:
    """Check each opening against its commitment; one that is left out must have been redacted (SPEC section 6)."""
    opened: set[tuple[int, str]] = set()
    last = (-1, "")
    for line in read_lines(files, "openings.jsonl"):
        try:
            value = read_json(line)
            place = (value["event"], value["field"])
            require(list(value) == ["event", "field", "salt", "text"] and type(place[0]) is int and place > last)
            require(bool(HEX_32.fullmatch(value["salt"])))
            message = place[1].encode() + b"\x00" + value["text"].encode()
            digest = hmac.new(bytes.fromhex(value["salt"]), message, hashlib.sha256).hexdigest()
            require(place[0] >= 0 and digest == events[place[0]]["commit"][place[1]])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise Finding(TAMPERED, "the text of a field is not what the event commits to") from error
        opened.add(place)
        last = place
    done = [event for event in events if event["type"] == "redaction.done"]
    # By JSON value, not by Python value, so that whatever stands there can be a key.
    redacted = {json.dumps(event["data"].get("event")): event["seq"] for event in done}
    for event in events:
        closed = [field for field in event["commit"] if (event["seq"], field) not in opened]
        result.closed += len(closed)
        if result.openings == "all" and closed and redacted.get(str(event["seq"]), -1) <= event["seq"]:
            raise Finding(TAMPERED, "the text of a field is gone without a record of its redaction", event["seq"])
    result.opened = len(opened)


def check_manifest(files: Mapping[str, bytes], manifest: Mapping[str, Any], key: Key, verify: Verify) -> None:
    """Check that the bundle holds exactly the files that were signed (SPEC section 7)."""
    digest = hashlib.sha256(files["manifest.json"]).hexdigest()
    try:
        signed = open_note(files["manifest.note"], key, verify)
    except ValueError as error:
        raise Finding(TAMPERED, "manifest.note does not verify") from error
    if signed != ["muniment audit bundle", key.log, digest] or manifest["log"] != key.log:
        raise Finding(TAMPERED, "manifest.json is not the one that was signed")
    listed = manifest["files"]
    missing = sorted(set(listed) - set(files))
    if missing:
        raise Finding(INCOMPLETE, f"{missing[0]!a} is missing")
    for name in sorted(set(files) - {"manifest.json", "manifest.note"}):
        if hashlib.sha256(files[name]).hexdigest() != listed.get(name):
            raise Finding(TAMPERED, f"{name!a} is not what was exported")


def _check_bundle(files: Mapping[str, bytes], expected_key: str, verify: Verify, result: Result) -> None:
    for name in (*FIXED_FILES, "manifest.json", "manifest.note"):
        if name not in files:
            raise Finding(INCOMPLETE, f"{name} is missing")
    key = read_key(files["keys.json"])
    result.key = key.text
    if expected_key not in ("", key.text):
        raise Finding(TAMPERED, "the bundle is signed with another key than the one given")
    try:
        manifest = read_document(files["manifest.json"])
        require(list(manifest) == ["files", "log", "openings", "v"] and isinstance(manifest["files"], dict))
        require(manifest["v"] == 1 and manifest["openings"] in ("all", "none"))
    except ValueError as error:
        raise Finding(TAMPERED, "manifest.json is not well formed") from error
    result.openings = manifest["openings"]
    # The log first: it can name the event, where the manifest can only name the file.
    check_log(files, key, result, verify)
    check_manifest(files, manifest, key, verify)


def check_bundle(files: Mapping[str, bytes], expected_key: str = "", verify: Verify = ed25519_verify) -> Result:
    """Check a whole bundle, given as file name to content. Never raises for what the files hold."""
    result = Result()
    try:
        _check_bundle(files, expected_key, verify, result)
    except Finding as finding:
        result.code, result.problem, result.first_bad = finding.code, finding.problem, finding.first_bad
    return result


# --- Files and the command line ------------------------------------------------------------------------------


def read_bundle(path: Path) -> dict[str, bytes]:
    """Return the files of a zip file or folder by name.

    Raises:
        Finding: It cannot be read, or holds something that a bundle never holds.
    """
    try:
        if path.is_dir():
            found = sorted(item for item in path.rglob("*") if item.is_symlink() or not item.is_dir())
            if any(item.is_symlink() for item in found):
                raise Finding(TAMPERED, "the folder holds a link")
            return {item.relative_to(path).as_posix(): item.read_bytes() for item in found}
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) != len(entries):
                raise Finding(TAMPERED, "the zip file holds two files of one name")
            if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
                raise Finding(TAMPERED, "the zip file holds compressed or encrypted files")
            try:
                return {entry.filename: archive.read(entry) for entry in entries}
            except zipfile.BadZipFile as error:
                raise Finding(TAMPERED, "a file inside the zip file is damaged") from error
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise Finding(UNREADABLE, f"cannot be read: {type(error).__name__}") from error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with 3: argparse's own 2 means incomplete here."""
        self.exit(UNREADABLE, f"{message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a bundle, write what was found and return the exit code."""
    parser = _Parser(description="Checks an audit bundle of Muniment.")
    parser.add_argument("bundle", nargs="?", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--key", default="", help="the key that the sender gave you another way")
    options = parser.parse_args(arguments)
    try:
        result = check_bundle(read_bundle(options.bundle), options.key)
    except Finding as finding:
        result = Result(finding.code, finding.problem)
    lines = [f"{WORDS[result.code]}{': ' if result.problem else ''}{result.problem}"]
    if result.first_bad is not None:
        lines.append(f"first event that cannot be relied on: {result.first_bad}")
    lines.append(f"events: {result.events}")
    lines.append(f"checkpoints: {result.checkpoints}")
    lines.append(f"sensitive fields with text: {result.opened}")
    if result.openings == "all":
        lines.append(f"redacted fields: {result.closed}")
    else:
        lines.append(f"fields without text (left out or redacted): {result.closed}")
    lines.append(f"key: {result.key}")
    if result.code == VALID and not options.key:
        lines.append("Compare this key with the one that the sender gave you another way, or use --key.")
    sys.stdout.write("\n".join(lines) + "\n")
    return result.code


if __name__ == "__main__":
    sys.exit(main())

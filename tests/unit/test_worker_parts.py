"""Pure parts around child processes: classification, restart budget, environment, filter program."""

from __future__ import annotations

import struct

import pytest

from muniment_resources.i18n import Translator
from muniment_runtime.worker.budget import RestartBudget
from muniment_runtime.worker.host import traceback_without_values
from muniment_runtime.worker.kernel import build_filter
from muniment_runtime.worker.outcome import Cause, classify
from muniment_runtime.worker.spawn import child_environment


@pytest.mark.parametrize(
    ("returncode", "stderr", "requested", "cause"),
    [
        (-9, b"", False, Cause.OUT_OF_MEMORY),
        (-9, b"", True, Cause.STOPPED),
        (-15, b"", True, Cause.STOPPED),
        (-4, b"", False, Cause.ILLEGAL_INSTRUCTION),
        (-11, b"", False, Cause.CRASH),
        (-6, b"ggml_backend: failed to allocate buffer", False, Cause.OUT_OF_MEMORY),
        (-6, b"GGML_ASSERT", False, Cause.CRASH),
        (1, b"MemoryError", False, Cause.OUT_OF_MEMORY),
        (1, b"", False, Cause.EXIT),
        (0, b"", False, Cause.EXIT),
        (-1073741819, b"", False, Cause.CRASH),
        (-1073741795, b"", False, Cause.ILLEGAL_INSTRUCTION),
        (-1073741801, b"", False, Cause.OUT_OF_MEMORY),
    ],
)
def test_end_of_a_child_is_classified(returncode: int, stderr: bytes, requested: bool, cause: Cause) -> None:
    assert classify(returncode, stderr, requested=requested).cause is cause


def test_own_reason_wins_and_control_characters_vanish() -> None:
    outcome = classify(-9, b"a\x1b[31mb\r\n\xe2\x80\xaec\xe4\xbd\xa0", requested=False, reason=Cause.HANG)
    assert outcome.cause is Cause.HANG
    assert outcome.signal_name == "SIGKILL"
    assert outcome.untrusted_stderr == "a[31mb\nc你"


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_every_cause_has_words(language: str) -> None:
    translator = Translator(language)
    assert all(translator.text(f"errors.E-WORKER-DIED.cause.{cause}") for cause in Cause)


def test_restarts_back_off_and_the_circuit_opens_and_closes_again() -> None:
    now = [0.0]
    budget = RestartBudget(lambda: now[0])
    assert budget.crashed() == 0.5
    now[0] = 10.0
    assert budget.crashed() == 2.0
    now[0] = 20.0
    assert budget.crashed() is None
    assert budget.is_open()
    now[0] = 300.0
    assert not budget.is_open()
    assert budget.crashed() is None
    budget.reset()
    assert budget.crashed() == 0.5


def test_environment_of_a_child_is_built_from_empty() -> None:
    secret = {"PATH": "/bin", "AWS_SECRET": "x", "LD_PRELOAD": "y", "PYTHONPATH": "z", "HTTPS_PROXY": "p"}
    environment = child_environment(secret, {"MUNIMENT_X": "1"})
    assert environment["PATH"] == "/bin"
    assert environment["MUNIMENT_X"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert not set(environment) & {"AWS_SECRET", "LD_PRELOAD", "PYTHONPATH", "HTTPS_PROXY"}


def test_traceback_carries_types_and_places_but_no_values() -> None:
    def fail(table: dict[str, int]) -> int:
        try:
            return table["canary-document-text"]
        except KeyError as error:
            raise ValueError("canary-question") from error

    with pytest.raises(ValueError, match="canary") as caught:
        fail({})
    text = traceback_without_values(caught.value)
    assert "ValueError" in text
    assert "KeyError" in text
    assert "test_worker_parts.py" in text
    assert "canary" not in text


def _verdict(program: bytes, arch: int, number: int) -> int:
    """Run a filter program: the few instructions that it uses, as the kernel does."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            value = {0: number, 4: arch}[operand]
        elif code == 0x06:
            return int(operand)
        else:
            at += if_true if (value == operand if code == 0x15 else value >= operand) else if_false


def test_filter_refuses_the_named_calls_their_x32_twins_and_other_architectures() -> None:
    program = build_filter(0xC000003E, [41, 101, 425])
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000
    for number in range(500):
        expected = refuse if number in {41, 101, 425} else allow
        assert _verdict(program, 0xC000003E, number) == expected
    assert _verdict(program, 0xC000003E, 41 | 0x40000000) == refuse
    assert _verdict(program, 0xC000003E, 0 | 0x40000000) == refuse
    assert _verdict(program, 0x40000003, 0) == kill

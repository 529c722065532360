"""What was acknowledged survives kill -9, and two processes keep one chain."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from muniment_app.audit.verify import verify_log
from tests.helpers.audit_logs import open_log

ROOT = Path(__file__).parents[2]
KILLS = 20


def _child(folder: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.helpers.audit_child", str(folder), str(count)]
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def _go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def _receipts(output: str) -> dict[int, str]:
    """Return acknowledged events; a last line that was cut short acknowledged nothing."""
    lines = output.split("\n")[:-1]
    return {int(seq): leaf for seq, leaf in (line.split(" ") for line in lines)}


def test_no_acknowledged_event_is_lost_by_killing_the_writer(tmp_path: Path) -> None:
    source = random.Random(9)
    folder = tmp_path / "w"
    acknowledged: dict[int, str] = {}
    for _ in range(KILLS):
        with _child(folder, -1) as child:
            _go(child)
            assert child.stdout is not None
            seen = "".join(child.stdout.readline() for _ in range(source.randrange(1, 12)))
            # At a random moment of the next append: after some of its steps, before others.
            try:
                child.wait(timeout=source.random() * 0.02)
            except subprocess.TimeoutExpired:
                child.kill()
            seen += child.stdout.read()
        assert child.returncode not in (None, 0)
        acknowledged |= _receipts(seen)
    assert len(acknowledged) >= KILLS
    log = open_log(folder)
    with log.snapshot() as view:
        stored = {row.seq: row.leaf.hex() for row in view.rows()}
    assert {seq: stored.get(seq) for seq in acknowledged} == acknowledged
    assert log.alarm is None
    assert verify_log(log).problem is None
    log.close()


def test_two_processes_at_once_keep_one_chain(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    children = [_child(folder, 60), _child(folder, 60)]
    for child in children:
        _go(child)
    receipts = []
    for child in children:
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        receipts.append(_receipts(output))
    assert set(receipts[0]) | set(receipts[1]) == set(range(120))
    # They were really at work at the same time.
    assert min(receipts[0]) < max(receipts[1])
    assert min(receipts[1]) < max(receipts[0])
    log = open_log(folder)
    assert log.alarm is None
    report = verify_log(log)
    assert (report.problem, report.events) == (None, 120)
    log.close()

"""The ledger of reservations: what is granted and refused, what it survives, and how it shows in the headroom."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.contracts import Headroom, Limit, Pressure, Signal
from muniment_runtime.headroom.chain import UNKNOWN, split_name
from muniment_runtime.headroom.filelock import exclusive
from muniment_runtime.headroom.holder import Holder, holder_alive, own_holder
from muniment_runtime.headroom.ledger_file import LEDGER_NAME, LOCK_NAME, MAX_ENTRIES, Entry, LedgerFile, State
from muniment_runtime.headroom.probe import FixedProbe
from muniment_runtime.headroom.reservation import RESERVED, ReservationLedger, ReservedProbe

GIB = 1 << 30
HERE: Holder = (100, 5.0)
THERE: Holder = (200, 6.0)


class Machine:
    """Processes that run, and the ledgers that they open on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running = {HERE, THERE}

    def ledger(self, own: Holder = HERE, wait_s: float = 5.0) -> ReservationLedger:
        return ReservationLedger(self.folder, lambda pid, start: (pid, start) in self.running, own, wait_s)

    def entries(self) -> list[Entry]:
        return LedgerFile(self.folder).read()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "run" / "muniment")


def free(size_bytes: int) -> Callable[[], int]:
    return lambda: size_bytes


def refused(ledger: ReservationLedger, need_bytes: int, margin_bytes: int, free_bytes: int) -> KnownError:
    with pytest.raises(KnownError) as caught:
        ledger.reserve(need_bytes, margin_bytes, free(free_bytes))
    return caught.value


def test_need_and_margin_may_fill_the_headroom_to_the_byte(machine: Machine) -> None:
    error = refused(machine.ledger(), 7, 4, 10)
    assert (error.code, error.params) == ("E-PLAN-SHRUNK", {"missing": "1 B"})
    granted = machine.ledger().reserve(7, 3, free(10))
    assert (granted.need_bytes, granted.headroom_bytes, granted.reserved_bytes, granted.shared) == (7, 10, 0, True)
    assert machine.entries() == [Entry(granted.id, *HERE, 7, 0, State.LOADING)]


def test_what_another_program_has_reserved_is_not_free(machine: Machine) -> None:
    machine.ledger(THERE).reserve(3 * GIB, 0, free(8 * GIB))
    error = refused(machine.ledger(), 5 * GIB, GIB, 8 * GIB)
    assert error.code == "E-PLAN-RESERVED"
    assert error.params == {"missing": "1.0 GiB", "n": 1, "reserved": "3.0 GiB"}
    assert machine.ledger().reserve(4 * GIB, GIB, free(8 * GIB)).reserved_bytes == 3 * GIB


def test_two_loads_of_one_program_count_each_other(machine: Machine) -> None:
    ledger = machine.ledger()
    ledger.reserve(3, 0, free(10))
    ledger.reserve(3, 0, free(10))
    assert refused(ledger, 5, 0, 10).params["n"] == 2
    # Another object of the same process, as a second service would have.
    assert refused(machine.ledger(), 5, 0, 10).params["n"] == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_refusals_are_sentences(language: str, machine: Machine) -> None:
    translator = Translator(language)
    machine.ledger(THERE).reserve(3 * GIB, 0, free(8 * GIB))
    one = translator.error(refused(machine.ledger(), 8 * GIB, 0, 8 * GIB))
    machine.ledger(THERE).reserve(2 * GIB, 0, free(8 * GIB))
    two = translator.error(refused(machine.ledger(), 8 * GIB, 0, 8 * GIB))
    assert "3.0 GiB" in one
    assert "5.0 GiB" in two
    assert "2" in two.replace("5.0 GiB", "")


def test_after_the_load_only_what_is_not_yet_resident_stays_reserved(machine: Machine) -> None:
    held = machine.ledger(THERE).reserve(6, 0, free(10))
    assert machine.ledger().outstanding() == (6, 1)
    held.settle(4)
    assert machine.ledger().outstanding() == (2, 1)
    assert machine.entries()[0].state is State.SETTLED
    # The machine shows the four resident bytes itself.
    assert refused(machine.ledger(), 5, 0, 6).params["missing"] == "1 B"
    machine.ledger().reserve(4, 0, free(6))


def test_more_resident_than_needed_frees_nothing_for_others(machine: Machine) -> None:
    ledger = machine.ledger(THERE)
    ledger.reserve(2, 0, free(10)).settle(50)
    ledger.reserve(3, 0, free(10))
    assert machine.ledger().outstanding() == (3, 1)
    assert refused(machine.ledger(), 8, 0, 10).params["missing"] == "1 B"


def test_release_is_final_and_may_be_repeated(machine: Machine) -> None:
    ledger = machine.ledger()
    first = ledger.reserve(6, 0, free(10))
    second = ledger.reserve(1, 0, free(10))
    first.release()
    first.release()
    first.settle(3)
    assert [entry.id for entry in machine.entries()] == [second.id]
    ledger.reserve(9, 0, free(10))


def test_block_releases_also_when_the_load_fails(machine: Machine) -> None:
    seen: list[int] = []

    def load() -> None:
        with machine.ledger().reserve(6, 0, free(10)):
            seen.append(len(machine.entries()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load()
    assert seen == [1]
    assert machine.entries() == []


def test_entries_of_ended_programs_are_struck_out(machine: Machine) -> None:
    machine.ledger(THERE).reserve(9, 0, free(10))
    assert refused(machine.ledger(), 2, 0, 10).code == "E-PLAN-RESERVED"
    machine.running.remove(THERE)
    assert machine.ledger().outstanding() == (0, 0)
    granted = machine.ledger().reserve(2, 0, free(10))
    assert [entry.id for entry in machine.entries()] == [granted.id]


def test_process_number_used_again_does_not_inherit(machine: Machine) -> None:
    machine.ledger(THERE).reserve(9, 0, free(10))
    machine.running = {HERE, (THERE[0], THERE[1] + 60)}
    machine.ledger().reserve(10, 0, free(10))


def test_headroom_is_measured_under_the_lock(machine: Machine) -> None:
    seen = []

    def measure() -> int:
        with exclusive(machine.folder / LOCK_NAME, 0.0) as held:
            seen.append(held)
        return 10

    machine.ledger().reserve(1, 0, measure)
    with exclusive(machine.folder / LOCK_NAME, 0.0) as held:
        seen.append(held)
    assert seen == [False, True]


def test_failed_measurement_reserves_nothing(machine: Machine) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        machine.ledger().reserve(1, 0, broken)
    assert machine.entries() == []
    machine.ledger().reserve(10, 0, free(10))


def test_negative_sizes_are_bugs(machine: Machine) -> None:
    held = machine.ledger().reserve(1, 0, free(10))
    with pytest.raises(BugError):
        held.settle(-1)
    for need, margin in ((-1, 0), (0, -1)):
        with pytest.raises(BugError):
            machine.ledger().reserve(need, margin, free(10))


GOOD = {"id": "a", "pid": 200, "pid_start": 6.0, "need_bytes": 4, "resident_bytes": 1, "state": "loading"}
DAMAGED = {
    "empty": b"",
    "torn": json.dumps({"entries": [GOOD]}).encode()[:-9],
    "not text": b"\xff\xfe\x00",
    "other value": b"7",
    "no entries": b"{}",
    "entries of another kind": b'{"entries": {"a": 1}}',
    "entries missing": b'{"entries": null}',
    "deep": b'{"entries": ' + b"[" * 100_000,
    "long number": b'{"entries": [' + b"9" * 10_000 + b"]}",
    "too large": b'{"entries": []}' + b" " * 2**20,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_ledger_is_replaced(kind: str, machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.ledger().reserve(1, 0, free(10)).release()
    (machine.folder / LEDGER_NAME).write_bytes(DAMAGED[kind])
    granted = machine.ledger().reserve(7, 3, free(10))
    assert granted.shared
    assert [entry.id for entry in machine.entries()] == [granted.id]
    assert "reservation ledger damaged" in caplog.text


@pytest.mark.parametrize(
    "fault",
    [
        {"id": ""},
        {"id": "x" * 65},
        {"id": 7},
        {"pid": -1},
        {"pid": True},
        {"pid_start": "soon"},
        {"pid_start": float("nan")},
        {"pid_start": True},
        {"need_bytes": -1},
        {"need_bytes": 1.5},
        {"need_bytes": 2**63},
        {"resident_bytes": None},
        {"state": "done"},
        {"state": ["loading"]},
    ],
)
def test_entry_that_makes_no_sense_is_left_out_and_the_others_count(fault: dict[str, object], machine: Machine) -> None:
    machine.ledger().reserve(1, 0, free(10)).release()
    rows = [{**GOOD, **fault}, "text", {**GOOD, "id": "b", "field of a later version": 1}]
    (machine.folder / LEDGER_NAME).write_text(json.dumps({"entries": rows}))
    assert machine.ledger().outstanding() == (3, 1)


def test_own_entries_return_after_damage(machine: Machine) -> None:
    ledger = machine.ledger(THERE)
    first, second = ledger.reserve(2, 0, free(10)), ledger.reserve(3, 0, free(10))
    (machine.folder / LEDGER_NAME).write_bytes(b"{")
    first.settle(2)
    assert {entry.id for entry in machine.entries()} == {first.id, second.id}
    assert machine.ledger().outstanding() == (3, 1)


def test_rest_of_a_writer_that_was_killed_is_no_hindrance(machine: Machine) -> None:
    machine.ledger().reserve(1, 0, free(10))
    (machine.folder / "reservations.new").write_bytes(b'{"entr')
    machine.ledger().reserve(1, 0, free(10))
    assert len(machine.entries()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits of POSIX")
def test_folder_and_files_are_private(machine: Machine) -> None:
    machine.ledger().reserve(1, 0, free(10))
    assert stat.S_IMODE(machine.folder.stat().st_mode) == 0o700
    assert {path.name for path in machine.folder.iterdir()} == {LEDGER_NAME, LOCK_NAME}
    assert {stat.S_IMODE(path.stat().st_mode) for path in machine.folder.iterdir()} == {0o600}


def _under_a_file(folder: Path) -> None:
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.write_text("")


def _open_to_others(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(parents=True)
    folder.symlink_to(folder.parent / "elsewhere")


def _ledger_is_a_folder(folder: Path) -> None:
    (folder / LEDGER_NAME).mkdir(parents=True)
    folder.chmod(0o700)


def _no_room_to_write(folder: Path) -> None:
    (folder / "reservations.new").mkdir(parents=True)
    folder.chmod(0o700)


UNUSABLE = [_under_a_file, _ledger_is_a_folder, _no_room_to_write]
if sys.platform != "win32":
    UNUSABLE += [_open_to_others, _link]


@pytest.mark.parametrize("prepare", UNUSABLE)
def test_unusable_folder_is_visible_and_own_loads_still_count(
    prepare: Callable[[Path], None], machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(machine.folder)
    ledger = machine.ledger()
    granted = ledger.reserve(6, 0, free(10))
    assert not granted.shared
    assert refused(ledger, 5, 0, 10).code == "E-PLAN-RESERVED"
    granted.settle(6)
    granted.release()
    assert not ledger.reserve(10, 0, free(10)).shared
    assert ledger.outstanding() == (0, 0)
    assert caplog.text.count("ledger-unusable") == 1
    assert str(machine.folder) not in caplog.text


def test_folder_that_becomes_usable_shows_earlier_reservations(machine: Machine) -> None:
    _under_a_file(machine.folder)
    ledger = machine.ledger(THERE)
    ledger.reserve(4, 0, free(10))
    machine.folder.parent.unlink()
    assert ledger.reserve(1, 0, free(10)).shared
    assert machine.ledger().outstanding() == (5, 2)


def test_lock_that_stays_taken_refuses_the_load(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    ledger = machine.ledger(wait_s=0.02)
    held = ledger.reserve(6, 0, free(10))
    with exclusive(machine.folder / LOCK_NAME, 0.0):
        assert refused(ledger, 1, 0, 10).code == "E-PLAN-LEDGER"
        held.release()
    assert "ledger-busy" in caplog.text
    # What could not be struck out then is struck out at the next change.
    assert [entry.id for entry in machine.entries()] == [held.id]
    ledger.reserve(10, 0, free(10))
    assert len(machine.entries()) == 1


def test_ledger_is_bounded(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.ledger().reserve(0, 0, free(10))
    file = LedgerFile(machine.folder)
    file.write([Entry(str(number), *THERE, 0) for number in range(MAX_ENTRIES + 5)])
    assert len(file.read()) == MAX_ENTRIES
    assert "5 left out" in caplog.text
    assert refused(machine.ledger(), 0, 0, 10).code == "E-PLAN-LEDGER"
    machine.running.remove(THERE)
    machine.ledger().reserve(0, 0, free(10))


def test_threads_never_share_a_byte(machine: Machine) -> None:
    ledger = machine.ledger()
    outcomes: list[str] = []
    together = threading.Barrier(8)

    def load() -> None:
        together.wait()
        try:
            ledger.reserve(3, 0, free(10))
            outcomes.append("granted")
        except KnownError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["E-PLAN-RESERVED"] * 5 + ["granted"] * 3


def test_holder_is_recognised_by_number_and_start() -> None:
    pid, start = own_holder()
    assert holder_alive(pid, start)
    assert not holder_alive(pid, start + 60)
    assert not holder_alive(2**22 + 7, start)
    assert not holder_alive(2**40, start)


SIGNALS = (Signal("swap_in_bytes_per_s", 3.0),)
MEASURED = Headroom(
    40, (Limit("memory_available", 50), Limit("cgroup:/a", 40)), 100, Pressure.TIGHT, "cgroup:/a", SIGNALS,
    (Limit("gpu", 9),),
)  # fmt: skip


def test_reservations_of_others_become_the_binding_limit(machine: Machine) -> None:
    probe = ReservedProbe(FixedProbe(MEASURED), machine.ledger())
    assert probe.measure() is MEASURED
    machine.ledger(HERE).reserve(7, 0, free(40))
    assert probe.measure() is MEASURED
    machine.ledger(THERE).reserve(10, 0, free(40))
    machine.ledger(THERE).reserve(5, 0, free(40)).settle(2)
    assert probe.measure() == Headroom(
        27, (*MEASURED.limits, Limit("reserved:2", 27)), 100, Pressure.TIGHT, "reserved:2", SIGNALS, (Limit("gpu", 9),)
    )


def test_reservations_never_make_headroom_negative(machine: Machine) -> None:
    machine.ledger(THERE).reserve(90, 0, free(100))
    headroom = ReservedProbe(FixedProbe(MEASURED), machine.ledger()).measure()
    assert (headroom.available_bytes, headroom.limits[-1]) == (0, Limit("reserved:1", 0))
    nothing = Headroom(0, (), 0, Pressure.CRITICAL, UNKNOWN)
    assert ReservedProbe(FixedProbe(nothing), machine.ledger()).measure() is nothing


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_limit_has_its_sentences(language: str) -> None:
    key, detail = split_name(f"{RESERVED}:3")
    for kind in ("limit", "binding"):
        sentence = Translator(language).text(f"plan.{kind}.{key}", detail=detail, size="4 GiB")
        assert "3" in sentence
        assert "4 GiB" in sentence

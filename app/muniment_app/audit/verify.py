"""Checks a whole log where it lies: every event, the tree, every checkpoint, the openings and the head outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muniment_app.audit.canonical import Json
from muniment_app.audit.commitment import commit
from muniment_app.audit.events import SEALING, EventType
from muniment_app.audit.head import Head, HeadDamagedError
from muniment_app.audit.log import CHECKPOINT_EVENTS, NO_LEAF, AuditLog
from muniment_app.audit.merkle import Frontier, leaf_hash
from muniment_app.audit.note import NoteError, open_checkpoint
from muniment_app.audit.reading import StoredEvent, read_events
from muniment_app.audit.store import DatabaseError, Snapshot

__all__ = ["LogReport", "verify_log"]


@dataclass(frozen=True)
class LogReport:
    """Result of a verification.

    Attributes:
        events: Number of stored events.
        checkpoints: Number of stored checkpoints.
        first_bad: The first event that cannot be relied on; ``None`` when all can, or when what is wrong says
            nothing about a single event.
        redacted: Committed fields whose opening was erased.
        problem: Code of the first thing that is wrong, ``None`` when nothing is: ``unreadable``, ``foreign``,
            ``missing``, ``malformed``, ``changed``, ``chain``, ``root``, ``checkpoint``, ``checkpoint_missing``,
            ``opening``, ``opening_missing``, ``frontier``, ``truncated``, ``rewritten``, ``head_missing``,
            ``head_damaged``, ``head_foreign``.
    """

    events: int
    checkpoints: int
    first_bad: int | None
    redacted: int
    problem: str | None

    @property
    def ok(self) -> bool:
        """Whether everything verifies."""
        return self.problem is None


class _Finding(Exception):
    def __init__(self, problem: str, first_bad: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.first_bad = first_bad


def verify_log(log: AuditLog) -> LogReport:
    """Check a log as it is now; appending goes on meanwhile.

    Raises:
        KnownError: ``E-STORE-KEY``, ``E-STORE-OPEN`` when the database cannot be opened at all.
    """
    # The head first: it never leads, so a snapshot taken later holds at least as many events.
    head, head_problem = _read_head(log)
    with log.snapshot() as view:
        checker = _Checker(log.log_id, log.public_key, head)
        try:
            checker.check(view)
            if head_problem is not None:
                raise _Finding(head_problem)  # noqa: TRY301 - one way out for all findings
        except _Finding as finding:
            return checker.report(view, finding)
        except DatabaseError:
            # Pages of an encrypted database that were changed do not decrypt.
            return LogReport(checker.frontier.size, 0, checker.frontier.size, checker.redacted, "unreadable")
        return checker.report(view, None)


def _read_head(log: AuditLog) -> tuple[Head | None, str | None]:
    """Return the head if it can be compared, and what is wrong with it."""
    try:
        head = log.read_head()
    except HeadDamagedError:
        return None, "head_damaged"
    if head is None:
        return None, "head_missing"
    if head.log_id != log.log_id:
        return None, "head_foreign"
    return head, log.alarm


class _Checker:
    """One pass over a snapshot, with what has been seen so far."""

    def __init__(self, log_id: str, public_key: bytes, head: Head | None) -> None:
        self._log_id = log_id
        self._public_key = public_key
        self._head = head
        self._covered = 0
        self._closed: dict[int, int] = {}
        self.frontier = Frontier()
        self.redacted = 0

    def report(self, view: Snapshot, finding: _Finding | None) -> LogReport:
        """Return the result; counts are those of the database."""
        return LogReport(
            events=view.count(),
            checkpoints=len(view.checkpoints()),
            first_bad=None if finding is None else finding.first_bad,
            redacted=self.redacted,
            problem=None if finding is None else finding.problem,
        )

    def check(self, view: Snapshot) -> None:
        """Check everything; raise the first finding."""
        if view.meta("log") != self._log_id.encode() or view.meta("public_key") != self._public_key:
            raise _Finding("foreign")
        roots = dict(self._checkpoints(view))
        previous = NO_LEAF
        for event in read_events(view):
            index = self.frontier.size
            value = self._event(event, index, previous)
            self.frontier = self.frontier.append(event.row.leaf)
            previous = event.row.leaf.hex()
            self._openings(event, index, value)
            self._root(roots, value["type"])
        self._end(view, roots)

    def _checkpoints(self, view: Snapshot) -> Iterator[tuple[int, bytes]]:
        for size, note in view.checkpoints():
            try:
                checkpoint = open_checkpoint(note, self._log_id, self._public_key)
            except NoteError as error:
                raise _Finding("checkpoint") from error
            if checkpoint.size != size or size < 1:
                raise _Finding("checkpoint")
            yield size, checkpoint.root

    def _event(self, event: StoredEvent, index: int, previous: str) -> dict[str, Json]:
        if event.row.seq != index:
            raise _Finding("missing", index)
        if leaf_hash(event.row.body) != event.row.leaf:
            raise _Finding("changed", index)
        value = event.value()
        if value is None or not _is_event(value):
            raise _Finding("malformed", index)
        if value["seq"] != index or value["log"] != self._log_id or value["prev"] != previous:
            raise _Finding("chain", index)
        return value

    def _openings(self, event: StoredEvent, index: int, value: Mapping[str, Json]) -> None:
        commitments = value["commit"]
        assert isinstance(commitments, dict)
        for opening in event.openings:
            if commitments.get(opening.field) != commit(opening.salt, opening.field, opening.text):
                raise _Finding("opening", index)
        closed = len(commitments) - len(event.openings)
        self.redacted += closed
        if closed:
            self._closed[index] = closed
        data = value["data"]
        if value["type"] == EventType.REDACTION_DONE and isinstance(data, dict) and isinstance(data.get("event"), int):
            self._closed.pop(int(str(data["event"])), None)

    def _root(self, roots: Mapping[int, bytes], type_: Json) -> None:
        size = self.frontier.size
        if size in roots:
            if roots[size] != self.frontier.root():
                raise _Finding("root", self._covered)
            self._covered = size
        elif type_ in SEALING or size % CHECKPOINT_EVENTS == 0:
            raise _Finding("checkpoint_missing", self._covered)
        if self._head is not None and self._head.size == size and self._head.root != self.frontier.root():
            raise _Finding("rewritten", self._covered)

    def _end(self, view: Snapshot, roots: Mapping[int, bytes]) -> None:
        """Check what can be said only after the last event."""
        size = self.frontier.size
        head, frontier = self._head, self.frontier
        if max(roots, default=0) > size:
            raise _Finding("truncated", size)
        if head is not None and head.size > size:
            raise _Finding("truncated", size)
        if view.meta("frontier") != frontier.to_bytes():
            raise _Finding("frontier")
        if self._closed:
            raise _Finding("opening_missing", min(self._closed))
        strays = "SELECT count(*) FROM opening WHERE seq NOT IN (SELECT seq FROM audit)"
        if view.connection.execute(strays).fetchone()[0]:
            raise _Finding("opening")


def _is_event(value: Mapping[str, Json]) -> bool:
    """Tell whether the value has the keys of an event, and commitments that are texts."""
    expected = {
        "v",
        "seq",
        "id",
        "ts",
        "mono",
        "boot",
        "log",
        "prev",
        "type",
        "actor",
        "app_ver",
        "ws",
        "data",
        "commit",
    }
    commitments = value.get("commit")
    return (
        set(value) == expected
        and value["v"] == 1
        and isinstance(value["type"], str)
        and isinstance(value["ts"], str)
        and isinstance(value["data"], dict)
        and isinstance(commitments, dict)
        and all(isinstance(item, str) for item in commitments.values())
    )

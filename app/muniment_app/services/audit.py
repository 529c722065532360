"""The audit log as the window and the command line see it."""

from __future__ import annotations

from pathlib import Path

from muniment_app.audit.export import export_bundle
from muniment_app.audit.log import AuditLog
from muniment_app.audit.reading import StoredEvent, read_events
from muniment_app.audit.verify import verify_log
from muniment_app.services.api import AuditEvent, AuditReport
from muniment_resources.i18n import Translator

__all__ = ["LogAuditService"]


class LogAuditService:
    """Implements ``AuditService`` over one log.

    Args:
        log: The log.
        translator: Language of the readable report in a bundle; English when left out.
    """

    def __init__(self, log: AuditLog, translator: Translator | None = None) -> None:
        self._log = log
        self._translator = translator or Translator()

    def count(self) -> int:
        """See ``AuditService``."""
        with self._log.snapshot() as view:
            return view.count()

    def events(self, offset: int = 0, limit: int = 100, newest_first: bool = True) -> list[AuditEvent]:
        """See ``AuditService``."""
        first, end = max(0, offset), max(0, offset) + max(0, limit)
        with self._log.snapshot() as view:
            if not newest_first:
                return [_shown(event) for event in read_events(view, first, end)]
            count = view.count()
            found = [_shown(event) for event in read_events(view, max(0, count - end), max(0, count - first))]
        found.reverse()
        return found

    def verify(self) -> AuditReport:
        """See ``AuditService``."""
        report = verify_log(self._log)
        return AuditReport(
            ok=report.ok,
            events=report.events,
            checkpoints=report.checkpoints,
            first_bad=report.first_bad,
            redacted=report.redacted,
            problem=report.problem,
        )

    def export(self, target: Path, openings: str = "none") -> Path:
        """See ``AuditService``."""
        return export_bundle(self._log, target, openings, self._translator)


def _shown(event: StoredEvent) -> AuditEvent:
    """Return an event for people; one whose bytes were damaged still shows, without type and fields."""
    value = event.value() or {}
    data = value.get("data")
    return AuditEvent(
        seq=event.row.seq,
        ts=str(value.get("ts", "")),
        type=str(value.get("type", "")),
        leaf=event.row.leaf.hex(),
        fields=dict(data) if isinstance(data, dict) else {},
        opened=event.texts(),
    )

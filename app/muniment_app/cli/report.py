"""Where a bug of the program is written down: in the log file, without any value that may come from a document."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from muniment_app.workspace.paths import Home
from muniment_resources.errors import KnownError
from muniment_runtime.worker.host import traceback_without_values

__all__ = ["log_bug"]

log = logging.getLogger(__name__)


def log_bug(error: BaseException, home: Home) -> Path:
    """Write types and places of an error into the log file, and return where that is.

    ``logging.exception`` is not used: it writes messages and source lines, which may quote a document or a question.
    Before the services are there, no log file is open yet; then one is opened for this entry.
    """
    path = home.logs / "muniment.log"
    own: logging.Handler | None = None
    open_files = [item.baseFilename for item in logging.getLogger().handlers if isinstance(item, logging.FileHandler)]
    if str(path.absolute()) not in open_files:
        # A folder that cannot be written must not hide the bug from people; they still get its type.
        with suppress(KnownError, OSError):
            home.create()
            own = logging.FileHandler(path, encoding="utf-8")
    own = own or logging.NullHandler()
    own.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    log.addHandler(own)
    try:
        log.error("command.bug type=%s\n%s", type(error).__name__, traceback_without_values(error))
    finally:
        log.removeHandler(own)
        own.close()
    return path

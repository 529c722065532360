"""A child for tests: appends events for ever or a number of times, and says which were acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

from muniment_app.audit.events import EventType
from tests.helpers.audit_logs import open_log


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    log = open_log(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    number = 0
    while number != count:
        kind = EventType.AUDIT_CHECKPOINT if number % 7 == 6 else EventType.QUESTION_ASKED
        receipt = log.append(kind, {"n": number}, {"question": f"text {number}"})
        sys.stdout.write(f"{receipt.seq} {receipt.leaf}\n")
        sys.stdout.flush()
        number += 1
    log.close()


if __name__ == "__main__":
    main()

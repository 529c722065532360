"""A parent process for tests: starts an echo child, prints its pid, keeps it busy, waits to be killed."""

from __future__ import annotations

import sys

from muniment_runtime.worker.child import Child
from muniment_runtime.worker.spawn import ProcessSpawner


def main() -> None:
    spawner = ProcessSpawner(commands={"echo": [sys.executable, "-m", "tests.helpers.echo_child"]})
    child = Child(spawner, "echo")
    child.hello()
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    child.request(sys.argv[1])


if __name__ == "__main__":
    main()

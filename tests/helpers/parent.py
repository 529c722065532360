"""A parent process for tests: starts a guarded echo child, prints its pid once it is busy, waits to be killed."""

from __future__ import annotations

import sys

from muniment_runtime.worker.child import Child
from muniment_runtime.worker.protocol import Json
from muniment_runtime.worker.spawn import ProcessSpawner


def main() -> None:
    spawner = ProcessSpawner(commands={"echo": [sys.executable, "-m", "tests.helpers.echo_child", "guard"]})
    child = Child(spawner, "echo")
    child.hello()

    def begun(_event: Json, _raw: bytes | None) -> None:
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()

    child.request(sys.argv[1], on_event=begun)


if __name__ == "__main__":
    main()

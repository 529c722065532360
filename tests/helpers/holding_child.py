"""A second running instance: answers one question, tells its private bytes, and keeps its model until its input ends.

Arguments: its own folder, the folder that instances share, free bytes, the question.
"""

from __future__ import annotations

import sys
from pathlib import Path

from muniment_app.services.api import AskRequest
from muniment_resources.samples import sample_paths
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.probe import FixedProbe
from tests.helpers.real_services import real_services, reply


def main(folder: str, shared: str, free: str, question: str) -> None:
    services = real_services(
        Path(folder),
        {question: reply("The facility runs until March 2029", "March 2029")},
        probe=FixedProbe(what_if(int(free))),
        shared=Path(shared),
    )
    try:
        services.index.index([sample_paths()[0]], lambda _p: None, lambda _n, _w: None, lambda: False)
        services.ask.ask(AskRequest(question), lambda _event: None, lambda: False)
        loaded = services.plan.running()
        assert loaded is not None
        sys.stdout.write(f"{loaded.anonymous_bytes}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        services.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

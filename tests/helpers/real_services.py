"""Real services in a throw-away folder: real documents, real workers, a scripted model that needs no download."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from muniment_app.bootstrap import build_services
from muniment_app.services.api import Services
from muniment_app.workspace.paths import Home
from muniment_runtime.contracts import HeadroomProbe
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers.gguf_writer import model

__all__ = ["MODEL_ID", "install_tiny_model", "real_services", "reply", "write_script"]

ROLE = "inference-fake"
MODEL_ID = "tiny"


def reply(line: str, answer: str) -> str:
    """Return a scripted reply that copies a line and then answers."""
    return f"{line}\f {answer}"


def write_script(path: Path, rules: Mapping[str, str], **values: str | float) -> Path:
    """Write a script for the fake backend: replies by a text that the prompt contains."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    for contains, said in rules.items():
        quoted = (json.dumps(contains, ensure_ascii=False), json.dumps(said, ensure_ascii=False))
        lines += ["[[rules]]", f"contains = {quoted[0]}", f"reply = {quoted[1]}"]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def install_tiny_model(services: Services, folder: Path) -> None:
    """Import a complete but tiny model description; the scripted backend needs no weights."""
    file = model("qwen2", context=32768, template="<|im_start|>").write(folder / f"{MODEL_ID}.gguf")
    services.models.import_file(file, lambda _done, _total: None, lambda: False)


def real_services(
    folder: Path,
    rules: Mapping[str, str] | None = None,
    *,
    workspace: str = "default",
    with_model: bool = True,
    probe: HeadroomProbe | None = None,
    shared: Path | None = None,
    **script: str | float,
) -> Services:
    """Return services on ``folder/home``; the scripted model answers by ``rules``."""
    path = write_script(folder / "script.toml", rules or {}, **script)
    spawner = ProcessSpawner(arguments={ROLE: [str(path)]})
    services = build_services(
        Home(folder / "home"),
        workspace,
        spawner,
        ROLE,
        probe=probe,
        probe_role=None,
        shared=shared or folder / "shared",
    )
    if with_model and not any(known.installed for known in services.models.list()):
        install_tiny_model(services, folder)
    return services

"""The window over real services: a workspace on disk, the caged document worker, the scripted inference worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muniment_app.bootstrap import build_services
from muniment_app.services.api import Services
from muniment_app.workspace.paths import Home
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers.model_catalogue import tiny_bytes

__all__ = ["add_tiny_model", "real_services", "write_script"]

ROLE = "inference-fake"


def write_script(path: Path, contains: str, line: str, answer: str, token_delay_s: float = 0.02) -> Path:
    """Write what the scripted worker replies: the copied line, then, in the next field, the answer."""
    reply = f"{line}\\f {answer}"
    path.write_text(
        f'default = "I do not know."\ntoken_delay_s = {token_delay_s}\n\n'
        f'[[rules]]\ncontains = "{contains}"\nreply = "{reply}"\n',
        "utf-8",
    )
    return path


def add_tiny_model(services: Services, folder: Path) -> str:
    """Import a small valid model file, so that there is something to plan for; return its id."""
    path = folder / "tiny-q8_0.gguf"
    path.write_bytes(tiny_bytes())
    return services.models.import_file(path, lambda _done, _total: None, lambda: False).model_id


def real_services(home: Path, script: Path, roles: Sequence[str] = (ROLE,)) -> Services:
    """Build the services of the program with the scripted worker in place of the model."""
    spawner = ProcessSpawner(arguments={role: [str(script)] for role in roles})
    return build_services(
        Home(home), "journey", spawner=spawner, inference_role=ROLE, probe_role=None, shared=home / "shared"
    )

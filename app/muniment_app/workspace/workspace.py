"""A workspace: the unit of isolation. Own folder, own keys, own databases, own audit log."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muniment_app.workspace.keys import KeyStore, WorkspaceKeys
from muniment_app.workspace.paths import Home
from muniment_resources.errors import KnownError

__all__ = ["Workspace", "open_workspace", "workspace_names"]

MAX_NAME_LENGTH = 64
_RECORD = "workspace.json"


@dataclass(frozen=True)
class Workspace:
    """An opened workspace.

    Attributes:
        workspace_id: Random; names folder and keys, and says nothing about the client.
        name: What people call it.
        folder: Holds its databases.
        keys: Its secrets.
        head_path: Where the newest state of its audit log is noted, outside the folder.
        created: Whether this call created it.
    """

    workspace_id: str
    name: str
    folder: Path
    keys: WorkspaceKeys
    head_path: Path
    created: bool

    def database_path(self, name: str) -> Path:
        """Return the path of one of its databases."""
        return self.folder / f"{name}.db"


def workspace_names(home: Home) -> dict[str, str]:
    """Return the ids of all workspaces by name; records that cannot be read are left out."""
    found: dict[str, str] = {}
    if not home.workspaces.is_dir():
        return found
    for folder in sorted(home.workspaces.iterdir()):
        try:
            record = json.loads((folder / _RECORD).read_text("utf-8"))
            found[str(record["name"])] = folder.name
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def open_workspace(home: Home, name: str, keys: KeyStore) -> Workspace:
    """Open the workspace with this name, creating it when there is none.

    Raises:
        KnownError: ``E-WORKSPACE-NAME``, ``E-WORKSPACE-CREATE``, ``E-WORKSPACE-KEY``.
    """
    if not _is_name(name):
        raise KnownError("E-WORKSPACE-NAME", limit=MAX_NAME_LENGTH)
    home.create()
    known = workspace_names(home).get(name)
    if known is not None:
        return _workspace(home, known, name, keys.load(known), created=False)
    workspace_id = secrets.token_hex(8)
    made = keys.create(workspace_id)
    folder = home.workspaces / workspace_id
    record = {"id": workspace_id, "name": name, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        folder.mkdir(mode=0o700)
        # Written under another name first: a folder without a complete record is not a workspace.
        temporary = folder / f"{_RECORD}.new"
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(record, stream, ensure_ascii=False)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(folder / _RECORD)
    except OSError as error:
        raise KnownError("E-WORKSPACE-CREATE") from error
    return _workspace(home, workspace_id, name, made, created=True)


def _is_name(name: str) -> bool:
    return bool(name.strip()) and name == name.strip() and len(name) <= MAX_NAME_LENGTH and name.isprintable()


def _workspace(home: Home, workspace_id: str, name: str, keys: WorkspaceKeys, created: bool) -> Workspace:
    return Workspace(
        workspace_id=workspace_id,
        name=name,
        folder=home.workspaces / workspace_id,
        keys=keys,
        head_path=home.keys / f"{workspace_id}.head",
        created=created,
    )

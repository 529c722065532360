"""Keys of workspaces. Kept apart from the data, so that a copy of a workspace folder alone opens nothing."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from muniment_resources.errors import KnownError

__all__ = ["FileKeyStore", "KeyStore", "WorkspaceKeys"]


@dataclass(frozen=True, repr=False)
class WorkspaceKeys:
    """Secrets of one workspace.

    Attributes:
        database_key: 32 random bytes that encrypt its databases.
        signing_seed: 32 random bytes, the Ed25519 seed that signs its audit checkpoints.
    """

    database_key: bytes
    signing_seed: bytes

    @staticmethod
    def generate() -> WorkspaceKeys:
        """Return fresh random keys."""
        return WorkspaceKeys(secrets.token_bytes(32), secrets.token_bytes(32))


class KeyStore(Protocol):
    """Keeps the keys of workspaces."""

    def create(self, workspace_id: str) -> WorkspaceKeys:
        """Make and store keys for a new workspace."""
        ...

    def load(self, workspace_id: str) -> WorkspaceKeys:
        """Return the keys of a workspace.

        Raises:
            KnownError: ``E-WORKSPACE-KEY`` when they are missing or damaged.
        """
        ...


class FileKeyStore:
    """Keys in files that only the user may read.

    This protects copies of a workspace folder (backups, a lost stick). It does not protect against someone who can
    read this user's files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, workspace_id: str) -> Path:
        return self._folder / f"{workspace_id}.json"

    def create(self, workspace_id: str) -> WorkspaceKeys:
        """See ``KeyStore``."""
        keys = WorkspaceKeys.generate()
        body = json.dumps({"database_key": keys.database_key.hex(), "signing_seed": keys.signing_seed.hex()})
        try:
            # Exclusive: a key that exists is never overwritten, or its workspace would be lost.
            handle = os.open(self._path(workspace_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(body)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise KnownError("E-WORKSPACE-CREATE") from error
        return keys

    def load(self, workspace_id: str) -> WorkspaceKeys:
        """See ``KeyStore``."""
        try:
            raw = json.loads(self._path(workspace_id).read_text("ascii"))
            keys = WorkspaceKeys(bytes.fromhex(raw["database_key"]), bytes.fromhex(raw["signing_seed"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KnownError("E-WORKSPACE-KEY") from error
        if len(keys.database_key) != 32 or len(keys.signing_seed) != 32:
            raise KnownError("E-WORKSPACE-KEY")
        return keys

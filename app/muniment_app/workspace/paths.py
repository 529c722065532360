"""Where things lie: one home folder with keys, workspaces, models and logs, private to the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from muniment_resources.errors import KnownError

__all__ = ["Home", "model_cache_folders", "resolve_home", "shared_folder"]


@dataclass(frozen=True)
class Home:
    """The data folder of the program.

    Attributes:
        root: Holds everything else; mode 0700.
    """

    root: Path

    @property
    def keys(self) -> Path:
        """Keys of workspaces, apart from the data they open."""
        return self.root / "keys"

    @property
    def workspaces(self) -> Path:
        """One folder per workspace."""
        return self.root / "workspaces"

    @property
    def models(self) -> Path:
        """Installed models, shared by all workspaces."""
        return self.root / "models"

    @property
    def logs(self) -> Path:
        """Technical logs: ids, counts and codes only."""
        return self.root / "logs"

    @property
    def measurements(self) -> Path:
        """What this device has taught about memory; content-free."""
        return self.root / "measurements.json"

    @property
    def settings(self) -> Path:
        """User settings."""
        return self.root / "settings.toml"

    def create(self) -> None:
        """Create the folders, private to the user.

        Raises:
            KnownError: ``E-HOME`` when a folder cannot be created or is not a folder.
        """
        try:
            for folder in (self.root, self.keys, self.workspaces, self.models, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                folder.chmod(0o700)
        except OSError as error:
            raise KnownError("E-HOME", path=str(self.root)) from error


def resolve_home(option: Path | None, environ: Mapping[str, str]) -> Home:
    """Return the home folder: the option, then ``MUNIMENT_HOME``, then the system's place for user data."""
    if option is not None:
        return Home(option.absolute())
    if environ.get("MUNIMENT_HOME"):
        return Home(Path(environ["MUNIMENT_HOME"]).absolute())
    return Home(Path(platformdirs.user_data_dir("muniment", appauthor=False)))


def model_cache_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return folders whose model files are taken, after a hash check, instead of fetching them again."""
    if environ.get("MUNIMENT_MODEL_CACHE"):
        return (Path(environ["MUNIMENT_MODEL_CACHE"]),)
    return (Path(platformdirs.user_cache_dir("muniment", appauthor=False)) / "models",)


def shared_folder(platform: str = sys.platform, run_root: Path = Path("/run/user")) -> Path:
    """Return the folder that all instances of this user share on this machine, whatever data folder each uses.

    On Linux the session's own folder in memory where there is one; not by ``XDG_RUNTIME_DIR``, which may be set for
    one instance and not for the other.
    """
    if platform.startswith("linux"):
        session = run_root / str(os.getuid())
        if os.access(session, os.W_OK | os.X_OK):
            return session / "muniment"
        return Path(platformdirs.user_cache_dir("muniment", appauthor=False)) / "run"
    return Path(platformdirs.user_runtime_dir("muniment", appauthor=False))

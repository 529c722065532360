"""Workspaces: private folders, keys apart from data, names that cannot lead anywhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muniment_app.workspace.keys import FileKeyStore
from muniment_app.workspace.paths import Home, model_cache_folders, resolve_home, shared_folder
from muniment_app.workspace.workspace import open_workspace, workspace_names
from muniment_resources.errors import KnownError


def test_two_names_never_share_a_folder_or_keys(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    store = FileKeyStore(home.keys)
    first = open_workspace(home, "Client A", store)
    second = open_workspace(home, "客户 B", store)
    again = open_workspace(home, "Client A", store)
    assert first.created
    assert not again.created
    assert (again.folder, again.keys) == (first.folder, first.keys)
    assert second.folder != first.folder
    assert second.keys.database_key != first.keys.database_key
    assert second.keys.signing_seed != first.keys.signing_seed
    assert workspace_names(home) == {"Client A": first.workspace_id, "客户 B": second.workspace_id}


def test_folders_and_keys_are_private_and_apart(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    workspace = open_workspace(home, "default", FileKeyStore(home.keys))
    assert {p.stat().st_mode & 0o777 for p in (home.root, home.keys, home.workspaces, workspace.folder)} == {0o700}
    key_file = home.keys / f"{workspace.workspace_id}.json"
    assert key_file.stat().st_mode & 0o777 == 0o600
    inside = b"".join(path.read_bytes() for path in workspace.folder.rglob("*") if path.is_file())
    assert workspace.keys.database_key.hex().encode() not in inside


@pytest.mark.parametrize("name", ["", " ", " x", "x" * 65, "a\nb", "a\x00b"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / "home")
    with pytest.raises(KnownError) as caught:
        open_workspace(home, name, FileKeyStore(home.keys))
    assert caught.value.code == "E-WORKSPACE-NAME"


def test_name_with_path_parts_stays_inside(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    workspace = open_workspace(home, "../../outside", FileKeyStore(home.keys))
    assert workspace.folder.parent == home.workspaces


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"database_key": "00", "signing_seed": "00"}', b"\xff"])
def test_damaged_key_is_a_known_error_and_is_not_replaced(tmp_path: Path, damage: bytes) -> None:
    home = Home(tmp_path / "home")
    workspace = open_workspace(home, "default", FileKeyStore(home.keys))
    key_file = home.keys / f"{workspace.workspace_id}.json"
    key_file.write_bytes(damage)
    with pytest.raises(KnownError) as caught:
        open_workspace(home, "default", FileKeyStore(home.keys))
    assert caught.value.code == "E-WORKSPACE-KEY"
    assert key_file.read_bytes() == damage


def test_home_that_is_a_file_is_a_known_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x", "utf-8")
    home = Home(tmp_path / "home")
    with pytest.raises(KnownError) as caught:
        open_workspace(home, "default", FileKeyStore(home.keys))
    assert caught.value.code == "E-HOME"


def test_home_is_option_then_variable_then_system(tmp_path: Path) -> None:
    environ = {"MUNIMENT_HOME": str(tmp_path / "b"), "MUNIMENT_MODEL_CACHE": str(tmp_path / "c")}
    assert resolve_home(tmp_path / "a", environ).root == tmp_path / "a"
    assert resolve_home(None, environ).root == tmp_path / "b"
    assert resolve_home(None, {}).root.name == "muniment"
    assert model_cache_folders(environ) == (tmp_path / "c",)


def test_instances_share_one_folder_whatever_their_environment(tmp_path: Path) -> None:
    session = tmp_path / str(os.getuid())
    without = shared_folder("linux", tmp_path)
    assert without.name == "run"
    session.mkdir()
    assert shared_folder("linux", tmp_path) == session / "muniment"

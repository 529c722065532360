"""Settings survive a restart; a broken file is kept aside."""

from __future__ import annotations

from pathlib import Path

from muniment_app.config.settings import Settings, SettingsFile


def test_round_trip(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path / "new" / "settings.toml")
    assert file.load() == Settings()
    file.save(Settings(language="zh_CN", theme="dark"))
    assert SettingsFile(tmp_path / "new" / "settings.toml").load() == Settings("zh_CN", "dark")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["settings.toml"]


def test_values_outside_their_range_become_defaults(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('theme = "pink"\nlanguage = "zh_CN"\nunknown = 3\n', "utf-8")
    assert SettingsFile(path).load() == Settings(language="zh_CN", theme="system")


def test_broken_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"\xff\xfe not toml")
    assert SettingsFile(path).load() == Settings()
    assert (tmp_path / "settings.broken-1").read_bytes() == b"\xff\xfe not toml"
    assert not path.exists()

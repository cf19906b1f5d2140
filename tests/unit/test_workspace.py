"""The workspace: private, and not taken from whoever planted it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dpkv.errors import UsageError
from dpkv.workspace import private_folder, write_atomically, write_once


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / ".dpkv", "tables")
    assert mode(folder) == mode(folder.parent) == 0o700
    assert (tmp_path / ".dpkv" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    (tmp_path / ".dpkv" / "tables").mkdir(parents=True)
    for folder in (tmp_path / ".dpkv", tmp_path / ".dpkv" / "tables"):
        folder.chmod(0o777)
    private_folder(tmp_path / ".dpkv", "tables")
    assert mode(tmp_path / ".dpkv") == mode(tmp_path / ".dpkv" / "tables") == 0o700


def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".dpkv").mkdir(mode=0o700)
    (tmp_path / ".dpkv" / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="plain folder"):
        private_folder(tmp_path / ".dpkv", "tables")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".dpkv").mkdir()
    os.chown(tmp_path / ".dpkv", 12345, 12345)
    with pytest.raises(UsageError, match="another user"):
        private_folder(tmp_path / ".dpkv", "tables")


def test_a_dangling_gitignore_creates_nothing_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".dpkv").mkdir(mode=0o700)
    (tmp_path / ".dpkv" / ".gitignore").symlink_to(tmp_path / "victim")
    private_folder(tmp_path / ".dpkv", "tables")
    assert not (tmp_path / "victim").exists()


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_atomically(path, "old")

    def fails(_: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_once_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_once(path, "first")
    assert not write_once(path, "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]

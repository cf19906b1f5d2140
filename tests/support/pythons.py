"""The Pythons of this machine that dpkv supports, and clean environments of theirs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_LOOK = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[tuple[int, int]]:
    """Return the versions that the metadata name, from the oldest."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ends = [name.rpartition(":: ")[2] for name in project["project"]["classifiers"]]
    return sorted(tuple(map(int, end.split("."))) for end in ends if end.startswith("3."))  # type: ignore[misc]


def _places(name: str) -> Iterator[Path]:
    """Yield where an interpreter may be: on the path, or one of pyenv's or of uv's."""
    found = shutil.which(name)
    if found is not None:
        yield Path(found)
    for folder in (".pyenv/versions", ".local/share/uv/python"):
        yield from sorted((Path.home() / folder).glob(f"*/bin/{name}"), reverse=True)


def interpreter(version: tuple[int, int]) -> Path | None:
    """Return an interpreter of that version that can make environments, if there is one."""
    wanted = ".".join(map(str, version))
    if sys.version_info[:2] == version:
        return Path(sys.executable)
    for place in _places(f"python{wanted}"):
        done = subprocess.run(
            [str(place), "-c", _LOOK], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout.strip() == wanted:
            return place
    return None

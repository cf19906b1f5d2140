"""Where the workspace and the ledger are: by option, by environment, by the user's settings.

    dpkv --workspace DIR, DPKV_WORKSPACE, ``workspace`` in the settings, or .dpkv in this folder
    DPKV_LEDGER, ``ledger`` in the settings, or ledger.sqlite in the workspace
    DPKV_REGISTRY, or $XDG_DATA_HOME/dpkv (~/.local/share): which tables the ledgers know

The settings are ``$XDG_CONFIG_HOME/dpkv/settings.toml`` (~/.config by default), for all folders of
one user. They hold no password: PostgreSQL has ~/.pgpass and PGPASSWORD for that.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from dpkv import foreign
from dpkv.errors import UsageError

WORKSPACE_VARIABLE = "DPKV_WORKSPACE"
LEDGER_VARIABLE = "DPKV_LEDGER"
REGISTRY_VARIABLE = "DPKV_REGISTRY"
AUTO = "auto"
"""What Python calls the workspace that a command would take; a folder of that name is ./auto."""
_KNOWN = ("workspace", "ledger")


def settings_path() -> Path:
    """Return where the user's settings are, or would be."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "dpkv" / "settings.toml"


def registry_path() -> Path:
    """Return the folder that notes which tables the ledgers of this user know."""
    chosen = os.environ.get(REGISTRY_VARIABLE)
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return (Path(chosen) if chosen else Path(home) / "dpkv").expanduser()


_given: list[Path] = []
"""The workspace of ``dpkv --workspace``, if any."""


def choose_workspace(path: Path | None) -> None:
    """Take a workspace for this command, or none in particular."""
    _given[:] = [] if path is None else [path]


def find_workspace() -> Path:
    """Return the workspace that is meant where a command or a call names none."""
    if _given:
        return _given[0]
    chosen = os.environ.get(WORKSPACE_VARIABLE) or _setting("workspace")
    return Path(chosen or ".dpkv").expanduser()


def workspace_or_none(given: str | Path | None) -> Path | None:
    """Return the workspace that a call from Python means, at the time of the call."""
    if given is None:
        return None
    return find_workspace() if given == AUTO else Path(given)


def find_ledger_address() -> str | None:
    """Return the address of a shared ledger; None where the ledger is in the workspace."""
    return os.environ.get(LEDGER_VARIABLE) or _setting("ledger") or None


def _setting(name: str) -> str | None:
    path = settings_path()
    text = foreign.text_if_there(path)
    if text is None:
        return None
    try:
        known = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise UsageError(f"{path} must be TOML, such as workspace = '/data/dpkv'.") from None
    for key, value in known.items():
        if key not in _KNOWN or not isinstance(value, str):
            raise UsageError(f"{path} must set {' and '.join(_KNOWN)} alone, as texts.")
    return known.get(name)

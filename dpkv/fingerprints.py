"""Fingerprints of tables: keyed hashes by which a workspace knows the same records again.

The key is in the workspace. Whoever has it can test guesses of a whole table; without it a
fingerprint tells nothing. Another key gives every table another fingerprint, and so another
account: a key is made once, and never beside a ledger that has accounts by fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv.errors import UsageError
from dpkv.ledger import NAMED, Ledger
from dpkv.workspace import is_own_file, private_folder, write_once

if TYPE_CHECKING:
    from dpkv.types import Floats

_KEY_BYTES = 32
_HASHED_ROWS = 1 << 16
_HASHED_BYTES = 1 << 20


def array_fingerprint(values: Floats, workspace: Path) -> str:
    """Return a keyed hash of records: tells the same ones again, and nothing without the key.

    A plain hash would let anyone test a guess of the whole table. Float32 and float64 arrays of
    the same numbers are the same.
    """
    digest = hashlib.blake2b(key=_secret_key(workspace), digest_size=16)
    digest.update(json.dumps(list(values.shape)).encode())
    for start in range(0, len(values), _HASHED_ROWS):
        digest.update(values[start : start + _HASHED_ROWS].astype("<f8").tobytes())
    return digest.hexdigest()


def file_fingerprint(path: Path, workspace: Path) -> str:
    """Return a keyed hash of a file's bytes: the same table whichever of its columns are used."""
    digest = hashlib.blake2b(key=_secret_key(workspace), digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _secret_key(workspace: Path) -> bytes:
    """Return the workspace's key, made when it is first needed."""
    path = private_folder(workspace, "keys") / "fingerprint.key"
    if not is_own_file(path):
        _make_key(path, workspace)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise UsageError(
            f"the fingerprint key {path} must have {_KEY_BYTES} bytes. It has {len(key)}: restore "
            "it from a backup of the workspace, or remove it if nothing was charged yet."
        )
    return key


def _make_key(path: Path, workspace: Path) -> None:
    """Make a key, unless tables are known by one that is gone: all would have new budgets."""
    chain = Ledger(workspace).verify()  # one that is gone, too, would know of no table
    known = any(not entry.dataset.startswith(NAMED) for entry in chain.entries)
    # A key comes before the charges that need it: where another process made both meanwhile, it is
    # there now.
    if known and not is_own_file(path):
        raise UsageError(
            f"the fingerprint key {path} is gone, and a new one would give every table a new "
            "budget: restore it from a backup of the workspace; if there is none, charge by name "
            "with --dataset, after 'dpkv ledger set-budget name:NAME' with what is left."
        )
    write_once(path, secrets.token_bytes(_KEY_BYTES))

"""Fingerprints of tables: keyed hashes by which a workspace knows the same records again.

The key is in the workspace. Whoever has it can test guesses of a whole table; without it a
fingerprint tells nothing. Another key gives every table another fingerprint, and so another
account: a key is made once, and never beside a ledger that has accounts by fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpkv import progress
from dpkv.errors import TableError, UsageError
from dpkv.ledger import NAMED, Ledger
from dpkv.workspace import is_own_file, private_folder, write_once

if TYPE_CHECKING:
    from dpkv.tables.chunk import Chunk
    from dpkv.types import Floats

_KEY_BYTES = 32
_FACT = "fingerprint key"
_HASHED_ROWS = 1 << 16
_HASHED_BYTES = 1 << 20


@dataclass(frozen=True)
class TableKey:
    """A key for fingerprints; what shows it does not show the key."""

    secret: bytes = field(repr=False)


Whose = Path | TableKey
"""Whose key a fingerprint has: a workspace's, or the key itself."""


def array_fingerprint(values: Floats, whose: Whose) -> str:
    """Return a keyed hash of records: tells the same ones again, and nothing without the key.

    A plain hash would let anyone test a guess of the whole table. Float32 and float64 arrays of
    the same numbers are the same.
    """
    digest = hashlib.blake2b(key=_key_of(whose), digest_size=16)
    digest.update(json.dumps(list(values.shape)).encode())
    for start in range(0, len(values), _HASHED_ROWS):
        digest.update(values[start : start + _HASHED_ROWS].astype("<f8").tobytes())
    return digest.hexdigest()


def chunks_fingerprint(names: Sequence[str], chunks: Iterable[Chunk], whose: Whose) -> str:
    """Return a keyed hash of the cells of some columns, numbers and texts."""
    digest = hashlib.blake2b(key=_key_of(whose), digest_size=16)
    digest.update(json.dumps(list(names)).encode())
    for chunk in chunks:
        digest.update(np.where(np.isnan(chunk.values), np.nan, chunk.values).tobytes())
        texts = [np.append(one.names, "")[one.codes] for one in chunk.texts.values()]
        texts += [] if chunk.persons is None else [chunk.persons]
        for column in texts:
            digest.update(json.dumps(list(map(str, column))).encode())
    return digest.hexdigest()


def file_fingerprint(path: Path, whose: Whose) -> str:
    """Return a keyed hash of a file's bytes: the same table whichever of its columns are used."""
    digest = hashlib.blake2b(key=_key_of(whose), digest_size=16)
    try:
        size, done = max(1, path.stat().st_size), 0
        with path.open("rb") as file:
            while block := file.read(_HASHED_BYTES):
                digest.update(block)
                done += len(block)
                progress.report(f"recognising {path.name}", min(1.0, done / size))
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'damaged file'}.") from None
    return digest.hexdigest()


def join_fingerprints(each: Sequence[str], whose: Whose) -> str:
    """Return what a set of files is known by: a keyed hash of their fingerprints, in any order.

    A single file is known by its own.
    """
    if len(each) == 1:
        return each[0]
    digest = hashlib.blake2b(key=_key_of(whose), digest_size=16)
    digest.update(json.dumps({"files": sorted(each)}).encode())
    return digest.hexdigest()


def _key_of(whose: Whose) -> bytes:
    return whose.secret if isinstance(whose, TableKey) else _secret_key(whose)


def _secret_key(workspace: Path) -> bytes:
    """Return the key of the workspace's ledger, made when it is first needed.

    It is in the workspace; a shared ledger has it itself, so that a table has one account whoever
    releases it.
    """
    ledger = Ledger(workspace)
    if ledger.is_shared:
        known = ledger.fact(_FACT)
        if known is None:
            _refuse_new_key(ledger, ledger.place)
            known = ledger.shared_fact(_FACT, secrets.token_hex(_KEY_BYTES))
        return bytes.fromhex(known)
    return _own_key(workspace)


def carry_key(source: Ledger, *, to_shared: Ledger | None) -> None:
    """Give the ledger that another one moves to its key: a shared one, or the workspace's own."""
    workspace = source.workspace
    if to_shared is not None:
        if not is_own_file(_key_path(workspace)):
            _refuse_new_key(source, _key_path(workspace))
            return
        key = _own_key(workspace)
        if to_shared.shared_fact(_FACT, key.hex()) != key.hex():
            raise UsageError(
                f"the ledger {to_shared.place} knows tables by another key: move to an empty one."
            )
        return
    known = source.fact(_FACT)
    if known is None:
        return
    path = _key_path(workspace)
    write_once(path, bytes.fromhex(known))
    if path.read_bytes() != bytes.fromhex(known):
        raise UsageError(
            f"{path} is another key than {source.place} has: move it aside, since tables would "
            "have other accounts."
        )


def _key_path(workspace: Path) -> Path:
    return private_folder(workspace, "keys") / "fingerprint.key"


def _own_key(workspace: Path) -> bytes:
    path = _key_path(workspace)
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
    ledger = Ledger(workspace)
    # A key comes before the charges that need it: where another process made both meanwhile, it is
    # there now.
    if not ledger.is_shared and not is_own_file(path):
        _refuse_new_key(ledger, path)
    write_once(path, secrets.token_bytes(_KEY_BYTES))


def _refuse_new_key(ledger: Ledger, place: Path | str) -> None:
    """Refuse to make a key where accounts are known by one that is gone."""
    chain = ledger.verify()  # one that is gone, too, would know of no table
    if not any(not account.dataset.startswith(NAMED) for account in chain.accounts()):
        return
    if isinstance(place, Path) and is_own_file(place):
        return
    raise UsageError(
        f"the fingerprint key {place} is gone, and a new one would give every table a new "
        "budget: restore it from a backup of the workspace; if there is none, charge by name "
        "with --dataset, after 'dpkv ledger set-budget name:NAME' with what is left."
    )

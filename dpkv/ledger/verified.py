"""What a workspace knows of its ledger from earlier: how far it was verified, and its newest entry.

Reading every entry before every charge would take longer with each of them. So a workspace notes,
every ``EVERY`` entries, up to where it has verified the chain itself and what the accounts were
there; what comes later is verified from there on. Older entries cannot change a charge, since
their sums come from here. A smaller ledger is always verified whole, and so is any by ``verify``.

Beside it stands the newest entry that was written or read from here. A ledger that lacks it was
rolled back, replaced or begun anew, or its disk promised what it did not keep.

Both files are in the workspace, so that of a shared ledger everybody trusts only what they saw.
Neither is a record: where one is gone or unreadable, the whole chain is verified instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpkv import foreign
from dpkv.errors import UsageError
from dpkv.ledger.accounts import Accounts
from dpkv.ledger.entries import BEFORE_THE_FIRST
from dpkv.workspace import CHAIN, private_folder, write_atomically

EVERY = 256
_FORM = 2
"""Of the accounts in the file; another one is not read."""
_SHA256 = 64


@dataclass(frozen=True)
class Base:
    """The verified beginning of a chain: its last entry, and the accounts up to there."""

    number: int = 0
    digest: str = BEFORE_THE_FIRST
    accounts: Accounts = field(default_factory=Accounts)
    checkpoint: str | None = None
    """The digest of the newest checkpoint up to there."""


NOTHING = Base()


@dataclass(frozen=True)
class Seen:
    """The newest entry that a workspace knows to have been there."""

    number: int
    digest: str


def base_path(workspace: Path) -> Path:
    """Return where the verified beginning is noted."""
    return workspace / CHAIN / "verified.txt"


def _seen_path(workspace: Path) -> Path:
    return workspace / CHAIN / "newest.json"


def load_base(workspace: Path) -> Base:
    """Return the verified beginning, or nothing where there is none that can be read.

    The file has a checksum of the rest, a line of facts, and a line for every account, of which
    only those that are asked for are ever parsed.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, UsageError):
        contents = foreign.read_bytes(base_path(workspace))
        digest, rest = contents[:_SHA256], contents[_SHA256 + 1 :]
        if hashlib.sha256(rest).hexdigest().encode("ascii") == digest:
            facts, *lines = rest.decode("utf-8").rstrip("\n").split("\n")
            known = json.loads(facts)
            if known["form"] == _FORM and isinstance(known["number"], int):
                noted = dict(line.split("\t", 1) for line in lines)
                accounts = Accounts(noted)
                return Base(known["number"], str(known["digest"]), accounts, known["checkpoint"])
    return NOTHING


def save_base(workspace: Path, base: Base) -> None:
    """Note a verified beginning, where the workspace can be written."""
    facts = {"form": _FORM, "number": base.number, "digest": base.digest,
             "checkpoint": base.checkpoint}  # fmt: skip
    lines = [json.dumps(facts, separators=(",", ":"))]
    lines += (f"{name}\t{text}" for name, text in base.accounts.texts())  # names have no tab
    rest = ("\n".join(lines) + "\n").encode("utf-8")
    digest = hashlib.sha256(rest).hexdigest().encode("ascii")
    _save(workspace, base_path(workspace), digest + b"\n" + rest)


def load_seen(workspace: Path) -> Seen | None:
    """Return the newest entry that was seen from here, if that is known."""
    known = _load(_seen_path(workspace))
    with contextlib.suppress(KeyError, TypeError):
        if isinstance(known["number"], int) and isinstance(known["digest"], str):
            return Seen(known["number"], known["digest"])
    return None


def save_seen(workspace: Path, seen: Seen) -> None:
    """Note the newest entry, where the workspace can be written."""
    facts = {"number": seen.number, "digest": seen.digest}
    text = json.dumps({"facts": facts, "sha256": _checksum(facts)}, separators=(",", ":"))
    _save(workspace, _seen_path(workspace), text + "\n")


def _load(path: Path) -> Any:
    """Return what a file holds whose checksum fits; a damaged one counts as none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, UsageError):
        known = json.loads(foreign.read_bytes(path))
        if known["sha256"] == _checksum(known["facts"]):
            return known["facts"]
    return {}


def _save(workspace: Path, path: Path, contents: str | bytes) -> None:
    with contextlib.suppress(OSError, UsageError):
        private_folder(workspace, CHAIN)
        write_atomically(path, contents, durable=False)  # a lost one costs time alone


def _checksum(facts: Any) -> str:
    text = json.dumps(facts, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()

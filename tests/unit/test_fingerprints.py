"""Fingerprints: of the records and a key, and the key is not made anew beside what it named."""

from __future__ import annotations

import json
import os
import stat
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpkv.errors import LedgerError, UsageError
from dpkv.fingerprints import array_fingerprint, file_fingerprint
from dpkv.ledger import Chain, Ledger

VALUES = np.arange(6.0).reshape(3, 2)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_fingerprint_depends_on_values_and_key(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    values = np.arange(6.0).reshape(3, 2)
    first = array_fingerprint(values, here)
    assert first == array_fingerprint(values.astype(np.float32), here)
    assert first != array_fingerprint(values + 1e-12, here)
    assert first != array_fingerprint(values.reshape(2, 3), here)
    assert first != array_fingerprint(values, there)
    assert mode(here / "keys" / "fingerprint.key") == 0o600


def test_a_files_fingerprint_is_of_its_bytes_and_the_key(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_bytes(b"a\n1\n")
    two.write_bytes(b"a\n1\n")
    here, there = tmp_path / "here", tmp_path / "there"
    first = file_fingerprint(one, here)
    assert first == file_fingerprint(two, here), "a copy is the same table"
    assert first != file_fingerprint(one, there), "another workspace, another key"
    two.write_bytes(b"a\n2\n")
    assert first != file_fingerprint(two, here)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / ".dpkv"


def key_of(workspace: Path) -> Path:
    return workspace / "keys" / "fingerprint.key"


def charged(workspace: Path, dataset: str | None = None) -> str:
    """Return the account of the values, having charged it."""
    account = dataset or array_fingerprint(VALUES, workspace)
    Ledger(workspace).charge(
        release_id="mine",
        dataset=account,
        label="array",
        eps=Decimal(1),
        neighbours="replace-one",
        end_to_end=True,
        plan_digest="a" * 64,
    )
    return account


def test_a_key_that_is_gone_is_not_made_anew_beside_what_it_named(workspace: Path) -> None:
    account = charged(workspace)
    key = key_of(workspace).read_bytes()
    key_of(workspace).unlink()
    for call in (
        lambda: array_fingerprint(VALUES, workspace),
        lambda: file_fingerprint(Path(__file__), workspace),
    ):
        with pytest.raises(UsageError, match=r"key .* is gone, .* restore it from a backup"):
            call()
    assert not key_of(workspace).exists()
    key_of(workspace).write_bytes(key)
    assert array_fingerprint(VALUES, workspace) == account


def test_a_budget_is_enough_to_keep_the_key(workspace: Path) -> None:
    account = array_fingerprint(VALUES, workspace)
    Ledger(workspace).set_budget(dataset=account, label="array", eps=Decimal(1))
    key_of(workspace).unlink()
    with pytest.raises(UsageError, match="is gone"):
        array_fingerprint(VALUES, workspace)


def test_accounts_by_name_need_no_key(workspace: Path) -> None:
    charged(workspace, "name:people")
    assert array_fingerprint(VALUES, workspace)


def test_before_anything_is_charged_a_lost_key_may_be_replaced(workspace: Path) -> None:
    first = array_fingerprint(VALUES, workspace)
    Ledger(workspace).prepare()
    key_of(workspace).unlink()
    assert array_fingerprint(VALUES, workspace) != first


def test_without_ledger_and_key_the_kept_releases_still_tell(workspace: Path) -> None:
    charged(workspace)
    (workspace / "releases").mkdir()
    quote = {"number": 1, "digest": Ledger(workspace).read().entries[0].digest}
    record = json.dumps({"ledger": quote})
    (workspace / "releases" / "mine.json").write_text(record, encoding="utf-8")
    key_of(workspace).unlink()
    Ledger(workspace).path.unlink()
    with pytest.raises(LedgerError, match="lacks entry 1"):
        array_fingerprint(VALUES, workspace)


@pytest.mark.parametrize("length", [0, 1, 31, 33], ids=["empty", "one byte", "cut", "longer"])
def test_a_key_of_another_length_is_refused(workspace: Path, length: int) -> None:
    array_fingerprint(VALUES, workspace)
    key_of(workspace).write_bytes(b"x" * length)
    with pytest.raises(UsageError, match=f"must have 32 bytes. It has {length}: restore it"):
        array_fingerprint(VALUES, workspace)


def test_a_key_that_others_may_read_is_closed(workspace: Path) -> None:
    first = array_fingerprint(VALUES, workspace)
    key_of(workspace).chmod(0o644)
    assert array_fingerprint(VALUES, workspace) == first
    assert mode(key_of(workspace)) == 0o600


def test_a_link_in_place_of_the_key_is_refused(workspace: Path, tmp_path: Path) -> None:
    array_fingerprint(VALUES, workspace)
    key_of(workspace).rename(tmp_path / "known")
    key_of(workspace).symlink_to(tmp_path / "known")
    with pytest.raises(UsageError, match="must be a plain file"):
        array_fingerprint(VALUES, workspace)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give away")
def test_a_key_of_another_user_is_refused(workspace: Path) -> None:
    array_fingerprint(VALUES, workspace)
    os.chown(key_of(workspace), 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        array_fingerprint(VALUES, workspace)


def test_a_key_that_another_process_makes_and_uses_meanwhile_is_taken(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key was not there at the first look; the ledger, read next, has accounts by it."""
    verify = Ledger.verify
    others: list[str] = []

    def verify_after_another(ledger: Ledger) -> Chain:
        with monkeypatch.context() as undone:
            undone.setattr(Ledger, "verify", verify)
            others.append(charged(workspace))
        return verify(ledger)

    monkeypatch.setattr(Ledger, "verify", verify_after_another)
    assert array_fingerprint(VALUES, workspace) == others[0]

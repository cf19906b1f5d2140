"""Checkpoints: a cut-off tail, a rewritten past and a ledger begun anew are found; proofs prove."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from support.run import RELEASE, Run, in_process, refusal

from dpkv.errors import UsageError, VerificationError
from dpkv.ledger import Ledger
from dpkv.ledger.merkle import inclusion_proof, is_included, merkle_root
from dpkv.releases.checkpoints import (
    Checkpoint,
    InclusionProof,
    check_extends,
    make_checkpoint,
    prove,
    read_checkpoint,
)
from dpkv.releases.record import LedgerReference
from dpkv.releases.signing import SigningKey

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")

# --- trees --------------------------------------------------------------------------------------

DIGESTS = [sha256(str(number).encode()).hexdigest() for number in range(20)]


def plain_root(digests: list[str]) -> bytes:
    """Return the root by RFC 6962's definition, written down again."""
    if len(digests) == 1:
        return sha256(b"\x00" + bytes.fromhex(digests[0])).digest()
    middle = 1
    while 2 * middle < len(digests):
        middle *= 2
    return sha256(b"\x01" + plain_root(digests[:middle]) + plain_root(digests[middle:])).digest()


@pytest.mark.parametrize("count", range(1, 18))
def test_every_leaf_has_a_proof_and_no_other_leaf_has_it(count: int) -> None:
    digests = DIGESTS[:count]
    root = merkle_root(digests)
    assert root == plain_root(digests).hex()
    for number in range(1, count + 1):
        proof = inclusion_proof(digests, number)
        assert is_included(digests[number - 1], number, count, proof, root)
        assert not is_included(DIGESTS[18], number, count, proof, root)
        assert not is_included(digests[number - 1], number, count, (*proof, DIGESTS[0]), root)
        assert not is_included(digests[number - 1], number % count + 1, count, proof, root) or (
            count == 1
        )
        if proof:
            altered = (DIGESTS[19], *proof[1:])
            assert not is_included(digests[number - 1], number, count, altered, root)
            assert not is_included(digests[number - 1], number, count, proof[1:], root)
    assert not is_included(digests[0], 0, count, (), root)


# --- checkpoints --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey(ed25519.Ed25519PrivateKey.generate())


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / ".dpkv")
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(5))
    charge(ledger, 4)
    return ledger


def charge(ledger: Ledger, n_charges: int) -> None:
    start = len(ledger.read())
    for number in range(start, start + n_charges):
        ledger.charge(
            release_id=f"r{number}",
            dataset="d1",
            label="x",
            eps=Decimal("0.1"),
            neighbours="replace-one",
            end_to_end=True,
            plan_digest="a" * 64,
        )


def test_a_ledger_extends_its_checkpoint(ledger: Ledger, key: SigningKey) -> None:
    made = make_checkpoint(ledger, key)
    assert made.n_entries == 5 and made.head == ledger.read().entries[4].digest
    check_extends(ledger.verify(), made)
    charge(ledger, 3)
    chain = ledger.verify()
    check_extends(chain, made)
    assert chain.entries[5].kind == "checkpoint"
    assert {entry.more["checkpoint"] for entry in chain.entries[6:]} == {made.digest}
    assert LedgerReference.of(chain.entries[6]).checkpoint == made.digest
    assert LedgerReference.of(chain.entries[1]).checkpoint is None


def raw(ledger: Ledger, *statements: str) -> None:
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        for name in ("no_update", "no_delete", "only_append"):
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
    shutil.rmtree(ledger.workspace / "chain")  # what the workspace saw would tell it, too


def cut_off(ledger: Ledger) -> None:
    raw(ledger, "DELETE FROM entries WHERE number > 3")


def begun_anew(ledger: Ledger) -> None:
    shutil.rmtree(ledger.workspace)
    charge(ledger, 9)


def rewritten(ledger: Ledger) -> None:
    """The same number of entries, the past another one, the chain whole."""
    shutil.rmtree(ledger.workspace)
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(50))
    charge(ledger, 5)


@pytest.mark.parametrize("fault", [cut_off, begun_anew, rewritten])
def test_what_a_checkpoint_finds(ledger: Ledger, key: SigningKey, fault: object) -> None:
    made = make_checkpoint(ledger, key)
    assert callable(fault)
    fault(ledger)
    chain = ledger.verify()  # by itself it checks out
    with pytest.raises(VerificationError, match="begun anew"):
        check_extends(chain, made)


def test_an_altered_checkpoint_is_refused(ledger: Ledger, key: SigningKey) -> None:
    made = make_checkpoint(ledger, key)
    for change in (
        {"n_entries": 4},
        {"head": "0" * 64},
        {"root": "0" * 64},
        {"created": "2001-01-01T00:00:00+00:00"},
        {"public_key": "AAAA"},
        {"signature": "AAAA"},
    ):
        with pytest.raises(VerificationError, match="signature does not fit"):
            check_extends(ledger.verify(), made.model_copy(update=change))


def test_an_empty_ledger_has_no_checkpoint(tmp_path: Path, key: SigningKey) -> None:
    with pytest.raises(UsageError, match="the ledger is empty"):
        make_checkpoint(Ledger(tmp_path / ".dpkv"), key)


def test_a_proof_is_verified_without_the_ledger(ledger: Ledger, key: SigningKey) -> None:
    made = make_checkpoint(ledger, key)
    chain = ledger.verify()
    for number in range(1, 6):
        proof = prove(chain, number, made)
        again = InclusionProof.model_validate_json(proof.to_json())
        again.check(LedgerReference.of(chain.entries[number - 1]), made)
        other = LedgerReference.of(chain.entries[number % 5])
        with pytest.raises(VerificationError, match="another entry than the record quotes"):
            again.check(other)
        lying = again.model_copy(update={"digest": other.digest})
        with pytest.raises(VerificationError, match="does not show entry"):
            lying.check(None)
    charge(ledger, 1)
    newer = make_checkpoint(ledger, key)
    with pytest.raises(VerificationError, match="for another checkpoint"):
        prove(ledger.verify(), 1, made).check(None, newer)
    with pytest.raises(UsageError, match="not among the 5 entries"):
        prove(ledger.verify(), 6, made)


def test_a_short_chain_of_noted_sums_knows_its_checkpoint(
    ledger: Ledger, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpkv.ledger import ledger as module

    monkeypatch.setattr(module, "EVERY", 3)
    made = make_checkpoint(ledger, key)
    charge(ledger, 8)
    chain = ledger.read()
    assert chain.base.number > 6 and chain.checkpoint == made.digest == ledger.verify().checkpoint
    assert replace(chain.base, checkpoint=None) != chain.base


# --- the commands -------------------------------------------------------------------------------


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    key: SigningKey,
) -> Run:
    (tmp_path / "t.csv").write_text("a,b\n0.1,0.2\n0.5,0.5\n-0.5,-0.5\n", encoding="utf-8")
    contents = key.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / "key.pem").write_bytes(contents)
    return in_process(monkeypatch, capsys, tmp_path, secret="BEGIN PRIVATE")


def test_from_a_release_to_a_proof(run: Run, tmp_path: Path) -> None:
    assert run(*RELEASE, "--id=mine", "--out=1").returncode == 0
    made = run("ledger", "checkpoint", "--sign=key.pem")
    assert made.stdout.startswith("checkpoint of 2 entries, root ")
    assert "is there already" in refusal(run("ledger", "checkpoint", "--sign=key.pem"))
    checked = run("ledger", "verify", "--against=checkpoint.json")
    assert "extends the checkpoint of 2 entries by the key" in checked.stdout
    assert run(*RELEASE, "--id=later", "--out=2").returncode == 0
    quoted = json.loads((tmp_path / "2" / "release.json").read_text(encoding="utf-8"))["ledger"]
    assert quoted["checkpoint"] == read_checkpoint(tmp_path / "checkpoint.json").digest
    assert run("verify", "2/release.json").returncode == 0
    assert run("ledger", "prove", "mine").returncode == 0
    for name in (".dpkv", "key.pem", "t.csv"):
        (tmp_path / name).rename(tmp_path.parent / f"{tmp_path.name}-{name}")
    known = ("--record=1/release.json", "--against=checkpoint.json")
    told = run("ledger", "check-proof", "proof.json", *known)
    assert told.stdout.startswith("pass: entry 1 is among the 2 entries") and told.stderr == ""
    wrong = refusal(run("ledger", "check-proof", "proof.json", "--record=2/release.json"), 3)
    assert "another entry than the record quotes" in wrong
    assert (
        Checkpoint.model_validate_json((tmp_path / "checkpoint.json").read_bytes()).n_entries == 2
    )


def test_a_cut_off_ledger_has_exit_code_3(run: Run, tmp_path: Path) -> None:
    assert run("ledger", "set-budget", "t.csv", "--eps=1").returncode == 0
    assert run("ledger", "set-budget", "t.csv", "--eps=2").returncode == 0
    assert run("ledger", "checkpoint", "--sign=key.pem").returncode == 0
    raw(Ledger(tmp_path / ".dpkv"), "DELETE FROM entries WHERE number > 1")
    assert run("ledger", "verify").returncode == 0
    told = refusal(run("ledger", "verify", "--against=checkpoint.json"), exit_code=3)
    assert "its tail was cut off" in told

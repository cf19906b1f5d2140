"""Checkpoints: small signed heads of a ledger, to publish or to mail, and proofs of inclusion.

A checkpoint says how many entries there were, what the digest of the last one was, and the root of
a Merkle tree over all of them. Whoever keeps one can see later that a ledger extends it: a cut-off
tail, a rewritten past and a ledger begun anew all fail. A proof shows to somebody who has a record
and a checkpoint, and no ledger, that the entry the record quotes is among those of the checkpoint.
Digests are of salted entries, so neither says anything of what was charged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dpkv import foreign
from dpkv.errors import UsageError, VerificationError
from dpkv.ledger import Chain, Ledger
from dpkv.ledger.merkle import inclusion_proof, is_included, merkle_root
from dpkv.releases.canonical import digest
from dpkv.releases.frozen import Frozen
from dpkv.releases.parsing import parse
from dpkv.releases.record import LedgerReference, utc_now
from dpkv.releases.signing import SigningKey, is_signature
from dpkv.validation import LARGEST_WHOLE

_SHA256 = r"^[0-9a-f]{64}$"
Digest = Annotated[str, Field(pattern=_SHA256)]


class Checkpoint(Frozen):
    """The head of a ledger, signed."""

    schema_version: Literal[1] = 1
    kind: Literal["ledger-checkpoint"] = "ledger-checkpoint"
    n_entries: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
    head: Digest
    """The digest of the last of these entries."""
    root: Digest
    """Of the Merkle tree over the digests of all of them."""
    created: str
    public_key: str
    signature: str
    """Ed25519, of the canonical JSON of everything else."""

    @property
    def digest(self) -> str:
        """The SHA-256 by which ledgers and records quote the checkpoint."""
        return digest(self.canonical())

    def check(self) -> None:
        """Refuse a checkpoint that is not signed by the key that it names."""
        if not is_signature(self.public_key, self.signature, self.canonical(exclude={"signature"})):
            raise VerificationError("the checkpoint's signature does not fit it: it was altered.")

    def to_json(self) -> str:
        """Return the checkpoint as JSON text."""
        return self.model_dump_json(indent=2) + "\n"


class InclusionProof(Frozen):
    """That an entry is among those of a checkpoint."""

    schema_version: Literal[1] = 1
    kind: Literal["ledger-inclusion-proof"] = "ledger-inclusion-proof"
    number: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
    digest: Digest
    """Of the entry."""
    path: Annotated[tuple[Digest, ...], Field(max_length=64)]
    checkpoint: Checkpoint

    def check(self, reference: LedgerReference | None, expected: Checkpoint | None = None) -> None:
        """Refuse a proof that proves nothing, or not of this record or for this checkpoint."""
        self.checkpoint.check()
        if expected is not None and expected != self.checkpoint:
            raise VerificationError("the proof is for another checkpoint.")
        if reference is not None and (self.number, self.digest) != (
            reference.number, reference.digest,
        ):  # fmt: skip
            raise VerificationError("the proof is for another entry than the record quotes.")
        known = self.checkpoint
        if not is_included(self.digest, self.number, known.n_entries, self.path, known.root):
            raise VerificationError(
                f"the proof does not show entry {self.number} among the checkpoint's entries."
            )

    def to_json(self) -> str:
        """Return the proof as JSON text."""
        return self.model_dump_json(indent=2) + "\n"


def make_checkpoint(ledger: Ledger, key: SigningKey) -> Checkpoint:
    """Verify the ledger, sign its head, and note in it that this was done."""
    chain = ledger.verify()
    if not len(chain):
        raise UsageError("the ledger is empty: there is nothing to sign.")
    unsigned = Checkpoint(
        n_entries=len(chain),
        head=chain.digest,
        root=merkle_root([entry.digest for entry in chain.entries]),
        created=utc_now(),
        public_key=key.public_key,
        signature="",
    )
    signature = key.sign_bytes(unsigned.canonical(exclude={"signature"}))
    made = unsigned.model_copy(update={"signature": signature})
    ledger.note_checkpoint(made.digest)
    return made


def check_extends(chain: Chain, checkpoint: Checkpoint) -> None:
    """Refuse a ledger that does not extend a checkpoint of it."""
    checkpoint.check()
    count = checkpoint.n_entries
    if len(chain) < count:
        raise VerificationError(
            f"the ledger has {len(chain)} entries, and had {count} at the checkpoint: its tail was "
            "cut off, or it was begun anew."
        )
    digests = [entry.digest for entry in chain.entries[:count]]
    if digests[-1] != checkpoint.head or merkle_root(digests) != checkpoint.root:
        raise VerificationError(
            "the ledger's entries are not those of the checkpoint: its past was rewritten, or it "
            "was begun anew."
        )


def prove(chain: Chain, number: int, checkpoint: Checkpoint) -> InclusionProof:
    """Return the proof that an entry of the ledger is among those of a checkpoint."""
    check_extends(chain, checkpoint)
    if not 1 <= number <= checkpoint.n_entries:
        raise UsageError(
            f"entry {number} is not among the {checkpoint.n_entries} entries of the checkpoint: "
            "make a newer one with 'dpkv ledger checkpoint'."
        )
    digests = [entry.digest for entry in chain.entries[: checkpoint.n_entries]]
    return InclusionProof(
        number=number,
        digest=digests[number - 1],
        path=inclusion_proof(digests, number),
        checkpoint=checkpoint,
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that somebody else may have written."""
    return parse(Checkpoint, foreign.text_of(path), path, "checkpoint")


def read_proof(path: Path) -> InclusionProof:
    """Read a proof that somebody else may have written."""
    return parse(InclusionProof, foreign.text_of(path), path, "proof of inclusion")

"""``dpkv ledger checkpoint``, ``prove`` and ``check-proof``: what others can hold a ledger to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkv.cli import options, output
from dpkv.errors import UsageError, VerificationError
from dpkv.settings import find_workspace


def checkpoint(
    sign: Annotated[Path, typer.Option(help="The Ed25519 key (PEM) that signs the checkpoint.")],
    out: Annotated[Path, typer.Option(help="A new file for it.")] = Path("checkpoint.json"),
    as_json: options.AsJson = False,
) -> None:
    """Sign the ledger's head, to publish or to mail: whoever has it sees if entries are lost.

    It says how many entries there are, the digest of the last one, and the root of a Merkle tree
    over all. Later releases quote it.

    Example:  dpkv ledger checkpoint --sign key.pem
    """
    from dpkv.ledger import Ledger
    from dpkv.releases.checkpoints import make_checkpoint
    from dpkv.releases.signing import SigningKey

    key = SigningKey.from_pem(sign)
    _check_new_file(out)
    made = make_checkpoint(Ledger(find_workspace()), key)
    _write_new(out, made.to_json())
    if as_json:
        output.print_json_text(made.to_json())
    else:
        output.say(f"checkpoint of {made.n_entries} entries, root {made.root}, written to {out}")


def prove(
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="The entry's number, or the release's id.")
    ],
    against: Annotated[Path, typer.Option(help="The checkpoint to prove it for.")] = Path(
        "checkpoint.json"
    ),
    out: Annotated[Path, typer.Option(help="A new file for the proof.")] = Path("proof.json"),
    as_json: options.AsJson = False,
) -> None:
    """Prove that an entry is among those of a checkpoint, to somebody who has no ledger.

    Example:  dpkv ledger prove 2 --against checkpoint.json
    """
    from dpkv.ledger import Ledger
    from dpkv.releases import checkpoints

    known = checkpoints.read_checkpoint(against)
    _check_new_file(out)
    chain = Ledger(find_workspace()).verify()
    charged = chain.find(entry)
    if charged is None and not entry.isdecimal():
        raise UsageError(f"ENTRY must be a number or the id of a release. Got {entry!r} instead.")
    number = charged.number if charged is not None else int(entry[:18])
    proof = checkpoints.prove(chain, number, known)
    _write_new(out, proof.to_json())
    if as_json:
        output.print_json_text(proof.to_json())
    else:
        output.say(f"proof that entry {number} is in the checkpoint, written to {out}")


def check_proof(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof of inclusion.")],
    record: Annotated[
        Path | None,
        typer.Option(help="The release record whose charge it must be.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="The checkpoint as you know it.", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a proof of inclusion, without any ledger; exit code 3 where it proves nothing.

    Example:  dpkv ledger check-proof proof.json --record release.json --against checkpoint.json
    """
    from dpkv import foreign
    from dpkv.releases import checkpoints
    from dpkv.releases.kept_releases import parse_record

    found = checkpoints.read_proof(proof)
    reference = None
    if record is not None:
        reference = parse_record(foreign.text_of(record), record).ledger
        if reference is None:
            raise VerificationError(f"{record} quotes no entry of a ledger.")
    found.check(reference, None if against is None else checkpoints.read_checkpoint(against))
    if as_json:
        output.print_json({"schema_version": 1, "kind": "proof-check", "passed": True})
        return
    output.say(
        f"pass: entry {found.number} is among the {found.checkpoint.n_entries} entries that the "
        f"key {found.checkpoint.public_key} signed"
    )
    if record is None or against is None:
        output.note(
            "give --record to see that the entry is that release's, and --against for a "
            "checkpoint that you had from elsewhere: anybody can make a key."
        )


def _check_new_file(path: Path) -> None:
    if path.exists():
        raise UsageError(f"{path} is there already: choose a new file with --out.")


def _write_new(path: Path, text: str) -> None:
    from dpkv.workspace import write_once

    try:
        written = write_once(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    if not written:
        _check_new_file(path)

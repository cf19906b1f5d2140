"""``dpkv verify``: re-check a release, its synopsis, or an audit's witness, from files alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv import foreign
from dpkv.cli import options, output
from dpkv.errors import UsageError, VerificationError
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.releases import Check, ReleaseRecord

_NOBODY = (
    ", but nobody vouches for it: the record is consistent, and nothing here shows that these "
    "centres came from this mechanism"
)
_MARKS = {True: "pass", False: "FAIL", None: "-"}


def verify(
    record: Annotated[
        Path,
        typer.Argument(
            metavar="RECORD",
            help="A release.json, the synopsis.json beside it, or a witness of an audit.",
        ),
    ],
    public_key: Annotated[
        Path | None, typer.Option(help="The Ed25519 key (PEM) that must have signed the record.")
    ] = None,
    trusted_keys: Annotated[
        Path | None,
        typer.Option(
            help="Public keys (PEM, one after another) whose signatures count (default: "
            "keys/trusted.pem of the workspace).",
            show_default=False,
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="Where the curator's ledger is, if it is here (default: as for all commands).",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail where nobody vouches (a ledger here, or a key that you named), or something "
            "else could not be checked.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Recompute what a release costs from its description, and check digests, ledger, signature.

    A signature counts if you name the key. Exit code 3 where something does not check out.

    Example:  dpkv verify release/release.json
    """
    from dpkv.releases.kept_releases import parse_record
    from dpkv.releases.parsing import kind_of
    from dpkv.releases.verify import failed

    text = foreign.text_of(record)
    named = _Named(public_key, trusted_keys, workspace or find_workspace())
    kind = kind_of(text)
    if kind in ("witness", "run-witness"):
        found = _witness_checks(text, record, named)
    elif kind == "synopsis":
        found = _synopsis_checks(text, record, named)
    else:
        found = _release_checks(parse_record(text, record), record, named)
    if strict:
        found = replace(found, checks=tuple(_strictly(check) for check in found.checks))
    if as_json:
        output.print_json(_result(found))
    else:
        _show(found)
    if wrong := failed(found.checks):
        reasons = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        raise VerificationError(f"{record} does not check out: {reasons}")


@dataclass(frozen=True)
class _Found:
    """What was checked, and the sentence that holds where nothing failed."""

    title: str
    release_id: str | None
    checks: tuple[Check, ...]
    statement: str
    vouched_by: tuple[str, ...] | None = None
    """Who says that the record is what happened; None where nobody needs to."""


@dataclass(frozen=True)
class _Named:
    """Whom the caller believes."""

    public_key: Path | None
    trusted_keys: Path | None
    workspace: Path

    @property
    def home(self) -> Path | None:
        return self.workspace if self.workspace.is_dir() else None

    def key(self) -> str | None:
        from dpkv.releases.signing import public_key_text

        return None if self.public_key is None else public_key_text(self.public_key)

    def trusted(self) -> tuple[str, ...]:
        from dpkv.releases.signing import trusted_here, trusted_key_texts

        if self.trusted_keys is None:
            return trusted_here(self.home)
        return trusted_key_texts(self.trusted_keys)


def _strictly(check: Check) -> Check:
    """Return a check that fails where it could not be made, unless another one stands in for it."""
    from dpkv.releases.verify import VOUCHING

    if check.passed is None and check.name not in VOUCHING:
        return replace(check, passed=False)
    return check


def _release_checks(
    release: ReleaseRecord, path: Path | None, named: _Named, synopsis: str | None = None
) -> _Found:
    """Check a record, the files beside it where it has a path, and maybe a synopsis of it."""
    from dpkv.releases.files import centers_name, synopsis_name
    from dpkv.releases.verify import verify as all_checks
    from dpkv.releases.verify import vouchers

    centers = None
    if path is not None:
        centers = foreign.text_if_there(path.with_name(centers_name(release)))
        if synopsis is None and release.synopsis_digest is not None:
            synopsis = foreign.text_if_there(path.with_name(synopsis_name(release)))
    checks = all_checks(
        release,
        csv_text=centers,
        synopsis_text=synopsis,
        workspace=named.home,
        public_key=named.key(),
        trusted_keys=named.trusted(),
    )
    title = f"{release.kind} {release.release_id or ''}".rstrip()
    vouched_by = vouchers(release, checks)
    mere_claim = release.guarantee.end_to_end and not vouched_by
    statement = f"The record claims: {release.summary}" if mere_claim else release.summary
    return _Found(title, release.release_id, checks, statement, vouched_by)


def _synopsis_checks(text: str, path: Path, named: _Named) -> _Found:
    """Check a synopsis by its record: the one beside it, or the one that the workspace keeps."""
    from dpkv.releases.standing import NO_RECORD, records_of
    from dpkv.releases.synopsis import parse_synopsis

    synopsis = parse_synopsis(text, path)
    candidates = records_of(text, synopsis, path.parent, named.home)
    if not candidates:
        raise UsageError(f"{path} cannot be verified: {NO_RECORD}.")
    record, beside = candidates[0]
    found = _release_checks(record, beside, named, text)
    return replace(found, title=f"synopsis of {found.title}")


def _witness_checks(text: str, path: Path, named: _Named) -> _Found:
    from dpkv.audits.run_witness import check_run_witness, parse_run_witness
    from dpkv.audits.witness import check_witness, parse_witness
    from dpkv.releases.parsing import kind_of

    if named.public_key is not None or named.trusted_keys is not None:
        raise UsageError(
            "--public-key and --trusted-keys are for releases: a witness needs no signature."
        )
    if kind_of(text) == "run-witness":
        run = parse_run_witness(text, path)
        said = f"By this run eps is at least {run.loss:.6g}; {run.claimed_eps} is claimed."
        return _Found("witness of a run", None, check_run_witness(run), said)
    witness = parse_witness(text, path)
    statement = (
        f"By this witness eps is at least {witness.loss:.6g}; {witness.claimed_eps} is claimed."
    )
    return _Found("witness", None, check_witness(witness), statement)


def _result(found: _Found) -> dict[str, object]:
    return {
        "schema_version": 1,
        "kind": "verification",
        "release_id": found.release_id,
        "passed": all(check.passed is not False for check in found.checks),
        "checks": [
            {"name": check.name, "passed": check.passed, "detail": check.detail}
            for check in found.checks
        ],
        "vouched_for": None if found.vouched_by is None else bool(found.vouched_by),
        "vouched_by": list(found.vouched_by or ()),
        "statement": found.statement,
    }


def _show(found: _Found) -> None:
    rows = [[check.name, _MARKS[check.passed], check.detail] for check in found.checks]
    output.print_facts(found.title, rows)
    if all(check.passed is not False for check in found.checks):
        output.say(f"pass{_NOBODY if found.vouched_by == () else ''}. {found.statement}")

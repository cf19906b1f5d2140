"""``dpkv verify``: re-check a release, or an audit's witness, from its record alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.reading import WORKSPACE
from dpkv.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from dpkv.releases import Check

_NOBODY = (
    ", but no ledger or signature was checked: the record is consistent, and nothing here shows "
    "that these centres came from this mechanism"
)
_MARKS = {True: "pass", False: "FAIL", None: "-"}


def verify(
    record: Annotated[
        Path, typer.Argument(metavar="RECORD", help="A release.json, or a witness of an audit.")
    ],
    public_key: Annotated[
        Path | None, typer.Option(help="The Ed25519 key (PEM) that must have signed the record.")
    ] = None,
    workspace: Annotated[
        Path, typer.Option(help="Where the curator's ledger is, if it is here.")
    ] = WORKSPACE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on what could not be checked, too.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Recompute what a release costs from its description, and check digests, ledger, signature.

    Exit code 3 where something does not check out.

    Example:  dpkv verify release/release.json
    """
    from dpkv.releases.verify import failed

    text = _text_of(record)
    assert text is not None
    if _is_witness(text):
        found = _witness_checks(text, record, public_key)
    else:
        found = _release_checks(text, record, public_key, workspace)
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
    vouched_for: bool = True
    """Whether a ledger or a signature says that the record is what happened."""


def _strictly(check: Check) -> Check:
    """Return a check that fails where it could not be made."""
    return replace(check, passed=bool(check.passed))


def _release_checks(text: str, path: Path, public_key: Path | None, workspace: Path) -> _Found:
    from dpkv.releases.files import centers_name, synopsis_name
    from dpkv.releases.signing import public_key_text
    from dpkv.releases.stored import parse_record
    from dpkv.releases.verify import verify as all_checks
    from dpkv.releases.verify import vouched_for

    key = None if public_key is None else public_key_text(public_key)
    release = parse_record(text, path)
    checks = all_checks(
        release,
        csv_text=_text_of(path.with_name(centers_name(release)), missing_ok=True),
        synopsis_text=_text_of(path.with_name(synopsis_name(release)), missing_ok=True)
        if release.synopsis_digest is not None
        else None,
        workspace=workspace if workspace.is_dir() else None,
        public_key=key,
    )
    title = f"{release.kind} {release.release_id or ''}".rstrip()
    return _Found(title, release.release_id, checks, release.summary, vouched_for(checks))


def _is_witness(text: str) -> bool:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("kind") == "witness"


def _witness_checks(text: str, path: Path, public_key: Path | None) -> _Found:
    from dpkv.audits.witness import check_witness, parse_witness

    if public_key is not None:
        raise UsageError("--public-key is for releases: a witness needs no signature.")
    witness = parse_witness(text, path)
    statement = (
        f"By this witness eps is at least {witness.loss:.6g}; {witness.claimed_eps} is claimed."
    )
    return _Found("witness", None, check_witness(witness), statement)


def _text_of(path: Path, *, missing_ok: bool = False) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        if missing_ok:
            return None
        raise UsageError(f"{path} does not exist: check the path.") from None
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: it must be a text file.") from None


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
        "vouched_for": found.vouched_for,
        "statement": found.statement,
    }


def _show(found: _Found) -> None:
    rows = [[check.name, _MARKS[check.passed], check.detail] for check in found.checks]
    output.print_facts(found.title, rows)
    if all(check.passed is not False for check in found.checks):
        print(f"pass{'' if found.vouched_for else _NOBODY}. {found.statement}")

"""``dpkv verify``: re-check a release from its record alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.reading import WORKSPACE
from dpkv.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from dpkv.releases import Check, ReleaseRecord

_MARKS = {True: "pass", False: "FAIL", None: "-"}


def verify(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A release.json.")],
    public_key: Annotated[
        Path | None, typer.Option(help="The Ed25519 key (PEM) that must have signed the record.")
    ] = None,
    workspace: Annotated[
        Path, typer.Option(help="Where the curator's ledger is, if it is here.")
    ] = WORKSPACE,
    as_json: options.AsJson = False,
) -> None:
    """Recompute what a release costs from its description, and check digests, ledger, signature.

    Exit code 3 where something does not check out.

    Example:  dpkv verify release/release.json
    """
    from dpkv.releases.files import centers_name
    from dpkv.releases.signing import public_key_text
    from dpkv.releases.stored import parse_record
    from dpkv.releases.verify import failed
    from dpkv.releases.verify import verify as all_checks

    key = None if public_key is None else public_key_text(public_key)
    text = _text_of(record)
    assert text is not None
    release = parse_record(text, record)
    checks = all_checks(
        release,
        csv_text=_text_of(record.with_name(centers_name(release)), missing_ok=True),
        workspace=workspace if workspace.is_dir() else None,
        public_key=key,
    )
    wrong = failed(checks)
    if as_json:
        output.print_json(_result(release, checks))
    else:
        _show(release, checks)
    if wrong:
        reasons = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        raise VerificationError(f"{record} does not check out: {reasons}")


def _text_of(path: Path, *, missing_ok: bool = False) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        if missing_ok:
            return None
        raise UsageError(f"{path} does not exist: check the path.") from None
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: it must be a text file.") from None


def _result(release: ReleaseRecord, checks: tuple[Check, ...]) -> dict[str, object]:
    return {
        "schema_version": 1,
        "kind": "verification",
        "release_id": release.release_id,
        "passed": all(check.passed is not False for check in checks),
        "checks": [
            {"name": check.name, "passed": check.passed, "detail": check.detail} for check in checks
        ],
        "statement": release.summary,
    }


def _show(release: ReleaseRecord, checks: tuple[Check, ...]) -> None:
    rows = [[check.name, _MARKS[check.passed], check.detail] for check in checks]
    output.print_facts(f"{release.kind} {release.release_id or ''}".rstrip(), rows)
    if all(check.passed is not False for check in checks):
        print(f"pass. {release.summary}")

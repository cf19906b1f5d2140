"""``dpkv export``: a release's record in the forms of registries, regulators and programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv import foreign
from dpkv.cli import options, output
from dpkv.errors import UsageError, VerificationError
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.releases import Check, ReleaseRecord


def export(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A release.json.")],
    to: Annotated[
        str,
        typer.Option(
            help="registry: an entry of the OpenDP deployments registry, tier 3; nist: a checklist "
            "by NIST SP 800-226; python: the call that would repeat the plan.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write (default: registry.yaml, nist-800-226.md or repeat.py beside "
            "the record).",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Hand a release over: write what its record says in the form that somebody asks for.

    The record is verified first. What it cannot know is left open, marked TO FILL IN.

    Example:  dpkv export release/release.json --to registry
    """
    from dpkv.releases.handover import FORMATS
    from dpkv.releases.handover import export as written_as
    from dpkv.releases.kept_releases import parse_record
    from dpkv.releases.parsing import kind_of
    from dpkv.validation import one_of

    one_of("--to", to, tuple(FORMATS))
    text = foreign.text_of(record)
    if kind_of(text) not in ("release", "simulation"):
        raise UsageError(f"{record} is no record of a release: name the release.json.")
    release = parse_record(text, record)
    vouched = _verify(release, record)
    target = output.check_target(out or record.with_name(FORMATS[to].file_name), record)
    made = written_as(release, to)
    output.write_public(target, made.text)
    if release.visibility != "public":
        target.chmod(0o600)  # as private as what it was made from
    shown = str(out or record.with_name(FORMATS[to].file_name))
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "kind": "export",
                "release_id": release.release_id,
                "to": to,
                "file": shown,
                "left_open": list(made.left_open),
                "vouched_for": vouched,
            }
        )
        return
    left = f"{len(made.left_open)} points, marked TO FILL IN" if made.left_open else "nothing"
    rows = [["form", made.title], ["file", shown], ["left open", left]]
    if not vouched:
        rows.append(["vouched for", "by nobody: the record is consistent, and may be made up"])
    output.print_facts(f"{release.kind} {release.release_id or ''}".rstrip(), rows)
    for point in made.left_open:
        output.say(f"  {point}")


def _verify(release: ReleaseRecord, path: Path) -> bool:
    """Refuse a record that does not check out; tell whether anybody vouches for it."""
    from dpkv.releases.checking import verify
    from dpkv.releases.verify import failed, vouchers

    home = find_workspace()
    checks: tuple[Check, ...] = verify(path, workspace=home if home.is_dir() else None)
    if wrong := failed(checks):
        reasons = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        raise VerificationError(f"{path} does not check out: {reasons}")
    return vouchers(release, checks) != ()  # None where nobody needs to

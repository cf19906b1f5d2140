"""What stands behind a private synopsis: a file can claim anything, its record can confirm it.

A synopsis's claims are confirmed where a record has its digest, everything about that record checks
out, and somebody vouches for the record: the ledger of the workspace, or a key that is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, SupportsIndex

import numpy as np

from dpkv import foreign
from dpkv.errors import ParameterError, UsageError
from dpkv.releases.canonical import digest
from dpkv.releases.files import CONDITIONAL, RECORD_NAMES, SIMULATED
from dpkv.releases.guarantee import Guarantee
from dpkv.releases.kept_releases import load_record, parse_record
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.signing import trusted_here
from dpkv.releases.synopsis import PrivateSynopsis, parse_synopsis
from dpkv.releases.verify import failed, verify, vouchers
from dpkv.releases.wording import CONDITIONAL as CONDITION
from dpkv.releases.wording import STATEMENTS, statement
from dpkv.settings import AUTO, workspace_or_none
from dpkv.types import Float64s

_SUFFIXES = {
    "confirmed": "",
    "unverified": "-unverified",
    "conditional": CONDITIONAL,
    "simulated": SIMULATED,
}
NO_RECORD = "no record of it is here: put its release.json beside it"


@dataclass(frozen=True)
class Standing:
    """What a synopsis may be said to be, and who says so."""

    kind: Literal["confirmed", "unverified", "conditional", "simulated"]
    """The last two by its own account, which nobody needs to confirm: they promise nothing."""
    claimed: str
    """What the file claims, in words."""
    reason: str
    """Who vouches, or why the claim is not confirmed."""
    vouched_by: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """What may be said of the synopsis, and of whatever is made from it."""
        if self.kind == "confirmed":
            return self.claimed
        if self.kind == "simulated":
            return STATEMENTS["simulated"]
        if self.kind == "conditional":
            return f"No end-to-end guarantee: {CONDITION}."
        return f"The file claims, unverified: {self.claimed} Not confirmed: {self.reason}."

    @property
    def suffix(self) -> str:
        """What the names of files that are made from it say of it."""
        return _SUFFIXES[self.kind]


_Candidate = tuple[ReleaseRecord, Path | None]


def records_of(
    text: str, synopsis: PrivateSynopsis, folder: Path, workspace: Path | None
) -> list[_Candidate]:
    """Return the records that may be this synopsis's, those with its digest first.

    They are beside the synopsis, with their path, or kept in the workspace. Where none can be used,
    the reason is raised; where there is none, the list is empty.
    """
    found: list[_Candidate] = []
    refusals: list[UsageError] = []
    for path in (*(folder / name for name in RECORD_NAMES), None):
        try:
            record = _kept(synopsis, workspace) if path is None else _beside(path)
        except UsageError as refusal:
            refusals.append(refusal)
        else:
            found += [] if record is None else [(record, path)]
    if not found and refusals:
        raise refusals[0]
    own = digest(text)
    return sorted(found, key=lambda one: one[0].synopsis_digest != own)


def _kept(synopsis: PrivateSynopsis, workspace: Path | None) -> ReleaseRecord | None:
    if workspace is None or synopsis.release_id is None:
        return None
    return load_record(workspace, synopsis.release_id)


def _beside(path: Path) -> ReleaseRecord | None:
    text = foreign.text_if_there(path)
    return None if text is None else parse_record(text, path)


def standing_of(
    text: str,
    synopsis: PrivateSynopsis,
    folder: Path,
    *,
    workspace: Path | None,
    trusted_keys: tuple[str, ...] = (),
) -> Standing:
    """Return what stands behind the synopsis of that text: its records are looked for, checked."""
    promise = synopsis.guarantee
    claimed = statement(promise)
    if not promise.end_to_end or synopsis.visibility != "public":
        return Standing(_without_promise(promise), claimed, "it promises nothing")
    try:
        candidates = records_of(text, synopsis, folder, workspace)
    except UsageError as error:
        return Standing("unverified", claimed, str(error).rstrip("."))
    if not candidates:
        return Standing("unverified", claimed, NO_RECORD)
    record, _ = candidates[0]
    checks = verify(record, synopsis_text=text, workspace=workspace, trusted_keys=trusted_keys)
    if wrong := failed(checks):
        return Standing("unverified", claimed, f"{wrong[0].name}: {wrong[0].detail}")
    names = vouchers(record, checks)
    if not names:
        return Standing("unverified", claimed, "nobody vouches for its record")
    who = f"vouched for by {' and '.join(names)}"
    return Standing("confirmed", claimed, who, names)


def _without_promise(promise: Guarantee) -> Literal["conditional", "simulated"]:
    return "simulated" if promise.status == "simulated" else "conditional"


def read_synopsis(
    path: str | Path,
    *,
    workspace: str | Path | None = AUTO,
    trusted_keys: tuple[str, ...] | None = None,
) -> PrivateSynopsis:
    """Read what ``dpkv release --export-synopsis`` wrote.

    ``standing`` of what is returned says whether the file's claims are confirmed: by a record
    beside it or in the workspace, that checks out and that the workspace's ledger or a trusted key
    vouches for. ``trusted_keys`` are public keys as records spell them; those in the workspace's
    keys/trusted.pem by default.
    """
    if not isinstance(path, (str, Path)):
        raise ParameterError("path", "the path of a synopsis", path)
    place = Path(path)
    text = foreign.text_of(place)
    found = parse_synopsis(text, path)
    home = workspace_or_none(workspace)
    if home is not None and not home.is_dir():
        home = None
    keys = trusted_here(home) if trusted_keys is None else trusted_keys
    return found.with_standing(
        standing_of(text, found, place.parent, workspace=home, trusted_keys=keys)
    )


def cluster_synopsis(
    synopsis: PrivateSynopsis | str | Path,
    k: SupportsIndex,
    *,
    rng: np.random.Generator | int | None = None,
) -> Float64s:
    """Return k centers of a private synopsis, or of the file it is in. Spends nothing.

    The centers are as private as the synopsis is: ``read_synopsis(path).standing`` says whether
    what its file claims is confirmed.
    """
    found = synopsis if isinstance(synopsis, PrivateSynopsis) else read_synopsis(synopsis)
    return found.cluster(k, rng=rng)

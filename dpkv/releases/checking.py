"""``dpkv.verify``: what ``dpkv verify`` does, from Python."""

from __future__ import annotations

from pathlib import Path

from dpkv import foreign
from dpkv.releases.files import centers_name, synopsis_name
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.produce import Release
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.signing import trusted_here
from dpkv.releases.verify import Check
from dpkv.releases.verify import verify as verify_record
from dpkv.settings import AUTO, workspace_or_none


def verify(
    release: Release | ReleaseRecord | str | Path,
    *,
    workspace: str | Path | None = AUTO,
    public_key: str | None = None,
) -> tuple[Check, ...]:
    """Check a release again: prices, promise, digests, ledger, signature.

    Parameters
    ----------
    release : what ``dpkv.release`` returned, its record, or the path of a record; beside that,
        files of centers and of a synopsis are checked as well.
    workspace : the curator's, where there is a ledger; "auto" as for ``dpkv.release``; None does
        without.
    public_key : whose signature is expected.

    Returns
    -------
    tuple of ``Check``, in order; ``passed`` is True, False, or None where it could not be made.

    Examples
    --------
    >>> import numpy as np, dpkv
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> done = dpkv.release(X, k=2, eps=1, bounds=(0, 1), workspace=None)
    >>> [one.name for one in dpkv.verify(done, workspace=None) if one.passed is False]
    []
    """
    home = workspace_or_none(workspace)
    texts: dict[str, str | None] = {"csv_text": None, "synopsis_text": None}
    if isinstance(release, Release):
        record = release.record
        if release.synopsis is not None:
            texts["synopsis_text"] = release.synopsis.to_json()
    elif isinstance(release, ReleaseRecord):
        record = release
    else:
        path = Path(release)
        record = parse_record(foreign.text_of(path), path)
        for name, file in (
            ("csv_text", centers_name(record)),
            ("synopsis_text", synopsis_name(record)),
        ):
            texts[name] = foreign.text_if_there(path.with_name(file))
    trusted = () if home is None else trusted_here(home)
    return verify_record(
        record, workspace=home, public_key=public_key, trusted_keys=trusted, **texts
    )

"""Data sets that were given a name once: an array of theirs must not open an account of its own.

Arrays and frames are known by their exact numbers, so a part or a changed copy looks like other
people. Where a name was given for columns that are called the same, it is asked for again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpkv.errors import UsageError
from dpkv.ledger import NAMED, Chain
from dpkv.releases.kept_releases import load_record
from dpkv.tables.naming import list_labels, quoted


def check_unnamed(known: Chain, workspace: Path, account: str, columns: Sequence[str]) -> None:
    """Refuse a new account without a name beside named ones of the same columns.

    What is known of columns is what the releases say that the workspace keeps.
    """
    if known.account(account).neighbours is not None:  # charged, or with a budget
        return
    found = list(_datasets_of(known, workspace, columns))
    if found:
        names = list_labels(quoted(found))
        raise UsageError(
            f"dataset must be given: releases of these columns were charged to {names}, and "
            "without it the data would have a budget of their own. Give that name if they concern "
            "the same people, or another one if they do not."
        )


def _datasets_of(known: Chain, workspace: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the names of the data sets with releases of these columns, in whatever order."""
    named = {one.dataset for one in known.accounts() if one.dataset.startswith(NAMED)}
    if not named:
        return
    for entry in known.entries:
        if entry.kind != "charge" or entry.dataset not in named or entry.release_id is None:
            continue
        with contextlib.suppress(UsageError):  # a record that is gone or damaged tells nothing
            record = load_record(workspace, entry.release_id)
            if record is not None and set(record.columns) == set(columns):
                named.discard(entry.dataset)
                yield entry.dataset.removeprefix(NAMED)

"""Data sets that were given a name once: an array of theirs must not open an account of its own.

Arrays and frames are known by their exact numbers, so a part or a changed copy looks like other
people. A frame is asked for a name once; from then on frames with columns that are called the same
are charged to that name, and who has other people in one gives another. Columns of an array are
called alike whatever they hold, so that the name is asked for again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dpkv.errors import UsageError
from dpkv.ledger import NAMED, Chain
from dpkv.releases.kept_releases import load_record
from dpkv.tables.naming import default_names, list_labels, quoted


def account_of_unnamed(
    known: Chain, workspace: Path, account: str, columns: Sequence[str], warn: Callable[[str], None]
) -> str:
    """Return the account of data without a name: its own, or the one that is remembered.

    A new account beside several named ones of the same columns is refused, and one of an array
    beside any. What is known of columns is what the releases say that the workspace keeps.
    """
    if known.account(account).neighbours is not None:  # charged, or with a budget
        return account
    found = list(_datasets_of(known, workspace, columns))
    has_names = tuple(columns) != default_names(len(columns))
    if has_names and len(found) == 1:
        warn(
            f"charged to the data set {quoted(found)[0]}, as releases of these columns were "
            "before: give another dataset for other people"
        )
        return f"{NAMED}{found[0]}"
    if has_names and not found:
        warn(
            "dataset is not named: without a name of your choice, which is remembered for these "
            "columns, every part and every changed copy of the table has a budget of its own"
        )
    if found:
        names = list_labels(quoted(found))
        raise UsageError(
            f"dataset must be given: releases of these columns were charged to {names}, and "
            "without it the data would have a budget of their own. Give that name if they concern "
            "the same people, or another one if they do not."
        )
    return account


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

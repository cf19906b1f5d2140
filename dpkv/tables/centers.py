"""Centres out: the one way they are written as CSV, so that the text has one digest."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from dpkv.types import Floats


def centers_csv(
    columns: Sequence[str], centers: Floats, sizes: Sequence[float] | None = None
) -> str:
    """Return the centres as CSV text; a number is the shortest decimal that rounds to it.

    Where sizes are known they are the last column, as whole numbers.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if sizes is None:
        writer.writerow(columns)
        writer.writerows(centers.tolist())
    else:
        writer.writerow([*columns, size_name(columns)])
        rows = zip(centers.tolist(), sizes, strict=True)
        writer.writerows([*row, round(size)] for row, size in rows)
    return text.getvalue()


def size_name(columns: Sequence[str]) -> str:
    """Return what the column of sizes is called: "size", or with underscores where one is."""
    name = "size"
    while name in columns:
        name += "_"
    return name

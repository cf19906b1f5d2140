"""Synthetic rows as a table like the one that was released from: categories are words again.

A synopsis holds the coordinates of rows; those of a column of categories say how likely each is.
What might be a formula to a spreadsheet gets an apostrophe, as in other tables that are written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from dpkv.releases.digits import in_width
from dpkv.simplices import ProductGrid
from dpkv.tables.naming import without_formula
from dpkv.types import Float64s


def synthetic_csv(
    values: Float64s, columns: Sequence[str], grid: object, rng: np.random.Generator
) -> tuple[tuple[str, ...], str]:
    """Return the names of a table's columns, and rows drawn from a synopsis as its CSV text."""
    groups = dict(grid.groups) if isinstance(grid, ProductGrid) else {}
    names, cells = [], []
    place = 0
    while place < len(columns):
        stop = groups.get(place, place + 1)
        if place in groups:
            name, levels = _named(columns[place:stop])
            names.append(without_formula(name))
            cells.append([levels[one] for one in _drawn(values[:, place:stop], rng)])
        else:
            own = values[:, place]
            width = float(np.ptp(own)) if len(own) else 1.0
            names.append(without_formula(columns[place]))
            cells.append([in_width(value, width) for value in own.tolist()])
        place = stop
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*cells, strict=True))
    return tuple(names), text.getvalue()


def _named(coordinates: Sequence[str]) -> tuple[str, list[str]]:
    """Return the column that coordinates such as "sex=F" and "sex=M" are of, and its categories."""
    first = coordinates[0]
    ends = [place for place, letter in enumerate(first) if letter == "="]
    shared = [end for end in ends if all(one.startswith(first[: end + 1]) for one in coordinates)]
    name = first[: shared[-1] if len(coordinates) > 1 else shared[0]]
    return name, [without_formula(one.removeprefix(f"{name}=")) for one in coordinates]


def _drawn(shares: Float64s, rng: np.random.Generator) -> list[int]:
    """Return a category for every row, each as likely as its share."""
    sums = np.cumsum(np.maximum(shares, 0.0), axis=1)
    marks = rng.random(len(shares)) * np.maximum(sums[:, -1], 1e-300)
    found = (sums < marks[:, np.newaxis]).sum(axis=1)
    return [int(one) for one in np.minimum(found, shares.shape[1] - 1)]

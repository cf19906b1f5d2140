"""How eps is shared out and a synopsis laid out: from public facts alone, chosen by measurement.

The constants are those that did best over many tables (``audits/synopsis_accuracy.py``). None of
them matters for privacy: the price of every part follows from its noise.
"""

from __future__ import annotations

from dataclasses import dataclass

_FEW, _MANY = 3, 20
"""Up to so many columns: cells of all columns and one step; cells of all columns; projected."""


@dataclass(frozen=True)
class Layout:
    """Shares of eps, in parts of any size, and the shape of the tree."""

    root: float
    """For the number of records, where it is private; elsewhere this goes to the counts."""
    tree: float
    counts: float
    means: float
    """For where in a cell its records are; 0 leaves that out."""
    steps: float
    """For all private Lloyd steps together."""
    n_steps: int
    norm_share: float
    """Of a step, for the histogram of norms."""
    first_cell: float
    """Records in a cell of the public first grid, times eps."""
    decay: float
    floor: float
    """Of the tree's tests, in scales of their noise."""
    threshold: float
    """Of the tests, in scales of the counts' noise."""
    levels: int
    project: bool


def layout(n_features: int) -> Layout:
    """Return the layout for so many columns."""
    if n_features <= _FEW:
        return Layout(
            root=0.02, tree=0.28, counts=0.50, means=0.0, steps=0.20, n_steps=1, norm_share=0.15,
            first_cell=40.0, decay=1.0, floor=0.7, threshold=2.0, levels=16, project=False,
        )  # fmt: skip
    if n_features <= _MANY:
        return Layout(
            root=0.02, tree=0.20, counts=0.15, means=0.20, steps=0.43, n_steps=2, norm_share=0.1,
            first_cell=40.0, decay=1.0, floor=0.7, threshold=2.0, levels=20, project=False,
        )  # fmt: skip
    return Layout(
        root=0.02, tree=0.25, counts=0.15, means=0.0, steps=0.58, n_steps=3, norm_share=0.1,
        first_cell=40.0, decay=1.0, floor=0.7, threshold=2.0, levels=20, project=True,
    )  # fmt: skip

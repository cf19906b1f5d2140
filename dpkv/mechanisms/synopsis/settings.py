"""How eps is shared out and a synopsis laid out: from public facts alone, chosen by measurement.

The constants are those that did best over many tables (``audits/synopsis_accuracy.py``). None of
them matters for privacy: the price of every part follows from its noise.
"""

from __future__ import annotations

from dataclasses import dataclass

_FEW, _MANY, _PROJECTED = 3, 20, 16
"""Up to so many columns: one Lloyd step; cells of all columns. Beyond, cells of so many dimensions.

In few dimensions cells are small and their middles good enough. In more of them places in the cells
pay. In many, cells of all columns would split each of them at most once: a projection splits more.
"""


@dataclass(frozen=True)
class Layout:
    """Shares of eps, which add up to 1, and the shape of the tree."""

    root: float
    """For the number of records, where it is private; elsewhere this goes to the counts."""
    core: float
    """For where the records are in loose bounds: the histograms of all columns, ..."""
    reach: float
    """... and how far the records reach around there."""
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
    """Records in a cell of the public first grid, times eps over the records that may differ."""
    threshold: float
    """Of the tests, in scales of the counts' noise."""
    bias: float
    """How much worse a bias of a center is than noise of the same size."""
    skew: float
    """How far a center is pulled by cutting residuals, of the length that is cut off."""
    stretch: float
    """A step goes so much beyond the mean, as Lloyd's iterations would."""
    least_cell: float = 12.0
    """As ``first_cell``: a cluster is to have a cell for so many of its records, ..."""
    growth: float = 1.0
    """... by this power of their quotient, ..."""
    cells: int = 6
    """... but no more cells than these, which are enough for it, ..."""
    fewest_cells: int = 0
    """... and no fewer than these, however few records there are."""
    decay: float = 2.0
    floor: float = 1.0
    """Of the tree's tests, in scales of their noise."""
    levels: int = 24


def layout(n_features: int) -> Layout:
    """Return the layout for so many columns."""
    if n_features <= _FEW:
        return Layout(
            root=0.02, core=0.03, reach=0.04, tree=0.07, counts=0.78, means=0.0, steps=0.06,
            n_steps=1, norm_share=0.15, first_cell=100.0, threshold=4.0, bias=10.0, skew=0.2,
            stretch=1.25, least_cell=25.0, growth=2.0, cells=48, fewest_cells=10,
        )  # fmt: skip
    if n_features <= _MANY:
        return Layout(
            root=0.02, core=0.07, reach=0.02, tree=0.11, counts=0.225, means=0.225, steps=0.33,
            n_steps=2, norm_share=0.10, first_cell=100.0, threshold=2.0, bias=10.0, skew=0.1,
            stretch=1.25,
        )  # fmt: skip
    return Layout(
        root=0.02, core=0.04, reach=0.02, tree=0.23, counts=0.14, means=0.0, steps=0.55,
        n_steps=3, norm_share=0.10, first_cell=40.0, threshold=2.0, bias=3.0, skew=0.1, stretch=1.0,
    )  # fmt: skip


CATEGORIES_SKEW = 2.0
"""``Layout.skew`` where columns have categories: the rarer one's residuals are the longer ones."""

_FEW_STEPS, _FEWER_RECORDS, _SMALL_EPS = 2, 1000.0, 0.75


def lloyd_steps(
    n_features: int, eps: float, *, changed: int, members: float | None, has_delta: bool
) -> int:
    """Return how many Lloyd steps pay: in many columns, two where Laplace noise is large.

    ``members`` are the records of a cluster where their number is public; eps decides elsewhere.
    """
    usual = layout(n_features).n_steps
    if has_delta or n_features <= _MANY:
        return usual
    is_noisy = eps < _SMALL_EPS if members is None else members * eps / changed < _FEWER_RECORDS
    return min(usual, _FEW_STEPS) if is_noisy else usual


MOST_CELL_DIMENSIONS = max(_MANY, _PROJECTED)
"""No synopsis has cells of more."""


def cell_dimensions(n_features: int) -> int:
    """Return how many dimensions cells have."""
    return n_features if n_features <= _MANY else _PROJECTED

"""diffprivlib's KMeans as a rival, and what is known of it. No other module imports diffprivlib.

It is imported when it is first run. Nothing else of dpkv needs it, and where it is missing, or
cannot be imported beside the scikit-learn that is installed, an audit says so of this rival alone.
"""

from __future__ import annotations

import math
import warnings
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import numpy as np

from dpkv.domain import Box, Domain
from dpkv.mechanisms import Neighbours
from dpkv.types import Float64s

NAME = "diffprivlib"
WHAT = "diffprivlib's KMeans (DPLloyd, random start)"
_RHO = 0.225  # its constant, from Su et al. (2016)


def find_centers(records: Float64s, space: Domain, k: int, eps: float, seed: int) -> Float64s:
    """Run its KMeans where it does best: the origin in the middle of the bounds.

    There the sensitivity that it uses for sums, the width of a column, is large enough, and noise
    in a count moves a center least. Columns of zero width are left out.
    """
    lower, upper = _bounding_box(space)
    scale = float((upper - lower).max())
    middle, half = (lower + upper) / 2.0, (upper - lower) / 2.0
    used = half > 0
    centers = np.tile(middle, (k, 1))
    if used.any():
        moved = (records[:, used] - middle[used]) / scale
        bounds = (-half[used] / scale, half[used] / scale)
        centers[:, used] += scale * fit(moved, bounds, k, eps, seed)
    if isinstance(space, Box):
        return centers
    return np.asarray(space.clip(centers))  # it knows boxes only


def _bounding_box(space: Domain) -> tuple[Float64s, Float64s]:
    """Return the bounds of a box, or of the box around an L1 ball."""
    if isinstance(space, Box):
        return np.asarray(space.lower), np.asarray(space.upper)
    return space.middle - space.diam1 / 2.0, space.middle + space.diam1 / 2.0


def fit(
    records: Float64s, bounds: tuple[Float64s, Float64s], k: int, eps: float, seed: int
) -> Float64s:
    """Return the centers of its KMeans, for add-remove neighbours by its own account."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from diffprivlib.accountant import BudgetAccountant  # noqa: PLC0415 (slow, may be missing)
        from diffprivlib.models import KMeans  # noqa: PLC0415

        model = KMeans(
            n_clusters=k,
            epsilon=eps,
            bounds=bounds,
            random_state=seed,
            accountant=BudgetAccountant(),  # of its own: a default one would be charged
        )
        model.fit(records)
    return np.asarray(model.cluster_centers_)


def describe_version() -> str:
    """Return the name and version of what is installed."""
    try:
        return f"diffprivlib {installed_version('diffprivlib')}"
    except PackageNotFoundError:
        return "diffprivlib, not installed"


def compute_overspending(n_features: int) -> float:
    """Return what diffprivlib 0.6.6 spends over the eps it is given.

    Su et al. give counts c = (4 d rho^2)^(1/3) shares of an iteration and every column's sum one
    share, d + c in all. The pair is unpacked in swapped order: counts get one share and each of the
    d columns c of them.
    """
    c = math.cbrt(4.0 * n_features * _RHO**2)
    return (1.0 + n_features * c) / (n_features + c)


def describe_faults(n_features: int | None, neighbours: Neighbours) -> str:
    """Return what it is given and what is known to be wrong with it; ``n_features`` is d."""
    given = "eps"
    if neighbours is Neighbours.REPLACE_ONE:
        given = "eps/2, because its eps is for add/remove and a replacement is two of those"
    shown = (2, 10, 15) if n_features is None else (n_features,)
    spent = ", ".join(f"{compute_overspending(d):.2f} at d = {d}" for d in shown)
    return (
        f"it is given {given}; bounds are known, their middle is its origin. Known faults of "
        "0.6.6: its budget split is unpacked in swapped order, so that its mechanisms spend what "
        f"it is given times {spent}; clusters are skipped on their exact count; exact labels and "
        "inertia are left in the model; its floating-point Laplace noise tells neighbours apart; "
        "sums get the width of a column as sensitivity, too little where 0 is outside the bounds"
    )


def noisy_sum(values: Float64s, bounds: tuple[float, float], eps: float, seed: int) -> float:
    """Return its noisy sum of values within bounds; 0 values add up to 0, with noise as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from diffprivlib.mechanisms import Laplace  # noqa: PLC0415

        largest = max(abs(bounds[0]), abs(bounds[1]))
        noise = Laplace(epsilon=eps, sensitivity=largest, random_state=seed % 2**32)
        return float(noise.randomise(float(np.clip(values, *bounds).sum())))

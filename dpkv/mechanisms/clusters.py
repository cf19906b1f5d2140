"""What answers that were paid for say about the clusters beyond their centers: free.

Sizes, standard errors and radii are functions of noisy answers and public facts, so they spend
nothing. A standard error says how far noise may have moved a figure. It does not cover what noise
is not to blame for: records cut to the bounds, and records that another center would claim once
centers have moved by less than their own error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dpkv.types import Float64s, Integers

RECORDS_RELEASED, BLOCKS_AVERAGED = "single-records-released", "blocks-averaged"
NO_DISTANCES, NOT_ESTIMATED = "distances-not-asked", "not-estimated"
"""Codes of why a mechanism cannot tell: anything, or with ``NO_DISTANCES`` radius and potential."""

_SHAPES, _MEANS = 24, 240
_WEAK = 10.0  # standard deviations of a bin: smaller clusters share one distribution of distances


@dataclass(frozen=True, eq=False)
class ClusterEstimates:
    """Estimates of every cluster, in grid steps, and of all of them together."""

    center_sd: Float64s
    """Of every coordinate of every center."""
    sizes: Float64s
    """Records of every cluster."""
    size_sd: Float64s
    radii: Float64s | None = None
    """Root mean squared distance of a cluster's records from its center."""
    radius_sd: Float64s | None = None
    model_error: float = 0.0
    """Of the potential: what is left out by how radii are told."""

    def worth(self, share: float) -> ClusterEstimates:
        """Return what was estimated in shares in records, of which a share is so much."""
        return replace(self, sizes=self.sizes * share, size_sd=self.size_sd * share)

    def within(self, farthest: float) -> ClusterEstimates:
        """Return the same with no radius longer than the domain, which only noise makes so."""
        if self.radii is None:
            return self
        return replace(self, radii=np.minimum(self.radii, farthest))

    @property
    def potential(self) -> float | None:
        """The sum of the records' squared distances to their centers."""
        return None if self.radii is None else float(self.sizes @ self.radii**2)

    @property
    def potential_sd(self) -> float | None:
        """What noise and the model leave open of it."""
        if self.radii is None or self.radius_sd is None:
            return None
        of_radii = 2.0 * self.sizes * self.radii * self.radius_sd
        of_sizes = self.radii**2 * self.size_sd
        of_model = self.model_error * float(self.sizes @ self.radii**2)
        return float(math.sqrt((of_radii**2).sum() + (of_sizes**2).sum() + of_model**2))


def fit_total(sizes: Float64s, noise: Float64s, total: float | None) -> tuple[Float64s, Float64s]:
    """Return sizes that are not negative and add up to a public total, and what noise is left.

    ``noise`` is the variance of every size that is due to noise; it is what a total corrects.
    """
    if total is not None and noise.sum() > 0.0:
        gain = noise / noise.sum()
        sizes, noise = sizes + gain * (total - sizes.sum()), noise * (1.0 - gain)
    sizes = np.maximum(sizes, 0.0)
    if total is not None and sizes.sum() > 0.0:
        sizes = sizes * (total / sizes.sum())
    return sizes, noise


def radii_from_norms(
    histogram: Integers,
    edges: Integers,
    *,
    sizes: Float64s,
    squared: bool,
    n_features: int,
    bin_sd: float,
) -> tuple[Float64s, Float64s]:
    """Return every cluster's root mean squared distance from noisy counts of norms, and its error.

    A gamma distribution of squared norms is fitted to all bins at once: far bins, where a little
    noise would weigh much, are told from it rather than added up. Norms in L1 are turned to L2 as
    those of equal normal columns are. Clusters of few records share one distribution, of all
    ``sizes`` together, and its mean over all that the noise leaves possible.
    """
    rows = histogram.astype(np.float64)
    weak = rows.sum(axis=1) < _WEAK * bin_sd
    means, shares = _gammas(tuple(edges.tolist()))
    flatness = 1.0 if squared else math.pi / 2.0 / (n_features + math.pi / 2.0 - 1.0)
    lengths = np.sqrt(means * flatness)
    fits = np.einsum("smb,kb->ksm", shares, rows)
    power = (shares**2).sum(axis=2)
    gain = np.maximum(fits, 0.0) ** 2 / power  # what the best multiple of a shape explains
    best = gain.reshape(len(rows), -1).argmax(axis=1)
    shape, mean = np.unravel_index(best, power.shape)
    scale = np.take_along_axis(fits.reshape(len(rows), -1), best[:, np.newaxis], 1)[:, 0]
    amount = np.maximum(scale / power[shape, mean], 1.0)
    slope = np.gradient(shares, np.log(means), axis=1)[shape, mean]  # by the mean's logarithm
    of_log_mean = bin_sd / np.maximum(amount * np.sqrt((slope**2).sum(axis=1)), 1e-300)
    radii, errors = lengths[mean], lengths[mean] * np.minimum(of_log_mean / 2.0, 1.0)
    if weak.any():
        noise = bin_sd * math.sqrt(len(rows))
        misfit = ((rows.sum(axis=0) - sizes.sum() * shares) ** 2).sum(axis=2) / (2.0 * noise**2)
        chances = np.exp(misfit.min() - misfit).sum(axis=0)
        radii[weak] = middle = float(chances @ lengths / chances.sum())
        errors[weak] = math.sqrt(float(chances @ (lengths - middle) ** 2 / chances.sum()))
    return radii, errors


@cache
def _gammas(edges: tuple[int, ...]) -> tuple[Float64s, Float64s]:
    """Return means of squared norms, and the shares of the bins by shape and mean."""
    from scipy.special import gammainc  # noqa: PLC0415 (slow to import)

    ends = np.asarray(edges, dtype=np.float64) ** 2
    shapes = np.geomspace(0.5, 60.0, _SHAPES)[:, np.newaxis, np.newaxis]
    means = np.geomspace(max(ends[0], 1.0) / 4.0, ends[-1], _MEANS)
    below = gammainc(shapes, shapes * ends / means[:, np.newaxis])
    below[:, :, -1] = 1.0
    return means, np.diff(below, axis=2, prepend=0.0)

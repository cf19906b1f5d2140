"""sk-means++ (Algorithm 2): Algorithm 0 on the weighted points that sum a stream up.

The reduction (Table 3): on the whole stream, probe every record to the summary's point s_j
that carries it and release it as that point. A record then has D_t(s_j), so round t releases s_j
with probability proportional to m_j D_t(s_j), as Algorithm 2 has it, and Algorithm 0 on the points
s_j with weights m_j and Dirac densities does the same without the stream.

The algorithm as printed opens with a uniform *point* of the summary, whatever it carries; Theorem 1
(expected potential) is proved for a uniform *record* (q_1 = u_m), that is for an opening by weight.
``opening`` offers both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv import kernels
from dpkv.errors import ParameterError, UsageError
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.approximation_guarantees import printed_sk_guarantee, sk_guarantee
from dpkv.seeding.densities import Dirac
from dpkv.seeding.potentials import assign
from dpkv.seeding.probes import Probe
from dpkv.seeding.summaries import StreamSummary, summarise_stream
from dpkv.streams import Stream, as_stream
from dpkv.types import Float64s, Floats, Indices
from dpkv.validation import as_generator, as_records, one_of, whole_number

DEFAULT_SUMMARY_POINTS = 1000
"""Points held unless told, or 20 k where that is more."""


@dataclass(frozen=True, eq=False)
class StreamSeeding:
    """Centers of a stream, picked among the points of its summary."""

    centers: Floats
    indices: Indices
    """Which point of the summary each center is."""
    uniform_rounds: tuple[int, ...]
    """Rounds after the first (1-based) in which every distance was zero."""
    summary: StreamSummary
    spread: float
    """phi_s^probe of Theorem 3 (streams), or an upper bound of it."""
    spread_is_exact: bool
    """Whether a second pass measured the spread to the nearest points."""
    potential: float | None
    """Of the centers on the stream, where a second pass measured it."""

    def guarantee(
        self, optimum: float, stretching: float = 0.0, *, as_printed: bool = False
    ) -> float:
        """Return what Theorem 3 (streams) promises of the expected potential.

        As its proof gives it, or ``as_printed``, which is smaller. With an *estimated* optimum or
        stretching the result is an estimate of the guarantee.
        """
        promise = printed_sk_guarantee if as_printed else sk_guarantee
        return promise(len(self.centers), optimum, self.spread, stretching)


def sk_means(
    source: Stream | ArrayLike | Iterable[ArrayLike],
    n_clusters: SupportsIndex,
    *,
    summary_points: SupportsIndex | None = None,
    builder: str = "facility",
    opening: str = "point",
    second_pass: bool = False,
    rng: np.random.Generator | int | None = None,
) -> StreamSeeding:
    """Seed by sk-means++: summarise the stream in one pass, then Algorithm 0 on the points.

    Parameters
    ----------
    source : a stream (``dpkv.tables.open_stream``), a matrix, or an iterator of rows or matrices.
    summary_points : how many points are held at most; 1000 or 20 k by default.
    builder : "facility", "reservoir" or "grid": see ``dpkv.seeding.summaries``.
    opening : "point" opens with a uniform point, as printed; "record" by weight, as Theorem 1.
    second_pass : whether to read the stream again, for the exact spread and the potential.
    rng : a numpy Generator or a seed, for simulation. Nothing about the result is private.
    """
    k = whole_number("n_clusters", n_clusters, at_least=1)
    size = max(DEFAULT_SUMMARY_POINTS, 20 * k) if summary_points is None else summary_points
    size = whole_number("summary_points", size, at_least=k)
    one_of("opening", opening, ("point", "record"))
    stream = as_stream(source)
    if second_pass and not stream.rereadable:
        raise UsageError(f"{stream.name} can be read only once: leave out the second pass.")
    generator = as_generator(rng)
    summary = summarise_stream(stream, size, builder=builder, rng=generator)
    _refuse_too_few(summary, k, size)
    seeding = kvariates(
        summary.points,
        k,
        sample_weight=summary.weights,
        first_weight=np.ones(len(summary.points)) if opening == "point" else None,
        rng=generator,
    )
    spread, phi = summary.spread, None
    if second_pass:
        spread, phi = stream_potentials(stream, summary.points, seeding.centers)
    return StreamSeeding(
        seeding.centers, seeding.indices, seeding.uniform_rounds, summary, spread, second_pass, phi
    )


def _refuse_too_few(summary: StreamSummary, k: int, size: int) -> None:
    if summary.n_records < k:
        must = f"at most the number of records, {summary.n_records}"
        raise ParameterError("n_clusters", must, k)
    if len(summary.points) < k:
        if summary.spread == 0.0:
            must = f"at most the number of distinct records, {len(summary.points)}"
            raise ParameterError("n_clusters", must, k)
        must = f"large enough for {k} points to be left in the end"
        raise ParameterError(
            "summary_points", must, size, "Take several times the number of centres."
        )


def stream_potentials(
    source: Stream | ArrayLike | Iterable[ArrayLike], *center_sets: ArrayLike
) -> tuple[float, ...]:
    """Return the potential of each set of centers on a stream, in one pass for all of them."""
    sets = [as_records(centers).astype(np.float64) for centers in center_sets]
    totals = np.zeros(len(sets))
    for chunk in as_stream(source).chunks():
        totals += [kernels.clusters(chunk, centers)[2] for centers in sets]
    return tuple(map(float, totals))


# -- stretching ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StretchingEstimate:
    """eta of Definition 1 (stretching), from below."""

    eta: float
    """Infinite when some sampled centers stand on all that a cluster is probed to."""
    n_sets: int
    label: str = "estimate from below (sampled sets of centres; the true eta may be larger)"


def estimate_stretching(
    data: ArrayLike,
    probe: Probe,
    optimal_centers: ArrayLike,
    *,
    n_sets: SupportsIndex = 100,
    rng: np.random.Generator | int | None = None,
) -> StretchingEstimate:
    """Estimate how much a fixed probe stretches the clusters of (estimated) optimal centers.

    Definition 1 (stretching) separates: 1 + eta is the largest, over the clusters A, of a product:
    max over a_0 of phi(probe(A); probe(a_0)) / phi(A; a_0), which is computed exactly, times
    max over C of phi(A; C) / phi(probe(A); C), over *all* sets of at most k centers. Here C runs
    over ``n_sets`` of them, half of them centers of Algorithm 0 under the probe after some round,
    half of them random records: an estimate from below. Where a cluster is probed to at most k
    points the true eta is infinite, since C may be those points.
    """
    records = as_records(data).astype(np.float64, copy=False)
    centers = as_records(optimal_centers)
    probed = probe.locate(1, records, records[:0]).astype(np.float64, copy=False)
    labels = assign(records, centers)
    k, sets = len(centers), whole_number("n_sets", n_sets, at_least=1)
    generator = as_generator(rng)
    anchored = np.array(
        [_largest_anchor(records[labels == a], probed[labels == a]) for a in range(k)]
    )
    largest = 1.0
    for number in range(sets):
        size = int(generator.integers(1, min(k, len(records)) + 1))
        if number % 2:
            chosen = records[generator.choice(len(records), size, replace=False)]
        else:
            run = kvariates(records, size, probe=probe, density=Dirac(probed), rng=generator)
            chosen = run.centers.astype(np.float64, copy=False)
        actual = _by_cluster(records, chosen, labels, k)
        seen = _by_cluster(probed, chosen, labels, k)
        with np.errstate(divide="ignore", invalid="ignore"):
            products = np.where((actual > 0) & (anchored > 0), anchored * actual / seen, 0.0)
        largest = max(largest, float(products.max()))
    return StretchingEstimate(largest - 1.0, sets)


def _largest_anchor(cluster: Float64s, probed: Float64s) -> float:
    """Return max over a_0 of phi(probe(A); probe(a_0)) / phi(A; a_0); 0 of what is in one place."""
    if not len(cluster):
        return 0.0
    actual, seen = _from_each(cluster), _from_each(probed)
    apart = (actual > 0) & (seen > 0)
    return float((seen[apart] / actual[apart]).max(initial=0.0))


def _from_each(points: Float64s) -> Float64s:
    """Return phi(A; {a}) for each a of A, as phi(A; mean) + |A| ||a - mean||^2."""
    offsets = points - points.mean(axis=0)
    squares = np.einsum("ij,ij->i", offsets, offsets)
    squares[squares <= 1e-30 * float(np.abs(points).max()) ** 2] = 0.0  # rounding of equal points
    return np.asarray(squares.sum() + len(points) * squares)


def _by_cluster(points: Float64s, centers: Floats, labels: np.ndarray, k: int) -> Float64s:
    """Return phi(A; C) for each cluster A."""
    distances = kernels.assign_nearest(points, centers)[1]
    return np.asarray(np.bincount(labels, weights=distances, minlength=k), np.float64)

"""Lower bounds on eps from runs: what the code does, at a stated confidence.

Run a mechanism many times on two neighbouring tables and find an event that is much likelier under
one of them. If it has probability p under the first and q under the second, then eps >= log(p / q).
The event is chosen on one half of the runs. On the other half p is bounded below and q above, by
Clopper and Pearson, at alpha / 2 each, so that the bound exceeds the truth with probability at most
alpha, whatever the event and however it was chosen.

Where the density is known, the event is a likelihood ratio above a threshold, which no other event
beats. Where it is not, a classifier learns on the first half which table an output came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpkv.audits.results import SampledBound
from dpkv.audits.vectorised_runs import Pair, log_ratios, many_runs
from dpkv.audits.worst_case import worst_case
from dpkv.mechanisms import Algorithm0
from dpkv.types import Float64s, Integers

DEFAULT_ALPHA = 1e-6
DEFAULT_RUNS = 100_000
_THRESHOLDS = 64
_FEWEST_HITS = 10  # of the choosing half: rarer events are not worth certifying

LIKELIHOOD = "likelihood-ratio event, Clopper-Pearson"
CLASSIFIER = "event of a classifier trained on half the runs, Clopper-Pearson on the other half"

Sampler = Callable[[int], Float64s]
"""Returns features of that many runs, one row a run."""


@dataclass(frozen=True)
class CertifiedBound:
    """A lower bound, and the runs that certify it."""

    lower_bound: float
    hits: tuple[int, int]
    runs_a_side: int


def certified_bound(
    first: Float64s, second: Float64s, alpha: float, delta: float = 0.0
) -> CertifiedBound:
    """Return a lower bound on eps from scores of runs on either table; high means the first.

    The threshold is chosen on the first half of both, the bound taken from the second.
    """
    half_first, half_second = len(first) // 2, len(second) // 2
    threshold = _best_threshold(first[:half_first], second[:half_second], alpha)
    rest_first, rest_second = first[half_first:], second[half_second:]
    hits = int((rest_first > threshold).sum()), int((rest_second > threshold).sum())
    bound = log_ratio_bound(hits, (len(rest_first), len(rest_second)), alpha, delta)
    return CertifiedBound(max(0.0, bound), hits, min(len(rest_first), len(rest_second)))


def log_ratio_bound(
    hits: tuple[int, int], runs: tuple[int, int], alpha: float, delta: float = 0.0
) -> float:
    """Return log((p_low - delta) / q_high), wrong with probability at most alpha."""
    if hits[0] == 0:
        return -math.inf
    low = float(stats.beta.ppf(alpha / 2, hits[0], runs[0] - hits[0] + 1)) - delta
    full = hits[1] == runs[1]
    high = 1.0 if full else float(stats.beta.isf(alpha / 2, hits[1] + 1, runs[1] - hits[1]))
    return math.log(low / high) if low > 0 else -math.inf


def _best_threshold(first: Float64s, second: Float64s, alpha: float) -> float:
    """Return the threshold whose event would certify most, if these runs were the others."""
    ordered = np.sort(first)
    tails = np.geomspace(_FEWEST_HITS, max(_FEWEST_HITS, len(first)), _THRESHOLDS)
    places = np.clip(len(ordered) - tails.astype(np.int64), 0, len(ordered) - 1)
    # just below a score, so that all runs of that score are hits, however many they are
    candidates = np.unique(np.nextafter(ordered[places], -np.inf))
    bounds = []
    for value in candidates:
        hits = int((first > value).sum()), int((second > value).sum())
        everything = hits == (len(first), len(second))  # tells nothing
        runs = len(first), len(second)
        bounds.append(-math.inf if everything else log_ratio_bound(hits, runs, alpha))
    return float(candidates[int(np.argmax(bounds))])


def sample_likelihood(
    mechanism: Algorithm0,
    claimed_eps: float,
    *,
    n_records: int,
    runs: int = DEFAULT_RUNS,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    audited: Algorithm0 | None = None,
) -> SampledBound:
    """Audit Algorithm 0 on its worst neighbours, by the exact likelihood ratio.

    ``audited`` is what is run, where that is not the mechanism as described (a planted fault).
    """
    run = mechanism if audited is None else audited
    found = worst_case(run, n_records, restarts=6, seed=seed)
    points = np.stack([found.common, found.old, found.new])
    old, new = np.asarray([[found.n_common, 1, 0], [found.n_common, 0, 1]])
    pair = Pair(points, old, new)
    streams = np.random.SeedSequence(seed).spawn(2)
    scores = [
        log_ratios(run, pair, many_runs(run, points, counts, runs, stream))
        for counts, stream in zip((pair.old, pair.new), streams, strict=True)
    ]
    bound = certified_bound(scores[0], scores[1], alpha)
    return _record(mechanism.name, mechanism.n_clusters, claimed_eps, bound, alpha, LIKELIHOOD)


def sample_classifier(
    name: str,
    n_clusters: int,
    claimed_eps: float,
    first: Sampler,
    second: Sampler,
    *,
    runs: int,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    delta: float = 0.0,
) -> SampledBound:
    """Audit anything that can be run on two neighbouring tables, by a classifier's event.

    Both directions are tried, each at half of alpha.
    """
    here, there = first(runs), second(runs)
    best: CertifiedBound | None = None
    for one, other in ((here, there), (there, here)):
        scores = _classify(one, other, seed)
        bound = certified_bound(*scores, alpha / 2, delta)
        if best is None or bound.lower_bound > best.lower_bound:
            best = bound
    assert best is not None
    return _record(name, n_clusters, claimed_eps, best, alpha, CLASSIFIER)


def _classify(first: Float64s, second: Float64s, seed: int) -> tuple[Float64s, Float64s]:
    """Return scores of all runs by a classifier that has seen the first half of each."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 (slow to import)

    seen = [side[: len(side) // 2] for side in (first, second)]
    labels = np.concatenate([np.ones(len(seen[0])), np.zeros(len(seen[1]))])
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed)
    model.fit(np.concatenate(seen), labels)
    scores = [np.asarray(model.decision_function(side)) for side in (first, second)]
    return scores[0], scores[1]


def features(outputs: Integers | Float64s) -> Float64s:
    """Return outputs (runs, k, d) as rows of numbers for a classifier."""
    flat = np.asarray(outputs, dtype=np.float64)
    return flat.reshape(len(flat), -1)


def _record(
    name: str, k: int, claimed_eps: float, bound: CertifiedBound, alpha: float, method: str
) -> SampledBound:
    return SampledBound(
        mechanism=name,
        k=k,
        claimed_eps=claimed_eps,
        lower_bound=bound.lower_bound,
        alpha=alpha,
        runs_a_side=bound.runs_a_side,
        hits=bound.hits,
        method=method,
        violates=bound.lower_bound > claimed_eps,
    )

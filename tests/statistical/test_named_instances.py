"""The named algorithms, written straight from their own descriptions, against Algorithm 0.

Each of the paper's reductions says that an algorithm releases centers with the distribution of some
(probe, density) pair of Algorithm 0. Here the algorithm is written out and its distribution
enumerated, and dpkv's runs of the pair are held against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from math import prod
from operator import itemgetter

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus as sklearn_kmeans_plusplus
from support import enumeration
from support.chance import FALSE_ALARM, implausible
from support.enumeration import Point, all_runs, closest, picks, project, squared

import dpkv
from dpkv.seeding import (
    BUILDERS,
    Dirac,
    MinibatchProbe,
    NearestPointProbe,
    OkMeans,
    StreamSummary,
    UniformOnSubset,
    kmeans_sharp,
    ok_means,
    sk_means,
    streaming,
)

RECORDS = [(1.0, 1.0), (1.25, 1.0), (3.0, 2.0), (4.0, 0.5), (0.5, 3.0), (-2.0, 0.0)]
TABLE = np.array(RECORDS)
WEIGHTS = [0.0, 1.0, 3.0, 0.5, 2.0, 0.25]
N_RUNS = 4000

Releases = dict[tuple[Point, ...], float]


def in_rounds(
    k: int, step: Callable[[tuple[Point, ...]], Iterable[tuple[Point, float]]]
) -> Releases:
    """Enumerate k rounds of an algorithm; ``step`` gives the next center's distribution."""
    releases: Releases = {(): 1.0}
    for _ in range(k):
        longer: Releases = defaultdict(float)
        for centers, chance in releases.items():
            for center, likelihood in step(centers):
                if likelihood > 0:
                    longer[(*centers, center)] += chance * likelihood
        releases = longer
    return dict(releases)


def distance(a: Point, centers: Sequence[Point]) -> float:
    return min(squared(a, c) for c in centers)


def released(k: int, n_runs: int = N_RUNS, **instance: object) -> list[tuple[Point, ...]]:
    rng = np.random.default_rng(2016)
    runs = (dpkv.kvariates(TABLE, k, rng=rng, **instance).centers for _ in range(n_runs))
    return [tuple(map(tuple, centers.tolist())) for centers in runs]


def disagreement(observed: list[tuple[Point, ...]], expected: Releases) -> str | None:
    """Compare whole releases, then round by round, where a shift shows sooner."""
    views = [lambda centers: centers, *map(itemgetter, range(3))]
    for view in views:
        wrong = implausible(map(view, observed), project(expected, view), FALSE_ALARM / len(views))
        if wrong:
            return wrong
    return None


# -- k-means++ and Forgy ---------------------------------------------------------------------------


def rows_picked(seeder: Callable[..., tuple[np.ndarray, np.ndarray]], n_runs: int) -> list:
    found = (seeder() for _ in range(n_runs))
    return [tuple(indices.tolist()) for _, indices in found]


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_kmeans_plusplus_has_the_distribution_of_scikit_learn(weight: list[float] | None) -> None:
    expected = project(all_runs(RECORDS, 3, weight=weight), picks)
    rng, state = np.random.default_rng(1), np.random.RandomState(1)

    def ours() -> tuple[np.ndarray, np.ndarray]:
        return dpkv.kmeans_plusplus(TABLE, 3, sample_weight=weight, rng=rng)

    def theirs() -> tuple[np.ndarray, np.ndarray]:
        return sklearn_kmeans_plusplus(
            TABLE, 3, sample_weight=weight, random_state=state, n_local_trials=1
        )

    assert implausible(rows_picked(ours, N_RUNS), expected) is None
    assert implausible(rows_picked(theirs, N_RUNS), expected) is None


def test_planted_fault_greedy_kmeans_plusplus_is_another_distribution() -> None:
    expected = project(all_runs(RECORDS, 3), picks)
    state = np.random.RandomState(1)
    greedy = rows_picked(lambda: sklearn_kmeans_plusplus(TABLE, 3, random_state=state), N_RUNS)
    assert implausible(greedy, expected) is not None


def independent(weight: Sequence[float], k: int) -> dict[tuple[int, ...], float]:
    shares = [w / sum(weight) for w in weight]
    sequences = product(range(len(weight)), repeat=k)
    return {rows: prod(shares[row] for row in rows) for rows in sequences}


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_forgy_draws_independently_by_weight(weight: list[float] | None) -> None:
    rng = np.random.default_rng(1)
    rows = rows_picked(lambda: dpkv.forgy(TABLE, 3, sample_weight=weight, rng=rng), N_RUNS)
    assert implausible(rows, independent(weight or [1.0] * len(RECORDS), 3)) is None


def test_planted_fault_forgy_is_not_kmeans_plusplus() -> None:
    rng = np.random.default_rng(1)
    rows = rows_picked(lambda: dpkv.kmeans_plusplus(TABLE, 3, rng=rng), N_RUNS)
    assert implausible(rows, independent([1.0] * len(RECORDS), 3)) is not None


# -- protected dk-means++ --------------------------------------------------------------------------

SHARDS = [[0, 3, 4], [1], [2, 5]]
SHARD_OF = np.array([0, 1, 2, 0, 0, 2])


def dk_means_plusplus(shards: list[list[Point]], k: int) -> Releases:
    """A node by its summed distances (uniform at first), then a uniform record of that node."""

    def step(centers: tuple[Point, ...]) -> Iterable[tuple[Point, float]]:
        sums = [sum(distance(a, centers) for a in shard) if centers else 1.0 for shard in shards]
        for shard, total in zip(shards, sums, strict=True):
            for a in shard:
                yield a, total / sum(sums) / len(shard)

    return in_rounds(k, step)


def uniform_node() -> np.ndarray:
    return 1.0 / np.bincount(SHARD_OF)[SHARD_OF]


DK = dk_means_plusplus([[RECORDS[i] for i in shard] for shard in SHARDS], 3)


def test_protected_dk_means_plusplus() -> None:
    density = UniformOnSubset(SHARD_OF)
    assert disagreement(released(3, density=density, first_weight=uniform_node()), DK) is None


def test_planted_fault_dk_means_plusplus_opens_with_a_uniform_record() -> None:
    assert disagreement(released(3, density=UniformOnSubset(SHARD_OF)), DK) is not None


def test_planted_fault_dk_means_plusplus_releases_the_picked_record() -> None:
    assert disagreement(released(3, first_weight=uniform_node()), DK) is not None


# -- sk-means++ ------------------------------------------------------------------------------------

SUMMARY = [(1.0, 1.25), (3.5, 1.0), (0.5, 2.5), (-1.5, 0.5)]
POINT_OF = [SUMMARY.index(closest(a, SUMMARY)) for a in RECORDS]


def sk_means_plusplus(summary: list[tuple[Point, int]], k: int) -> Releases:
    """A point of the summary by its count times its distance; uniform at first."""

    def step(centers: tuple[Point, ...]) -> Iterable[tuple[Point, float]]:
        masses = [m * distance(s, centers) if centers else 1.0 for s, m in summary]
        for (s, _), mass in zip(summary, masses, strict=True):
            yield s, mass / sum(masses)

    return in_rounds(k, step)


SK = sk_means_plusplus([(s, POINT_OF.count(j)) for j, s in enumerate(SUMMARY)], 3)
ANCHORED = {
    "probe": NearestPointProbe(np.array(SUMMARY)),
    "density": Dirac(np.array(SUMMARY)[POINT_OF]),
}


def uniform_point() -> np.ndarray:
    return 1.0 / np.bincount(POINT_OF)[POINT_OF]


def test_every_point_stands_for_some_record() -> None:
    assert set(POINT_OF) == set(range(len(SUMMARY)))
    assert len(set(map(POINT_OF.count, POINT_OF))) > 1  # or counts would not matter


def test_sk_means_plusplus() -> None:
    assert disagreement(released(3, first_weight=uniform_point(), **ANCHORED), SK) is None


def test_planted_fault_sk_means_plusplus_opens_with_a_uniform_record() -> None:
    assert disagreement(released(3, **ANCHORED), SK) is not None


def test_planted_fault_sk_means_plusplus_ignores_counts() -> None:
    even = uniform_point()
    wrong = released(3, first_weight=even, sample_weight=even, **ANCHORED)
    assert disagreement(wrong, SK) is not None


def test_sk_means_plusplus_is_exactly_its_reduction() -> None:
    """Algorithm 0 enumerated on the whole stream against the algorithm enumerated on a summary."""
    reduced = all_runs(
        RECORDS,
        3,
        probe=enumeration.nearest_point(SUMMARY),
        density=enumeration.dirac_at([SUMMARY[j] for j in POINT_OF]),
        first_weight=uniform_point().tolist(),
    )
    assert project(reduced, enumeration.released) == pytest.approx(SK, abs=1e-12)


def test_planted_fault_sk_means_plusplus_reduced_with_records_in_place() -> None:
    """Released as themselves, records have another distribution."""
    wrong = all_runs(RECORDS, 3, probe=enumeration.nearest_point(SUMMARY))
    assert project(wrong, enumeration.released) != pytest.approx(SK, abs=1e-3)


def streamed(opening: str, n_runs: int = N_RUNS) -> list[tuple[Point, ...]]:
    rng = np.random.default_rng(2016)
    runs = (sk_means(TABLE, 3, opening=opening, rng=rng).centers for _ in range(n_runs))
    return [tuple(map(tuple, centers.tolist())) for centers in runs]


def test_sk_means_runs_on_a_given_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.bincount(POINT_OF).astype(float)
    given = StreamSummary(np.array(SUMMARY), counts, len(RECORDS), 1.0, "given")
    monkeypatch.setattr(streaming, "summarise_stream", lambda *_, **__: given)
    assert disagreement(streamed("point"), SK) is None
    assert disagreement(streamed("record"), SK) is not None  # the planted fault


@pytest.mark.parametrize("builder", ["facility", "grid"])
def test_sk_means_runs_on_the_summary_it_builds(builder: str) -> None:
    """Of a stream with duplicates and room for the distinct records, the summary is certain."""
    times = [1, 3, 1, 2, 1, 4]
    stream = np.repeat(TABLE, times, axis=0)
    size = len(RECORDS) if builder == "facility" else 8
    expected = sk_means_plusplus(list(zip(RECORDS, times, strict=True)), 3)
    unweighted = sk_means_plusplus([(a, 1) for a in RECORDS], 3)
    rng = np.random.default_rng(2016)
    found = [
        tuple(
            map(
                tuple,
                sk_means(stream, 3, summary_points=size, builder=builder, rng=rng).centers.tolist(),
            )
        )
        for _ in range(N_RUNS)
    ]
    assert disagreement(found, expected) is None
    assert disagreement(found, unweighted) is not None


# -- k-means# --------------------------------------------------------------------------------------


def test_kmeans_sharp_has_the_distribution_of_its_description() -> None:
    """k = 2: three records by weight, then three by weight times distance; the set of them."""
    weight, few = WEIGHTS[1:5], RECORDS[1:5]
    chances: dict[tuple[int, ...], float] = defaultdict(float)
    wrong: dict[tuple[int, ...], float] = defaultdict(float)
    for rows, chance in independent(weight, 3).items():
        masses = [w * distance(a, [few[i] for i in rows]) for a, w in zip(few, weight, strict=True)]
        again = independent(masses, 3) if any(masses) else {rows: 1.0}
        for more, likelihood in again.items():
            chances[tuple(sorted({*rows, *more}))] += chance * likelihood
        for more, likelihood in independent(weight, 3).items():
            wrong[tuple(sorted({*rows, *more}))] += chance * likelihood
    rng = np.random.default_rng(1)
    found = [
        tuple(kmeans_sharp(few, 2, sample_weight=weight, rng=rng).tolist()) for _ in range(N_RUNS)
    ]
    assert implausible(found, {rows: p for rows, p in chances.items() if p > 0}) is None
    assert implausible(found, {rows: p for rows, p in wrong.items() if p > 0}) is not None


# -- ok-means++ ------------------------------------------------------------------------------------

BATCH_OF = [1, 2, 1, 3, 2, 3]


def ok_means_plusplus(batches: list[list[Point]]) -> Releases:
    """One record of every batch in turn, by its distance; uniform in the first."""

    def step(centers: tuple[Point, ...]) -> Iterable[tuple[Point, float]]:
        batch = batches[len(centers)]
        masses = [distance(a, centers) if centers else 1.0 for a in batch]
        for a, mass in zip(batch, masses, strict=True):
            yield a, mass / sum(masses)

    return in_rounds(len(batches), step)


OK = ok_means_plusplus(
    [[a for a, batch in zip(RECORDS, BATCH_OF, strict=True) if batch == j] for j in (1, 2, 3)]
)


def test_ok_means_plusplus() -> None:
    assert disagreement(released(3, probe=MinibatchProbe(np.array(BATCH_OF))), OK) is None


def test_planted_fault_ok_means_plusplus_with_two_batches_swapped() -> None:
    swapped = np.array([{1: 1, 2: 3, 3: 2}[batch] for batch in BATCH_OF])
    assert disagreement(released(3, probe=MinibatchProbe(swapped)), OK) is not None


def test_planted_fault_ok_means_plusplus_draws_uniformly_in_its_batches() -> None:
    wrong = released(3, probe=MinibatchProbe(np.array(BATCH_OF)), gamma=float("inf"))
    assert disagreement(wrong, OK) is not None


def test_ok_means_plusplus_is_exactly_its_reduction() -> None:
    reduced = all_runs(RECORDS, 3, probe=enumeration.minibatch(BATCH_OF), batches=BATCH_OF)
    assert project(reduced, enumeration.released) == pytest.approx(OK, abs=1e-12)


def test_planted_fault_ok_means_plusplus_reduced_without_the_probe() -> None:
    wrong = all_runs(RECORDS, 3, batches=BATCH_OF)
    assert project(wrong, enumeration.released) != pytest.approx(OK, abs=1e-3)


def in_steps(batches: Sequence[int]) -> list[tuple[Point, ...]]:
    rng = np.random.default_rng(2016)
    found = []
    for _ in range(N_RUNS):
        seeder = OkMeans(rng)
        for batch in batches:
            seeder.partial_fit(TABLE[np.array(BATCH_OF) == batch])
        found.append(tuple(map(tuple, seeder.centers.tolist())))
    return found


def test_ok_means_in_steps() -> None:
    assert disagreement(in_steps([1, 2, 3]), OK) is None


def test_planted_fault_ok_means_in_steps_of_another_order() -> None:
    assert disagreement(in_steps([1, 3, 2]), OK) is not None


def test_ok_means_over_an_iterator() -> None:
    ordered = TABLE[np.argsort(BATCH_OF, kind="stable")]
    rng = np.random.default_rng(2016)
    runs = (ok_means(iter(ordered), batch_rows=2, rng=rng).centers for _ in range(N_RUNS))
    assert disagreement([tuple(map(tuple, centers.tolist())) for centers in runs], OK) is None


# -- the reservoir ---------------------------------------------------------------------------------


def samples(already_seen: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(2016)
    line = np.arange(6.0)[:, np.newaxis]
    found = []
    for _ in range(N_RUNS):
        builder = BUILDERS["reservoir"](3, 1, rng)
        builder._seen = already_seen
        builder.add(line[:4])
        builder.add(line[4:])
        found.append(tuple(sorted(map(int, builder.finish().points[:, 0]))))
    return found


EVENLY = dict.fromkeys(combinations(range(6), 3), 1 / 20)


def test_the_reservoir_is_a_uniform_sample() -> None:
    assert implausible(samples(0), EVENLY) is None


def test_planted_fault_a_reservoir_that_counts_two_records_too_many() -> None:
    assert implausible(samples(2), EVENLY) is not None

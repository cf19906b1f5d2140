"""Sample and aggregate with smooth sensitivity (Nissim, Raskhodnikova and Smith, STOC 2007).

The clustering that the paper's Table 1 calls sample-aggregate, as a rival: k-means on many
small blocks of the records, the block whose centers lie closest to those of a majority, and noise
that follows how much the blocks agree. For replace-one neighbours, pure eps; the proof is in
``docs/proofs/sample-and-aggregate.md``.

**Simulation only.** Blocks, distances and noise are floats and numpy's draws, so that nothing found
here may be released, whatever the proof says of real numbers. It is no mechanism of the registry.

Two things differ from the original, both in its favour. The smooth bound takes order statistics of
the blocks' radii where the original takes means of them, and the noise is Student's t with as many
degrees of freedom as there are coordinates, whose price is known exactly: the original's noise, for
pure eps, has the tails of a Cauchy variable in every coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkv.errors import UsageError
from dpkv.kernels import compiled, over_blocks
from dpkv.types import Float64s, Floats
from dpkv.validation import cluster_count, positive_finite

NAME = "sample-aggregate"
TITLE = "sample and aggregate: the block closest to a majority, noise by smooth sensitivity"
NOTE = (
    "Nissim, Raskhodnikova and Smith 2007, for pure eps; simulation only, and no mechanism that "
    "dpkv would release by"
)
RESTARTS = 5
LLOYD_STEPS = 20
BLOCKS_A_COORDINATE = 16.0
"""Times 1 / eps: with fewer blocks the diameter of the domain shows through the smooth bound."""
LEAST_A_CLUSTER = 5
"""Records that a cluster of a block has on average, at least."""
MOST_BLOCKS = 2000
SMOOTHNESS = 0.6
"""Share of eps over coordinates that the noise's own changes may take."""


@dataclass(frozen=True)
class SampleAggregate:
    """What is public of a run: sizes, blocks, and how eps is shared."""

    n_records: int
    n_clusters: int
    n_features: int
    eps: float
    n_blocks: int
    smoothness: float
    """beta: how fast, in logarithms, the noise may change from a table to its neighbour."""

    @classmethod
    def calibrate(
        cls, eps: float, *, n_records: int, n_clusters: int, n_features: int
    ) -> SampleAggregate:
        """Return the layout for public facts."""
        positive_finite("eps", eps)
        k = cluster_count(n_clusters, n_records)
        coordinates = k * n_features
        wanted = math.ceil(BLOCKS_A_COORDINATE * coordinates / eps)
        possible = max(1, n_records // (LEAST_A_CLUSTER * k))
        blocks = min(wanted, possible, MOST_BLOCKS)
        return cls(n_records, k, n_features, eps, blocks, SMOOTHNESS * eps / coordinates)

    @property
    def coordinates(self) -> int:
        """How many numbers the centers have."""
        return self.n_clusters * self.n_features

    @property
    def shift(self) -> float:
        """alpha: how far, in scales of the noise, centers of neighbouring tables may lie apart."""
        share = self.eps / self.coordinates
        beta = self.smoothness
        still = 2.0 * math.sinh(share / 2.0) ** 2
        moved = 2.0 * math.sinh((share + beta) / 2.0) * math.sinh((share - beta) / 2.0)
        return math.sqrt(2.0 * min(still, math.exp(beta) * moved))

    def find_centers(self, records: Floats, diam2: float, rng: np.random.Generator) -> Float64s:
        """Return noisy centers, in no order of the records', wherever the noise has put them."""
        if records.shape != (self.n_records, self.n_features):
            raise UsageError("the records are not as many, or as wide, as was planned for.")
        answers = self.answers_of_blocks(records, rng)
        chosen, bound = self.aggregate(answers, diam2)
        noisy = chosen + bound / self.shift * draw_noise(chosen.shape, rng)
        return np.asarray(noisy[np.lexsort(noisy.T[::-1])])

    def answers_of_blocks(self, records: Floats, rng: np.random.Generator) -> Float64s:
        """Return the k-means centers of every block: (blocks, k, d)."""
        k, blocks = self.n_clusters, self.n_blocks
        order = rng.permutation(self.n_records)
        starts = np.arange(blocks + 1) * self.n_records // blocks
        coins = rng.random((blocks, RESTARTS, k))
        answers = np.empty((blocks, k, self.n_features))
        points = np.ascontiguousarray(records[order], np.float64)
        over_blocks(_cluster_blocks, blocks, points.size * k, points, starts, coins, answers)
        return answers

    def aggregate(self, answers: Float64s, diam2: float) -> tuple[Float64s, float]:
        """Return the answer closest to a majority, and the smooth bound on its sensitivity."""
        farthest = math.sqrt(self.n_clusters) * diam2
        radii = np.sort(distances(answers), axis=1)  # [i, t - 1]: of the ball with t answers
        majority = (len(answers) + 3) // 2
        if majority > len(answers):
            return answers[0], farthest
        chosen = answers[radii[:, majority - 1].argmin()]
        bounds = sensitivities(radii, majority, farthest)
        return chosen, float((np.exp(-self.smoothness * np.arange(len(bounds))) * bounds).max())


def sensitivities(radii: Float64s, majority: int, farthest: float) -> Float64s:
    """Return B_0, B_1, ...: what may happen to the aggregate once j blocks have been replaced."""
    ranked = np.sort(radii, axis=0)  # [n - 1, t - 1]: the n-th smallest radius with t answers
    steps = np.arange(len(radii) - majority)
    near = ranked[steps, majority + steps - 1] + ranked[steps + 1, majority + steps]
    return np.append(np.minimum(near, farthest), farthest)


def draw_noise(shape: tuple[int, int], rng: np.random.Generator) -> Float64s:
    """Draw from the density proportional to (1 + |z|^2)^-D over all D coordinates together."""
    return np.asarray(rng.standard_normal(shape) / np.linalg.norm(rng.standard_normal(shape)))


def distances(answers: Float64s) -> Float64s:
    """Return the distances of all pairs: the L2 norm over best matched centers."""
    found = np.zeros((len(answers), len(answers)))
    work = found.size * answers[0].size
    over_blocks(_measure_pairs, len(answers), work, np.ascontiguousarray(answers), found)
    return np.sqrt(found + found.T)


@compiled
def _measure_pairs(answers, found, first, last):  # type: ignore[no-untyped-def]
    """Squared distances of pairs (i, j), j < i, for a range of i."""
    _, k, d = answers.shape
    cost = np.empty((k, k))
    for i in range(first, last):
        for j in range(i):
            for a in range(k):
                for b in range(k):
                    total = 0.0
                    for c in range(d):
                        total += (answers[i, a, c] - answers[j, b, c]) ** 2
                    cost[a, b] = total
            found[i, j] = _match(cost)


@compiled
def _match(cost):  # type: ignore[no-untyped-def]
    """Return the least cost of matching rows to columns: the Hungarian method."""
    k = len(cost)
    rows, columns = np.zeros(k + 1), np.zeros(k + 1)
    matched, came = np.zeros(k + 1, np.int64), np.zeros(k + 1, np.int64)
    least, used = np.empty(k + 1), np.empty(k + 1, np.bool_)
    for row in range(1, k + 1):
        matched[0] = row
        at = 0
        least[:] = np.inf
        used[:] = False
        while matched[at] != 0:
            used[at] = True
            step, nearest = np.inf, 0
            for column in range(1, k + 1):
                if not used[column]:
                    slack = cost[matched[at] - 1, column - 1] - rows[matched[at]] - columns[column]
                    if slack < least[column]:
                        least[column] = slack
                        came[column] = at
                    if least[column] < step:
                        step, nearest = least[column], column
            for column in range(k + 1):
                if used[column]:
                    rows[matched[column]] += step
                    columns[column] -= step
                else:
                    least[column] -= step
            at = nearest
        while at != 0:
            matched[at] = matched[came[at]]
            at = came[at]
    total = 0.0
    for column in range(1, k + 1):
        total += cost[matched[column] - 1, column - 1]
    return total


@compiled
def _cluster_blocks(points, starts, coins, answers, first, last):  # type: ignore[no-untyped-def]
    """k-means of every block in a range: D^2 seeding, Lloyd's iterations, the best of restarts."""
    _, restarts, k = coins.shape
    d = points.shape[1]
    current, sums, sizes = np.empty((k, d)), np.empty((k, d)), np.empty(k)
    for block in range(first, last):
        own = points[starts[block] : starts[block + 1]]
        least = np.inf
        for restart in range(restarts):
            _seed_block(own, coins[block, restart], current)
            reached = _sum_block(own, current, sums, sizes)
            for _ in range(LLOYD_STEPS):
                before = reached
                for c in range(k):
                    if sizes[c] > 0.0:
                        current[c] = sums[c] / sizes[c]
                reached = _sum_block(own, current, sums, sizes)
                if reached >= before:
                    break
            if reached < least:
                least = reached
                answers[block] = current


@compiled
def _seed_block(own, coins, centers):  # type: ignore[no-untyped-def]
    """Pick records with probability proportional to their squared distance from those picked."""
    near = np.ones(len(own))
    for c in range(len(centers)):
        left = coins[c] * near.sum()
        pick = 0
        while pick < len(own) - 1 and left >= near[pick]:
            left -= near[pick]
            pick += 1
        centers[c] = own[pick]
        for i in range(len(own)):
            far = ((own[i] - centers[c]) ** 2).sum()
            near[i] = far if c == 0 else min(near[i], far)


@compiled
def _sum_block(own, centers, sums, sizes):  # type: ignore[no-untyped-def]
    """Add up records by their nearest center, and return the potential."""
    sums[:] = 0.0
    sizes[:] = 0.0
    total = 0.0
    for i in range(len(own)):
        best, least = 0, np.inf
        for c in range(len(centers)):
            far = 0.0
            for j in range(own.shape[1]):
                far += (own[i, j] - centers[c, j]) ** 2
            if far < least:
                best, least = c, far
        sums[best] += own[i]
        sizes[best] += 1.0
        total += least
    return total

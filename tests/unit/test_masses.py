"""Expected numbers of records in cells: beside the model's exact posterior means."""

import itertools

import numpy as np
import pytest

from dpkv.mechanisms.synopsis.masses import _ONE_SIDED, expected_masses

FOUR_LEAVES = np.asarray([1, 3, 5, -1, -1, -1, -1])
ERROR = 0.06  # of the noise's scale and of the mass: interpolation and 16 shares make some


def tree_of(depth: int) -> np.ndarray:
    """A full binary tree, level by level."""
    inner = 2**depth - 1
    return np.concatenate([2 * np.arange(inner) + 1, np.full(inner + 1, -1)])


def masses_of(leaves: list[float], scale: float, depth: int = 2) -> np.ndarray:
    counts = np.zeros(2 ** (depth + 1) - 1)
    counts[2**depth - 1 :] = leaves
    return expected_masses(tree_of(depth), counts, scale).means


def by_enumeration(leaves: list[float], scale: float, n_shares: int = 60) -> np.ndarray:
    """Posterior means of four leaves: every triple of shares, weighted by what it makes likely."""
    inner = np.sin(np.pi / 2 * (np.arange(n_shares) + 0.5) / n_shares) ** 2  # the arcsine law
    shares = np.concatenate([[0.0, 1.0], inner])
    chances = np.full(n_shares + 2, (1.0 - 2.0 * _ONE_SIDED) / n_shares)
    chances[:2] = _ONE_SIDED
    top, left, right = np.meshgrid(shares, shares, shares, indexing="ij")
    total = max(sum(leaves), 0.0)
    held = np.stack([top * left, top * (1 - left), (1 - top) * right, (1 - top) * (1 - right)])
    held *= total
    weight = chances[:, None, None] * chances[:, None] * chances
    gaps = np.abs(np.asarray(leaves).reshape(4, 1, 1, 1) - held).sum(axis=0)
    weight = weight * np.exp(-(gaps - gaps.min()) / scale)
    return np.asarray((held * weight).reshape(4, -1).sum(axis=1) / weight.sum())


CASES = [
    [3.0, -1.0, 2.0, 0.5],
    [6.0, 0.2, 0.1, -0.4],
    [2.0, 2.0, 2.0, 2.0],
    [-3.0, 5.0, 5.0, -3.0],
    [7.0, 4.0, 1.0, 0.0],
]


@pytest.mark.parametrize("leaves", CASES, ids=lambda case: "counts " + " ".join(map(str, case)))
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_they_are_posterior_means(leaves, scale):
    leaves = [count * scale for count in leaves]
    exact, total = by_enumeration(leaves, scale), max(sum(leaves), 0.0)
    found = masses_of(leaves, scale)[3:]
    assert np.abs(found - exact).max() <= ERROR * (scale + total)
    thresholded = np.where(np.asarray(leaves) > 2 * scale, leaves, 0.0)  # what a decision makes
    thresholded *= total / max(thresholded.sum(), 1e-9)
    if leaves == [3.0, -1.0, 2.0, 0.5]:  # planted: a threshold is told from an expectation
        assert np.abs(thresholded - exact).max() > ERROR * (scale + total)


def test_halves_add_up_and_nothing_is_negative():
    rng = np.random.default_rng(0)
    for depth, scale in itertools.product((1, 4, 7), (0.5, 10.0, 3000.0)):
        leaves = rng.laplace(0, scale, 2**depth) + scale * rng.choice([0, 0, 0, 5, 100], 2**depth)
        means = masses_of(list(leaves), scale, depth)
        children = tree_of(depth)
        inner = np.flatnonzero(children >= 0)
        halves = means[children[inner]] + means[children[inner] + 1]
        assert means.min() >= 0.0
        assert halves == pytest.approx(means[inner], rel=1e-9, abs=1e-9 * scale)
        assert means[0] == pytest.approx(max(leaves.sum(), 0.0))


def test_the_unit_of_counts_does_not_matter():
    """Counts may come in units of which a record has many, and so does their noise."""
    rng = np.random.default_rng(1)
    leaves = rng.laplace(0, 3.0, 64) + rng.choice([0, 0, 40.0], 64)
    once = masses_of(list(leaves), 3.0, 6)
    assert masses_of(list(4096 * leaves), 4096 * 3.0, 6) == pytest.approx(4096 * once, rel=1e-9)


def test_a_small_cluster_keeps_records_and_an_empty_leaf_gets_few():
    rng = np.random.default_rng(2)
    small, empty = [], []
    for _ in range(40):
        leaves = rng.laplace(0, 20.0, 256)
        leaves[[3, 77, 200]] += (2000.0, 2000.0, 200.0)
        means = masses_of(list(leaves), 20.0, 8)[255:]
        small.append(means[200])
        empty.append(means[210])
    assert np.mean(small) > 100.0
    assert np.mean(empty) < 5.0

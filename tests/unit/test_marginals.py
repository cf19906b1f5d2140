"""How private cells spread over columns: all records, where they are, and no finer than cells."""

import numpy as np
import pytest

import dpkv


def blobs(width):
    rng = np.random.default_rng(4)
    places = rng.uniform(-8.0, 8.0, (3, width))
    return np.clip(places[np.arange(9_000) % 3] + rng.normal(0.0, 0.5, (9_000, width)), -10, 10)


def synopsis_of(values):
    made = dpkv.simulate(values, k=3, eps=8, bounds=(-10, 10), mechanism="synopsis", seed=0)
    assert made.synopsis is not None
    return made.synopsis


@pytest.mark.parametrize("width", [2, 60], ids=["columns", "projected"])
def test_a_density_holds_all_records_where_they_are(width):
    values = blobs(width)
    synopsis = synopsis_of(values)
    assert (synopsis.matrix is None) == (width == 2)
    found, edges = synopsis.density((0, 1), 10)
    assert found.shape == (10, 10) and edges.shape == (2, 11)
    assert edges[:, 0] == pytest.approx([-10, -10], abs=1e-9)
    assert edges[:, -1] == pytest.approx([10, 10], abs=1e-9)
    assert found.sum() == pytest.approx(9_000, rel=0.05)
    if width == 2:
        true = np.histogram2d(*values.T, edges)[0]
        assert np.abs(found - true).sum() < 0.5 * 9_000
        turned = np.histogram2d(*values.T[::-1], edges)[0]  # planted: columns in the wrong order
        assert np.abs(found - turned).sum() > 1.5 * 9_000


def test_one_column_is_the_sum_over_the_other():
    synopsis = synopsis_of(blobs(2))
    plane, edges = synopsis.density((0, 1), 12)
    line, own = synopsis.density((1,), 12)
    np.testing.assert_allclose(line, plane.sum(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(own[0], edges[1])

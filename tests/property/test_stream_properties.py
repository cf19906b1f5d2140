"""What holds for every stream, however it is cut into chunks."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dpkv
from dpkv.seeding import BUILDERS, ok_means, online_kmeans, summaries, summarise_stream
from dpkv.streams import gather_rows, recut

numbers = st.floats(-(2.0**53), 2.0**53, width=32) | st.integers(-3, 3).map(float)
tables = st.tuples(st.integers(1, 40), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=numbers)
)
cuts = st.lists(st.integers(1, 9), min_size=1, max_size=50)


def in_chunks(table: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return list(recut([table], [*sizes, len(table)]))


@given(table=tables, sizes=cuts)
def test_cutting_and_gathering_keep_every_record(table, sizes):
    pieces = in_chunks(table, sizes)
    np.testing.assert_array_equal(np.concatenate(pieces), table)
    np.testing.assert_array_equal(np.concatenate(list(gather_rows(pieces))), table)
    np.testing.assert_array_equal(np.concatenate(list(gather_rows(table))), table)


@settings(deadline=None)
@given(
    table=tables,
    sizes=cuts,
    n=st.integers(1, 12),
    builder=st.sampled_from(sorted(BUILDERS)),
    block=st.sampled_from([1, 7, 4096]),
)
def test_builders_keep_their_promises(table, sizes, n, builder, block):
    with mock.patch.object(summaries, "BLOCK_ROWS", block):
        found = summarise_stream(iter(in_chunks(table, sizes)), n, builder=builder, rng=1)
        whole = summarise_stream(table, n, builder=builder, rng=1)
    np.testing.assert_array_equal(found.points, whole.points)
    np.testing.assert_array_equal(found.weights, whole.weights)
    assert len(found.points) <= n
    assert found.weights.sum() == found.n_records == len(table)
    assert (found.weights > 0).all()
    assert np.isfinite(found.points).all()
    scale = max(1.0, float(np.abs(table).max())) ** 2 * len(table)
    assert found.spread >= dpkv.potential(table, found.points) - 1e-9 * scale


@settings(deadline=None)
@given(table=tables, sizes=cuts, k=st.integers(1, 5))
def test_on_line_algorithms_do_not_depend_on_chunks(table, sizes, k):
    found = online_kmeans(iter(in_chunks(table, sizes)), k, rng=1)
    np.testing.assert_array_equal(found.centers, online_kmeans(table, k, rng=1).centers)
    assert found.weights.sum() == len(table)
    batches = ok_means(iter(in_chunks(table, sizes)), batch_rows=k, rng=1)
    np.testing.assert_array_equal(batches.centers, ok_means(table, batch_rows=k, rng=1).centers)
    np.testing.assert_array_equal(batches.centers, table[batches.indices])
    assert len(batches.centers) == -(-len(table) // k)

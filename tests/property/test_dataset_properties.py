"""Tables of the paper and synthetic families, for every input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dpkv.paper.datasets.families import Labelled, hyperrectangles, move_records
from dpkv.paper.datasets.recipes import parse_values, recipe_of, table_bytes, values_digest
from dpkv.paper.studies.runner import csv_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TABLES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=FINITE)
SEEDS = st.integers(0, 2**32)


@given(TABLES)
def test_a_table_survives_its_file(values: np.ndarray) -> None:
    values = values + 0.0  # of two zeros the file knows one
    recipe = replace(recipe_of("europediff"), columns=("x",) * values.shape[1])
    read = parse_values(recipe, table_bytes(values))
    np.testing.assert_array_equal(read, values)
    assert values_digest(read) == values_digest(values)


@given(TABLES, st.data())
def test_another_number_is_another_digest(values: np.ndarray, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, values.shape[0] - 1))
    other = values.copy()
    other[row, 0] = np.nextafter(values[row, 0], 0.0 if values[row, 0] else 1.0)
    assert values_digest(other) != values_digest(values)
    if values.shape[0] != values.shape[1]:
        assert values_digest(values.reshape(values.shape[::-1])) != values_digest(values)


@given(st.integers(1, 300), st.integers(1, 4), st.integers(1, 50), st.floats(0.01, 1.0), SEEDS)
def test_boxes_hold_as_many_records_as_asked(
    rows: int, columns: int, largest: int, edge: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    made = hyperrectangles(rows, columns, rng, largest_cluster=largest, longest_edge=edge)
    assert made.points.shape == (rows, columns)
    assert ((made.points >= 0.0) & (made.points <= 1.0)).all()
    assert np.bincount(made.labels).max() <= largest
    assert (np.diff(made.labels) >= 0).all()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.floats(0.0, 1.0), SEEDS)
def test_moving_loses_no_record_and_leaves_no_empty_peer(
    labels: list[int], share: float, seed: int
) -> None:
    dense = np.unique(labels, return_inverse=True)[1]
    held = Labelled(np.zeros((len(dense), 1)), dense)
    after = move_records(held, share, np.random.default_rng(seed))
    assert len(after.labels) == len(dense)
    assert (np.bincount(after.labels) > 0).all()
    assert after.labels.max() <= dense.max()


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(), FINITE)),
        min_size=1,
    ).filter(any)
)
def test_a_csv_has_a_line_for_each_row(rows: list[dict[str, object]]) -> None:
    assert csv_of(rows).count("\n") == len(rows) + 1

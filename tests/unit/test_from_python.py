"""A release from Python: frames, files, notebooks, checks; and synthetic rows of its synopsis."""

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.errors import ParameterError, UsageError
from dpkv.releases.kept_releases import parse_record


def blobs():
    rng = np.random.default_rng(5)
    places = np.array([[2.0, 30.0], [8.0, 70.0], [8.0, 20.0]])
    points = places[rng.choice(3, 6_000, p=[0.5, 0.3, 0.2])]
    return np.clip(points + rng.normal(0.0, 1.0, points.shape) * [0.3, 3.0], 0.0, [10.0, 100.0])


ASKED = {"k": 3, "eps": 2, "bounds": [(0, 10), (0, 100)]}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("w")
    return dpkv.release(
        pd.DataFrame(blobs(), columns=["age", "<b>"]), **ASKED, mechanism="synopsis",
        workspace=workspace,
    )  # fmt: skip


def test_a_frame_has_places_sizes_and_errors(done):
    frame = done.to_frame()
    assert list(frame.columns) == ["age", "<b>", "size", "size_sd", "age_sd", "<b>_sd"]
    np.testing.assert_array_equal(frame[["age", "<b>"]].to_numpy(), done.centers)
    assert frame["size"].sum() == pytest.approx(6_000, abs=0.5)
    bare = dpkv.simulate(blobs(), **ASKED, mechanism="forgy", seed=1).to_frame()
    assert list(bare.columns) == ["x1", "x2"]


def test_a_notebook_shows_the_groups_and_the_promise_escaped(done):
    shown = done._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown and "±" in shown
    assert "2-differentially private" in shown
    bare = dpkv.simulate(blobs(), **ASKED, mechanism="gupt", seed=1)
    assert "averages over blocks" in bare._repr_html_()


def test_files_are_written_once_and_check_out(done, tmp_path):
    files = done.write(tmp_path / "out")
    assert [path.name for path in files] == ["centers.csv", "release.json", "synopsis.json"]
    assert parse_record(files[1].read_text(), files[1]) == done.record
    assert not [one for one in dpkv.verify(files[1], workspace=None) if one.passed is False]
    with pytest.raises(ParameterError, match="new or an empty folder"):
        done.write(tmp_path / "out")
    files[0].write_text(files[0].read_text().replace("age", "ego"))
    wrong = [one.name for one in dpkv.verify(files[1], workspace=None) if one.passed is False]
    assert wrong == ["digest"]
    for same in (done, done.record):
        assert not [one for one in dpkv.verify(same, workspace=None) if one.passed is False]


def test_synthetic_rows_lie_where_the_records_do(done):
    rows = done.synopsis.synthesize(6_000, rng=1)
    records = blobs()
    assert rows.shape == records.shape
    assert (rows >= 0).all() and (rows <= [10.0, 100.0]).all()
    scale = np.array([10.0, 100.0])
    means = rows.mean(axis=0) / scale, records.mean(axis=0) / scale
    np.testing.assert_allclose(*means, atol=0.015)
    fitted = dpkv.lloyd(rows / scale, done.centers / scale).centers
    ours = dpkv.potential(records / scale, fitted)
    floor = dpkv.potential(records / scale, dpkv.lloyd(records / scale, fitted).centers)
    assert floor <= ours <= 1.02 * floor
    np.testing.assert_array_equal(rows, done.synopsis.synthesize(6_000, rng=1))
    even = np.random.default_rng(0).uniform(0.0, 1.0, records.shape)  # what no cells would give
    worse = dpkv.potential(records / scale, dpkv.lloyd(even, done.centers / scale).centers)
    assert worse > 1.5 * floor


def test_synthetic_rows_of_many_columns_stay_in_the_bounds():
    wide = np.random.default_rng(2).uniform(0.2, 0.4, (500, 24))
    made = dpkv.simulate(wide, k=2, eps=1, bounds=(0, 1), mechanism="synopsis", seed=1)
    rows = made.synopsis.synthesize(50, rng=0)
    assert rows.shape == (50, 24) and (rows >= 0).all() and (rows <= 1).all()


@pytest.mark.xfail(
    reason="the fit on cells is 1.5 times the potential of the record since cells became coarser"
)
def test_the_fit_of_centers_on_cells_is_told():
    done = dpkv.simulate(blobs(), **ASKED, mechanism="synopsis", seed=0)
    sizes, potential = done.synopsis.fit(done.centers)
    np.testing.assert_allclose(sizes, done.record.sizes, atol=60)
    assert potential == pytest.approx(done.record.potential.value, rel=0.3)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "many", 10**12])
def test_no_number_of_rows_is_refused(done, rows):
    with pytest.raises(UsageError, match="rows must be"):
        done.synopsis.synthesize(rows)

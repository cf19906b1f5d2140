"""A release from Python: frames, files, notebooks, checks; and synthetic rows of its synopsis."""

import doctest
import json
import tempfile
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.audits.opening import SAMPLE, sample_of
from dpkv.errors import ParameterError, UsageError, VerificationError
from dpkv.releases import InputTable
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


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_of_centers_on_cells_is_told(seed):
    """Beside the records, which a simulation may look at, and beside the record's own estimate.

    The record counts every cell with its noise, so that its figure is off by a quarter or so. It
    says that itself, and the error it states bounds how far the two may be apart.
    """
    done = dpkv.simulate(blobs(), **ASKED, mechanism="synopsis", seed=seed)
    sizes, potential = done.synopsis.fit(done.centers)
    np.testing.assert_allclose(sizes, done.record.sizes, atol=60)
    scale = np.array([10.0, 100.0])
    true = dpkv.potential(blobs() / scale, done.centers / scale)
    assert potential == pytest.approx(true, rel=0.25)  # 1.13 to 1.22 times, for these seeds
    told = done.record.potential
    assert abs(told.value - true) <= 4.0 * told.sd
    assert abs(told.value - potential) <= 4.0 * told.sd


def test_what_the_width_of_cells_adds_is_taken_off():
    """An even table, a center in the middle: its potential is a sixth of the records, exactly."""
    even = np.random.default_rng(6).uniform(0.0, 1.0, (20_000, 2))
    done = dpkv.simulate(even, k=2, eps=8, bounds=(0, 1), mechanism="synopsis", seed=3)
    _, potential = done.synopsis.fit([[0.5, 0.5]])
    assert potential == pytest.approx(20_000 / 6.0, rel=0.01)


def test_a_fit_is_never_below_what_even_records_would_have():
    """A center on every point: records are as far off as evenly spread ones, not at distance 0."""
    done = dpkv.simulate(blobs(), **ASKED, mechanism="synopsis", seed=0)
    found = done.synopsis
    _, potential = found.fit(found.points)
    steps = np.asarray(found.grid.steps) / [10.0, 100.0]
    weighted = found.weighted_points()
    spread = float(weighted.weights @ weighted.spread) * steps[0] ** 2
    assert potential == pytest.approx(spread, rel=1e-6) and potential > 0.0


@pytest.mark.parametrize("rows", [0, -1, 1.5, "many", 10**12])
def test_no_number_of_rows_is_refused(done, rows):
    with pytest.raises(UsageError, match="rows must be"):
        done.synopsis.synthesize(rows)


@pytest.mark.parametrize("name", ["release", "simulate", "verify", "audit"])
def test_what_is_called_says_what_it_returns_and_its_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = getattr(dpkv, name)
    assert "Returns\n" in function.__doc__ and "Examples\n" in function.__doc__
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(recurse=False).find(function, name, globs={}):
        runner.run(example)
    assert runner.summarize(verbose=False).attempted >= 3
    assert runner.summarize(verbose=False).failed == 0


def test_a_large_table_is_sampled_in_little_memory():
    """Rows that are on disk stay there: what is held is the sample, and eight bytes a row."""
    n_rows, width = 400_000, 32
    with tempfile.TemporaryFile() as file:
        file.truncate(n_rows * width * 8)
        rows = np.memmap(file, np.float64, "r", shape=(n_rows, width))
        names = tuple(f"x{place}" for place in range(width))
        tracemalloc.start()
        try:
            sample = sample_of(InputTable(rows, names, "big", mapped=True), "", 0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sample.sampled and sample.n_units == n_rows and len(sample.values) == SAMPLE
    assert peak < 2 * SAMPLE * width * 8 + 3 * 8 * n_rows < rows.nbytes


def test_an_audit_from_python_is_that_of_the_release_and_is_written(tmp_path):
    values = np.clip(np.random.default_rng(3).normal(0.5, 0.2, (400, 2)), 0, 1)
    done = dpkv.release(values, k=2, eps=1, bounds=(0, 1), workspace=tmp_path / "w")
    done.write(tmp_path / "release")
    path = tmp_path / "release" / "release.json"
    found = dpkv.audit(path, public=True, workspace=tmp_path / "w")
    assert found.verdict.holds and found.audit.subject.release_id == done.record.release_id
    assert found.audit.subject.vouched_by == ("the ledger here",)
    files = found.write(tmp_path / "report")
    assert {file.name for file in files} >= {"report.html", "report.md", "audit.json"}
    with pytest.raises(ParameterError, match="a new folder"):
        found.write(tmp_path / "report")
    with pytest.raises(UsageError, match="another number of records"):
        dpkv.audit(done, values[:-1], workspace=None)
    record = json.loads(path.read_text(encoding="utf-8"))
    record["clusters"][0]["center"][0] += 0.5
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(VerificationError, match="does not check out"):
        dpkv.audit(path, public=True, workspace=None)

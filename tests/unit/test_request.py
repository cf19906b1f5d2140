"""One request: every way to ask for a release has its options, with its defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import dpkv
from dpkv.cli.release_options import ReleaseOptions
from dpkv.errors import ParameterError, TableError, UsageError
from dpkv.estimator import PrivateKMeans
from dpkv.releases.request import Options, Request

DEFAULTS = {one.name: one.default for one in fields(Request) if one.default is not MISSING}
ELSEWHERE = {"k": "n_clusters", "eps": "epsilon"}
NOT_OF_THE_ESTIMATOR = {"calibration", "clamp", "columns", "header", "encoding", "decimal"}
"""X brings its own columns, and is no file."""
NOT_OF_THE_ESTIMATOR |= {"publisher", "data_about", "purpose"}
"""What a record says of itself is said where a record is written."""
OF_A_FIT = {"person": "person", "weight": "sample_weight"}
"""What is said of every row is said when there are rows."""
SPELLED = {"scaled": "scale"}


def test_type_checkers_see_every_option() -> None:
    declared = get_type_hints(Request)
    assert {name: declared[name] for name in DEFAULTS} == get_type_hints(Options)


@pytest.mark.parametrize("function", [dpkv.release, dpkv.simulate], ids=["release", "simulate"])
def test_functions_show_every_option(function) -> None:
    shown = inspect.signature(function).parameters
    assert {name: shown[name].default for name in DEFAULTS} == DEFAULTS
    assert {"k", "eps", "bounds"} <= set(shown) and "options" not in shown
    assert all(f"\n    {name} : " in str(dpkv.release.__doc__) for name in DEFAULTS)


def test_the_estimator_has_every_option() -> None:
    own = inspect.signature(PrivateKMeans).parameters
    for one in fields(Request):
        if one.name in OF_A_FIT:
            assert OF_A_FIT[one.name] in inspect.signature(PrivateKMeans.fit).parameters
        elif one.name not in NOT_OF_THE_ESTIMATOR:
            name = ELSEWHERE.get(one.name, one.name)
            assert name in own, one.name
            if one.name in DEFAULTS:
                assert own[name].default == one.default, one.name


def test_the_command_line_has_every_option() -> None:
    own = {one.name: one.default for one in fields(ReleaseOptions)}
    for one in fields(Request):
        name = SPELLED.get(one.name, one.name)
        assert name in own, one.name
        if own[name] is not None and one.name in DEFAULTS:  # None: the calibration's, or detected
            assert own[name] == one.default, one.name


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        dpkv.simulate(np.zeros((5, 2)), k=1, eps=1, bounds=(0, 1), seed=0, nonsense=1)


def test_a_table_is_named_once() -> None:
    assert ReleaseOptions(k=2, data_option=Path("a.csv")).table == Path("a.csv")
    with pytest.raises(UsageError, match="given once"):
        _ = ReleaseOptions(k=2, data=Path("a.csv"), data_option=Path("a.csv")).table


def test_a_path_is_a_table(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = np.random.default_rng(0).integers(-9, 10, (60, 2))
    Path("people.csv").write_text("a,b\n" + "\n".join(f"{x},{y}" for x, y in records) + "\n")
    asked = {"k": 2, "eps": 1, "bounds": (-10, 10), "seed": 3}
    from_file = dpkv.simulate("people.csv", header=True, **asked)
    from_array = dpkv.simulate(records, columns=("a", "b"), **asked)
    assert from_file.record.columns == ("a", "b")
    np.testing.assert_array_equal(from_file.centers, from_array.centers)
    one_column = dpkv.simulate(Path("people.csv"), header=True, columns=["b"], **asked)
    assert one_column.record.columns == ("b",)
    bounds = (-10, 10)
    made = dpkv.release("people.csv", header=True, k=2, eps=1, bounds=bounds)
    again = dpkv.release("people.csv", header=True, k=2, eps=1, bounds=bounds, columns=["a"])
    assert made.charged_to is not None and again.charged_to is not None
    assert made.charged_to.dataset == again.charged_to.dataset  # one file, one account


def test_a_header_is_never_guessed_for_a_release(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("Ann,Bob\n" + "1,2\n3,4\n" * 20)
    model = dpkv.PrivateKMeans(2, 1.0, bounds=(-10, 10), workspace=None)
    asked = {"k": 2, "eps": 1, "bounds": (-10, 10)}
    for attempt in (
        lambda: dpkv.release("people.csv", **asked),
        lambda: dpkv.simulate(["people.csv"], seed=0, **asked),
        lambda: dpkv.simulate(dpkv.read_table("people.csv"), seed=0, **asked),
        lambda: model.fit("people.csv"),
    ):
        with pytest.raises(TableError, match=r"names or a record: .* ?header=True or") as error:
            attempt()
        assert "Ann" not in str(error.value)
    assert not Path(".dpkv", "releases").exists()
    table = dpkv.read_table("people.csv", header=False, missing="fill:0")
    stated = dpkv.simulate(table, seed=0, **asked)
    assert stated.record.columns == ("x1", "x2")
    assert dpkv.calibrate("people.csv", eps=1, k=2).columns == ("Ann", "Bob")  # not published


def test_an_array_has_no_header() -> None:
    with pytest.raises(ParameterError, match="header"):
        dpkv.simulate(np.zeros((5, 2)), k=1, eps=1, bounds=(0, 1), seed=0, header=True)

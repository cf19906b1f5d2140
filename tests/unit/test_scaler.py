"""``dpkv.PublicScaler``: scaling by public bounds, with nothing learnt from the records."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpkv
from dpkv import PrivateKMeans, PublicScaler
from dpkv.errors import UsageError

OFFICIAL = parametrize_with_checks([PublicScaler((-300, 300)), PublicScaler((-1, 1), clip=True)])


@pytest.mark.parametrize(OFFICIAL.args[0], list(OFFICIAL.args[1]), **OFFICIAL.kwargs)
def test_scikit_learns_own_checks(estimator: PublicScaler, check: Any) -> None:
    check(estimator)


def test_bounds_become_0_and_1() -> None:
    table = pd.DataFrame({"age": [0.0, 50, 200], "pulse": [40.0, np.nan, 120]})
    scaler = PublicScaler({"age": (0, 100), "pulse": (40, 140)}).set_output(transform="pandas")
    scaled = scaler.fit_transform(table)
    assert scaled["age"].tolist() == [0, 0.5, 2]
    np.testing.assert_array_equal(scaled["pulse"], [0, np.nan, 0.8])
    np.testing.assert_allclose(scaler.inverse_transform(scaled), table)
    clipped = PublicScaler([(0, 100), (40, 140)], clip=True).fit_transform(table.to_numpy())
    assert clipped[2].tolist() == [1, 0.8]


def test_nothing_is_learnt() -> None:
    """Whatever it was fitted to, the same is left behind, and the same is made of a row."""
    draws = np.random.default_rng(0)
    fitted = [PublicScaler((-1, 1)).fit(draws.uniform(-9, 9, (50, 2))) for _ in range(2)]
    assert pickle.dumps(fitted[0]) == pickle.dumps(fitted[1])
    assert set(vars(fitted[0])) == {"bounds", "clip", "n_features_in_"}


def test_before_the_estimator() -> None:
    records = np.random.default_rng(0).uniform(0, 80, (60, 2))
    pipeline = make_pipeline(
        PublicScaler((0, 100)), PrivateKMeans(2, 1.0, bounds=(0, 1), workspace=None)
    )
    assert pipeline.fit_predict(records).shape == (60,)
    centers = pipeline[0].inverse_transform(pipeline[-1].cluster_centers_)
    assert ((centers >= 0) & (centers <= 100)).all()


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (None, "bounds must be low and high"),
        ((1, 0), "in this order"),
        ([(0, 1)] * 3, "bounds"),
        ({"center": 0, "radius": 1}, "bounds must be low,high for 2 columns"),
        (dpkv.Box((0.0,), (1.0,)), "bounds must be low,high for 2 columns"),
    ],
)
def test_bad_bounds_are_refused(bounds: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        PublicScaler(bounds).fit(np.zeros((3, 2)))


def test_a_refusal_shows_no_record() -> None:
    with pytest.raises(ValueError) as refused:
        PublicScaler((0, 1)).fit([["secretcell", 1.0]])
    assert "secretcell" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__context__ is None

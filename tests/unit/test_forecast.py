"""What a calibration leads with: what a release would do by default, from public facts."""

from __future__ import annotations

import numpy as np
import pytest

import dpkv
from dpkv.calibration.forecast import forecast
from dpkv.domain import Box
from dpkv.releases import Plan, settle
from dpkv.releases.predictions import predicted_deviations

BOX = Box((0.0, -50.0), (1.0, 50.0))


def test_the_default_mechanism_and_errors_in_the_users_units() -> None:
    found = forecast(BOX, 50_000, 1.0, 4, 0.1)
    assert found is not None and found.mechanism == "synopsis" and not found.hopeless
    first, second = found.deviations
    assert second == pytest.approx(100 * first)
    assert found.eps_for_half == 2.0
    halved = forecast(BOX, 50_000, found.eps_for_half, 4, 0.1)
    assert halved is not None and halved.deviations[0] == pytest.approx(first / 2, rel=0.02)


def test_where_nothing_can_be_expected() -> None:
    found = forecast(BOX, 20, 0.001, 4, 0.1)
    assert found is not None and found.hopeless


@pytest.mark.parametrize("eps", [1e-320, 1e-200])
def test_an_eps_that_no_release_can_have(eps: float) -> None:
    assert forecast(BOX, 1000, eps, 4, 0.1) is None


def test_it_depends_on_the_number_of_records_alone() -> None:
    rng = np.random.default_rng(0)
    rows = [
        dpkv.calibrate(
            rng.uniform(-1, 1, (300, 2)), eps=1, k=2, domain=Box((-1, -1), (1, 1)),
            method="randomized", n_est=50, rng=0,
        ).rows[0]
        for _ in range(2)
    ]  # fmt: skip
    assert rows[0].forecast == rows[1].forecast and rows[0].randomized != rows[1].randomized


def test_a_release_predicts_what_the_calibration_did() -> None:
    asked = {"k": 4, "eps": 1, "bounds": "given", "domain": BOX, "columns": ["a", "b"]}
    settled = settle(Plan.of(**asked, mechanism="auto"), 50_000)  # type: ignore[arg-type]
    found = forecast(BOX, 50_000, 1.0, 4, 0.1)
    assert found is not None and predicted_deviations(settled) == found.deviations


@pytest.mark.parametrize(
    "changes",
    [{"neighbours": "add-remove"}, {"bounds": "private", "domain": None}],
    ids=["private number", "private bounds"],
)
def test_what_is_private_predicts_nothing(changes: dict[str, object]) -> None:
    asked = {"k": 4, "eps": 1, "bounds": "given", "domain": BOX, "columns": ["a", "b"], **changes}
    settled = settle(Plan.of(**asked, mechanism="auto"), 50_000)  # type: ignore[arg-type]
    assert predicted_deviations(settled) is None

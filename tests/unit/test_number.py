"""The number of clusters, chosen from private cells; and how a release says so."""

import json
from decimal import Decimal

import numpy as np
import pytest

import dpkv
from dpkv.domain import Box
from dpkv.errors import UsageError
from dpkv.mechanisms import calibrate_mechanism
from dpkv.mechanisms.synopsis.number import choose_number, potential_curve
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, curator_of
from dpkv.releases.plan import numbers_of_centers
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.verify import failed, verify


@pytest.mark.parametrize(
    ("curve", "dimensions", "fewest", "number"),
    [
        ([100, 60, 30, 5, 4.8, 4.6], 2, 2, 4),  # the inverse jumps by 1/6 at 4, by 0.01 elsewhere
        ([100, 60, 30, 5, 4.8, 4.6], 2, 5, 6),  # within the range alone
        ([100, 62, 50, 42, 36], 2, 1, 1),  # no cluster is worth a cut
        ([9.0], 2, 2, 2),  # cells tell one place apart
        ([9.0, 0.0, 0.0], 2, 1, 2),
    ],
)
def test_the_largest_jump_is_taken(curve, dimensions, fewest, number):
    assert choose_number(np.array(curve, dtype=float), dimensions, fewest) == number


def blobs(k, n_records=8_000, d=2, seed=0):
    rng = np.random.default_rng(seed)
    angles = np.arange(k) * 2.0 * np.pi / k
    places = np.full((k, d), 0.3)
    places[:, 0], places[:, 1] = 0.7 * np.cos(angles), 0.7 * np.sin(angles)
    return np.clip(
        places[rng.integers(k, size=n_records)] + rng.normal(0, 0.05, (n_records, d)), -1, 1
    )


@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 3), (6, 2), (4, 6)])
def test_clusters_that_lie_apart_are_counted(k, d):
    grid = Box((-1.0,) * d, (1.0,) * d).grid()
    points = grid.quantise(blobs(k, d=d)).astype(np.int32)
    facts = {"n_records": len(points), "n_clusters": 20, "grid": grid, "fewest": 2}
    mechanism = calibrate_mechanism("synopsis", Decimal(1), **facts)
    for seed in range(3):
        ask = curator_of(mechanism, ArrayRecords(points), SeededEntropy(seed))
        curve = potential_curve(mechanism.private_cells(ask), 20, ask.coins)
        assert choose_number(curve, mechanism.n_dimensions, 2) == k


def test_a_release_chooses_and_can_be_verified(tmp_path):
    asked = {"eps": 2, "bounds": (-1, 1), "mechanism": "synopsis", "workspace": tmp_path / "w"}
    done = dpkv.release(blobs(4), k="2..9", **asked)
    record = done.record
    assert len(done.centers) == len(record.clusters) == len(record.grid_centers) == 4
    assert (record.plan.fewest, record.plan.k) == (2, 9) and len(record.curve) <= 9
    assert not failed(
        verify(record, workspace=tmp_path / "w", synopsis_text=done.synopsis.to_json())
    )
    assert ReleaseRecord.model_validate_json(record.to_json()) == record
    bent = json.loads(record.to_json())
    bent["curve"][4] = bent["curve"][3] / 50.0
    wrong = {one.name for one in failed(verify(ReleaseRecord.model_validate(bent)))}
    assert "centres" in wrong, "five centres follow from such a curve"
    without = record.model_copy(update={"curve": None})
    assert "centres" in {one.name for one in failed(verify(without))}


def test_auto_takes_a_mechanism_that_can_choose(tmp_path):
    asked = {"eps": 2, "bounds": (-1, 1), "workspace": tmp_path / "w"}
    for neighbours in ("replace-one", "add-remove"):
        done = dpkv.simulate(
            blobs(3), k=(2, 6), mechanism="auto", neighbours=neighbours, seed=1, eps=2,
            bounds=(-1, 1),
        )  # fmt: skip
        assert done.record.plan.mechanism == "synopsis" and len(done.centers) == 3
    with pytest.raises(UsageError, match="k must be one number unless mechanism is 'synopsis'"):
        dpkv.release(blobs(3), k="2..6", mechanism="kvariates", **asked)


@pytest.mark.parametrize(
    ("k", "meant"),
    [(5, (None, 5)), ("5", (None, 5)), ("2..12", (2, 12)), ((3, 3), (None, 3)), ("auto", (2, 64))],
)
def test_numbers_and_ranges_are_read(k, meant):
    assert numbers_of_centers(k) == meant


@pytest.mark.parametrize(
    "k", ["x", "2..", "..3", "-1", "9..2", "2..257", "0..4", (1, 2, 3), "²..3", ""]
)
def test_what_is_no_number_or_range_is_refused(k):
    with pytest.raises(UsageError, match="k must be"):
        numbers_of_centers(k)

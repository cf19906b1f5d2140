"""The search for the worst case: what it finds is true, close to the price, and sees faults."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import mpmath
import numpy as np
import pytest

from dpkv.audits.faults import FAULTS, PAPERS_EPS_TILDE, plant_fault
from dpkv.audits.losses import log_ratio_of_tables
from dpkv.audits.worst_case import WorstCase, worst_case
from dpkv.domain import Box, Domain, L1Ball
from dpkv.errors import ParameterError
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours, Published, Synopsis
from dpkv.mechanisms.kvariates import Algorithm0

REPLACE = Neighbours.REPLACE_ONE
SQUARE = Box((0.0, 0.0), (1.0, 1.0))
LINE = Box((0.0,), (1.0,))
BALL = L1Ball((0.0, 0.0), 1.0)
EUROPE = 169308
"""Records of EuropeDiff, which has two columns."""


def kvariates(
    m: int, k: int = 2, gamma: float = 0.1, eps: str = "1", domain: Domain = SQUARE
) -> KVariates:
    return KVariates.calibrate(
        Decimal(eps), n_records=m, n_clusters=k, grid=domain.grid(), gamma=gamma
    )


def plain(kind: type[Laplace], k: int, domain: Domain = SQUARE, eps: str = "1") -> Algorithm0:
    return kind.calibrate(Decimal(eps), n_clusters=k, grid=domain.grid(), neighbours=REPLACE)


def recomputed(mechanism: Algorithm0, found: WorstCase) -> float:
    counts = np.array([found.n_common])
    return log_ratio_of_tables(
        mechanism, found.common[np.newaxis], counts, found.old, found.new, found.output
    )


@pytest.mark.parametrize("domain", [LINE, SQUARE, BALL])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 2), (50, 3), (EUROPE, 2)])
def test_what_is_found_is_a_pair_of_tables_and_an_output_with_that_loss(m, k, domain):
    mechanism = kvariates(m, k, domain=domain)
    found = worst_case(mechanism, m, restarts=3)
    assert found.n_common == m - 1
    assert found.output.shape == (k, domain.n_features)
    everything = np.stack([found.common, found.old, found.new, *found.output])
    assert (mechanism.grid.clip(everything) == everything).all()
    assert found.loss >= 0
    assert recomputed(mechanism, found) == pytest.approx(found.loss, rel=1e-12)


@pytest.mark.parametrize("m", [50, 300, 2000, EUROPE])
@pytest.mark.parametrize(("gamma", "share"), [(0.01, 0.93), (0.1, 0.84), (math.inf, 1 - 1e-9)])
def test_two_centers_come_close_to_the_price(m, gamma, share):
    mechanism = kvariates(m, 2, gamma)
    found = worst_case(mechanism, m, restarts=2)
    assert share <= found.loss / float(mechanism.cost()) <= 1 + 1e-12


@pytest.mark.parametrize("eps", ["0.01", "1", "8"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("kind", [Laplace, Forgy])
@pytest.mark.parametrize("domain", [LINE, SQUARE, BALL])
def test_one_record_at_the_laplace_mechanisms_noise_loses_all_of_eps(kind, k, eps, domain):
    mechanism = plain(kind, k, domain, eps)
    found = worst_case(mechanism, 1, restarts=2)
    assert found.loss == pytest.approx(float(eps), rel=1e-12)


def test_one_center_loses_exactly_its_price():
    """At k = 1, log(1 + (rho - 1) / m) is reached."""
    for m in (1, 7, EUROPE):
        mechanism = kvariates(m, 1)
        found = worst_case(mechanism, m, restarts=2)
        assert found.loss == pytest.approx(float(mechanism.cost()), rel=1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_a_ball_is_searched_along_its_longest_diagonal(d):
    """Two ends of an axis are diam1 and diam2 apart; the loss there is easily found by hand."""
    domain = L1Ball((0.0,) * d, 1.0)
    mechanism = kvariates(50, 2, domain=domain)
    end = np.eye(d, dtype=np.int64)[0] * mechanism.grid.radius1
    along_axis = WorstCase(-end, 49, end, -end, np.stack([-end, end]), 0.0)
    found = worst_case(mechanism, 50, restarts=24)
    assert found.loss >= recomputed(mechanism, along_axis) * (1 - 1e-9)


def test_searches_repeat_and_more_of_them_never_find_less():
    mechanism = kvariates(30, 4, 1.0, "3")
    once, again = (worst_case(mechanism, 30, restarts=4, seed=3) for _ in range(2))
    assert once.loss == again.loss
    assert once.output.tolist() == again.output.tolist()
    losses = [worst_case(mechanism, 30, restarts=n, seed=3).loss for n in (1, 2, 4, 8)]
    assert losses == sorted(losses)


# -- faults exceed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [50, 300, EUROPE])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_half_the_noise_exceeds(m, k):
    sound = kvariates(m, k)
    halved = replace(sound, noise_scale=sound.noise_scale / 2)
    assert worst_case(halved, m, restarts=2).loss > 1.2


def test_thirty_percent_less_noise_exceeds():
    for m in (50, EUROPE):
        sound = kvariates(m, 2)
        less = replace(sound, noise_scale=sound.noise_scale / 1.3)
        assert worst_case(less, m, restarts=2).loss > 1.2


@pytest.mark.parametrize("m", [50, 300, EUROPE])
def test_no_smoothing_exceeds(m):
    """An outlier is picked for certain: one center costs eps~, as if there were one record."""
    sound = kvariates(m, 2)
    unsmoothed = Laplace(2, sound.grid, REPLACE, sound.noise_scale)
    found = worst_case(unsmoothed, m, restarts=2)
    assert found.loss > 0.99 * float(sound.log_ratio) > 2


def test_the_papers_eps_tilde_for_europediff_exceeds():
    """The first pick alone costs log(1 + (e^19 - 1) / 169308) = 6.96 where eps = 1 is claimed."""
    mechanism = Published.calibrate(PAPERS_EPS_TILDE, n_clusters=2, grid=SQUARE.grid())
    first_pick = float(mpmath.log1p(mpmath.expm1(19) / EUROPE))
    assert first_pick == pytest.approx(6.96, abs=0.005)
    assert worst_case(mechanism, EUROPE, restarts=2).loss > first_pick
    one = Published.calibrate(PAPERS_EPS_TILDE, n_clusters=1, grid=SQUARE.grid())
    assert worst_case(one, EUROPE, restarts=2).loss == pytest.approx(first_pick, rel=1e-9)


def test_the_largest_eps_tilde_that_one_pick_allows():
    """log(1 + (e^eps~ - 1) / m) = 1 at eps~ = log(1 + m (e - 1)), 12.6 for EuropeDiff."""
    largest = math.log1p(EUROPE * math.expm1(1.0))
    assert largest == pytest.approx(12.58, abs=0.01)
    mechanism = Published.calibrate(largest, n_clusters=1, grid=SQUARE.grid())
    assert worst_case(mechanism, EUROPE, restarts=2).loss == pytest.approx(1.0, rel=1e-9)


# -- the planted faults themselves -----------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_a_mechanism_that_differs_in_just_that(name):
    fault = plant_fault(name, Decimal(1), n_records=300, n_clusters=2, domain=SQUARE, gamma=0.1)
    sound = kvariates(300)
    assert fault.name == name
    if name == "half-noise":
        assert fault.mechanism == replace(sound, noise_scale=sound.noise_scale / 2)
    elif name == "no-smoothing":
        assert isinstance(fault.mechanism, Algorithm0)
        assert fault.mechanism.smoothing == 0
        assert fault.mechanism.noise_scale == sound.noise_scale
    elif name == "papers-eps-tilde":
        assert isinstance(fault.mechanism, Published)
        assert float(fault.mechanism.log_ratio) == pytest.approx(19.0)
    elif name == "float-noise":
        assert fault.mechanism == sound
        drawn = fault.entropy().add_laplace(np.zeros(50, np.int64), 3.0)
        assert (np.asarray(drawn) != np.rint(drawn)).any()
    elif name in ("synopsis-radius", "synopsis-decay"):  # priced as the sound one, run otherwise
        assert isinstance(fault.mechanism, Synopsis) and type(fault.mechanism) is not Synopsis
        honest = Synopsis.calibrate(
            Decimal(1), n_clusters=2, grid=fault.mechanism.grid, neighbours=Neighbours.REPLACE_ONE
        )
        assert fault.mechanism.cost() == honest.cost() <= 1
    elif name in ("synopsis-exact-count", "extra-question", "weights-above-person"):
        assert fault.mechanism.cost() <= 1  # what they do is not in their description
    else:
        assert fault.mechanism.cost() > Decimal("1.05")


def test_the_swapped_split_exceeds_in_wide_tables_of_any_domain():
    for domain in (LINE, SQUARE, Box((0.0,) * 15, (2.0,) * 15)):
        fault = plant_fault(
            "swapped-split", Decimal(2), n_records=300, n_clusters=3, domain=domain, gamma=0.1
        )
        assert fault.mechanism.cost() > Decimal("2.1")


def test_an_unknown_fault_is_refused():
    with pytest.raises(ParameterError, match=r"plant must be one of half-noise.*Got 'x' instead"):
        plant_fault("x", Decimal(1), n_records=300, n_clusters=2, domain=SQUARE, gamma=0.1)

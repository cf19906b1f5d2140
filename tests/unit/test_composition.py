"""Composition: never below the exact figure, close to it, and a filter that keeps its promise."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from dpkv.accounting import gaussian_step, laplace_step
from dpkv.accounting.composition import Price, compose, prices_of, rho_of
from dpkv.accounting.loss_distribution import eps_of_pure_steps
from dpkv.accounting.zcdp import eps_of_rho
from dpkv.errors import BudgetError, UsageError
from dpkv.ledger import Entry, Ledger
from dpkv.ledger.accounts import Account

DELTA = Decimal("1e-6")
PLAN = "a" * 64


def exact_eps(groups: list[tuple[str, int]], delta: str) -> float:
    """Return the optimal composition of randomised responses, by sums of binomials in mpmath."""
    with mpmath.workdps(50):
        outcomes = []
        for heads in itertools.product(*(range(count + 1) for _, count in groups)):
            loss, chance = mpmath.mpf(0), mpmath.mpf(1)
            for (eps, count), number in zip(groups, heads, strict=True):
                e = mpmath.mpf(eps)
                q = mpmath.exp(e) / (1 + mpmath.exp(e))
                loss += (2 * number - count) * e
                chance *= mpmath.binomial(count, number) * q**number * (1 - q) ** (count - number)
            outcomes.append((loss, chance))
        low, high = mpmath.mpf(0), max(loss for loss, _ in outcomes)
        for _ in range(45):
            middle = (low + high) / 2
            found = sum(p * (1 - mpmath.exp(middle - x)) for x, p in outcomes if x > middle)
            low, high = (low, middle) if found <= mpmath.mpf(delta) else (middle, high)
        return float(high)


GROUPS = [
    ([("0.1", 50)], "1e-6"),
    ([("1", 20)], "1e-6"),
    ([("0.01", 400)], "1e-9"),
    ([("0.1", 20), ("0.25", 12)], "1e-6"),
    ([("0.0123457", 17), ("0.4567891", 9)], "1e-5"),
    ([("3", 2)], "1e-4"),
]


@pytest.mark.parametrize(("groups", "delta"), GROUPS, ids=[str(n) for n in range(len(GROUPS))])
def test_losses_of_pure_steps_are_the_optimal_composition(
    groups: list[tuple[str, int]], delta: str
) -> None:
    truth = exact_eps(groups, delta)
    found = eps_of_pure_steps([(Fraction(eps), n) for eps, n in groups], float(delta))
    assert found is not None
    assert truth <= float(found) <= 1.01 * truth + 1e-8


def test_half_the_noise_would_be_seen() -> None:
    """The planted fault: figures of steps of half the price are far below the exact ones."""
    found = eps_of_pure_steps([(Fraction("0.05"), 50)], 1e-6)
    assert found is not None and float(found) < 0.7 * exact_eps([("0.1", 50)], "1e-6")


@pytest.mark.parametrize("count", [1, 7, 50, 200])
def test_a_second_library_agrees(count: int) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    step = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.1, 0.0))
    theirs = step.self_compose(count).get_epsilon_for_delta(1e-6)
    found = eps_of_pure_steps([(Fraction("0.1"), count)], 1e-6)
    assert found is not None
    assert theirs * (1 - 1e-6) <= float(found) <= 1.01 * theirs


@pytest.mark.parametrize("count", [1, 50])
def test_zcdp_agrees_with_opendp(count: int) -> None:
    """dpkv's is rounded up, OpenDP's in floats: the planted fault, one step more, is far off."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    noise = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=10.0)
    parts = [dp.c.make_pureDP_to_zCDP(noise)] * count
    theirs = dp.c.make_zCDP_to_approxDP(dp.c.make_composition(parts)).map(1).epsilon(1e-6)
    found, more = (float(eps_of_rho(Fraction(n, 200), 1e-6)) for n in (count, count + 1))
    assert math.isclose(found, theirs, rel_tol=1e-9) and more > 1.005 * theirs


def test_prices_without_a_common_measure_stay_within_a_percent() -> None:
    """Rounded up to a lattice, they come out between those of their neighbours."""
    prices = [(Fraction(1000 + 37 * n, 12345), 1) for n in range(60)]
    less, more = ([(p * Fraction(*by), n) for p, n in prices] for by in ((1, 1), (101, 100)))
    found, above = eps_of_pure_steps(less, 1e-6), eps_of_pure_steps(more, 1e-6)
    assert found is not None and above is not None
    mean = [(Fraction(1000 + 37 * 29, 12345), 60)]
    about = eps_of_pure_steps(mean, 1e-6)
    assert about is not None and about < found < above
    assert float(above / found) < 1.03


def test_endless_prices_are_left_to_other_ways() -> None:
    assert eps_of_pure_steps([(Fraction("0.1"), 10**7)], 1e-6) is None
    assert eps_of_pure_steps([], 1e-6) == 0


def pure(eps: str, times: int = 1) -> Price:
    return Price("pure", Decimal(eps), times)


def test_fifty_releases_cost_far_less_than_their_sum() -> None:
    found = compose([pure("0.1", 50)], DELTA, sum_eps=Decimal(5), sum_delta=Decimal(0))
    assert (found.way, found.eps) == ("loss distribution", Decimal("3.172902735"))
    in_zcdp = eps_of_rho(Fraction(1, 4), 1e-6)
    assert found.eps < in_zcdp < 5


@pytest.mark.parametrize(
    ("prices", "delta", "way"),
    [
        ([pure("0.5")], Decimal("1e-12"), "sum"),
        ([pure("0.1", 50)], Decimal(0), "sum"),
        ([pure("0.0001", 10**7)], DELTA, "zcdp"),
        ([pure("0.1", 50)], DELTA, "loss distribution"),
        ([Price("opaque", Decimal(1))], DELTA, "sum"),
    ],
)
def test_the_smallest_way_is_taken(prices: list[Price], delta: Decimal, way: str) -> None:
    total = sum((price.amount * price.times for price in prices), Decimal(0))
    found = compose(prices, delta, sum_eps=total, sum_delta=Decimal(0))
    assert found.way == way and found.eps <= total


def test_gaussian_and_pure_steps_compose() -> None:
    prices = [pure("0.1", 20), Price("zcdp", Decimal("0.02"), 3)]
    found = compose(prices, DELTA, sum_eps=Decimal(99), sum_delta=Decimal(0))
    alone = eps_of_rho(Fraction("0.06"), 1e-6)
    assert alone < found.eps <= eps_of_rho(Fraction("0.06") + Fraction("0.1"), 1e-6)


def test_prices_of_steps_are_rounded_up() -> None:
    steps = (laplace_step("a", 1, 3.0, 4), gaussian_step("b", 1, 3.0, 2))
    prices = prices_of(steps)
    assert [(price.kind, price.times) for price in prices] == [("pure", 4), ("zcdp", 2)]
    assert Fraction(1, 3) <= Fraction(prices[0].amount) < Fraction(1, 3) + Fraction(1, 10**14)
    assert Fraction(1, 18) <= Fraction(prices[1].amount) < Fraction(1, 18) + Fraction(1, 10**14)
    assert rho_of(prices) == sum((price.rho or 0 for price in prices), Fraction(0))


# --- accounts -----------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / ".dpkv")


def charge(
    ledger: Ledger, name: str, eps: str, delta: str = "0", prices: tuple[Price, ...] = ()
) -> Entry:
    return ledger.charge(
        release_id=name,
        dataset="d1",
        label="x",
        eps=Decimal(eps),
        delta=Decimal(delta),
        neighbours="replace-one",
        end_to_end=True,
        plan_digest=PLAN,
        prices=prices,
    ).entry


def account(ledger: Ledger) -> Account:
    return ledger.read().account("d1")


def set_budget(ledger: Ledger, eps: str, **more: object) -> None:
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(eps), **more)  # type: ignore[arg-type]


def charged_until_refused(ledger: Ledger, eps: str = "0.1") -> int:
    for number in range(200):
        try:
            charge(ledger, f"r{number}", eps)
        except BudgetError:
            return number
    return 200


def test_a_budget_without_delta_is_a_plain_sum(ledger: Ledger) -> None:
    set_budget(ledger, "1")
    assert charged_until_refused(ledger) == 10


def test_the_filter_admits_as_long_as_rho_stays_within_its_bound(ledger: Ledger) -> None:
    set_budget(ledger, "3", delta=DELTA)
    admitted = charged_until_refused(ledger)
    assert eps_of_rho(admitted * Fraction(1, 200), 1e-6) <= 3
    assert eps_of_rho((admitted + 1) * Fraction(1, 200), 1e-6) > 3
    assert admitted > 30, "more than the plain sum"
    assert Decimal(0) <= (account(ledger).remaining or 0) < Decimal("0.1")
    assert len(ledger.verify()) == 1 + admitted


def test_fixed_prices_admit_what_loss_distributions_prove(ledger: Ledger) -> None:
    set_budget(ledger, "3", delta=DELTA, fixed_prices=True)
    admitted = charged_until_refused(ledger)
    assert exact_eps([("0.1", admitted)], "1e-6") <= 3 < exact_eps([("0.1", admitted + 1)], "1e-6")


def test_a_single_release_may_use_its_whole_budget(ledger: Ledger) -> None:
    """Its own figure, from pure steps and noise with a delta, is one that zCDP does not reach."""
    prices = (pure("0.9"), Price("zcdp", Decimal("0.0001")))
    set_budget(ledger, "1", delta=DELTA)
    charge(ledger, "r:bounds", "0.1", prices=(pure("0.1"),))
    charge(ledger, "r", "0.9", "1e-6", prices)
    assert account(ledger).remaining == 0
    with pytest.raises(BudgetError):
        charge(ledger, "more", "0.001")


def test_deltas_do_not_count_beside_the_filter(ledger: Ledger) -> None:
    """The planted fault would be to take the plain sum after the filter refused."""
    set_budget(ledger, "1", delta=DELTA)
    charge(ledger, "a", "0.1", "5e-7", (Price("zcdp", Decimal("0.0001")),))
    with pytest.raises(BudgetError, match=r"requested eps 0\.9"):
        charge(ledger, "b", "0.9", "5e-7", (Price("zcdp", Decimal("0.1")),))
    assert account(ledger).spent == Decimal("0.1")


def test_a_budget_in_rho(ledger: Ledger) -> None:
    ledger.set_budget(dataset="d1", label="x", rho=Decimal("0.05"))
    assert charged_until_refused(ledger) == 10
    with pytest.raises(BudgetError, match=r"requested rho 0\.005, remaining 0, short by 0\.005"):
        charge(ledger, "more", "0.1")
    with pytest.raises(UsageError, match="has no price in zCDP: set a budget in eps and delta"):
        charge(ledger, "opaque", "0.1", "1e-9")
    with pytest.raises(UsageError, match="in eps, with or without delta, or in rho: give one"):
        ledger.set_budget(dataset="d1", label="x", eps=Decimal(1), rho=Decimal(1))


def test_a_budget_of_rho_is_not_passed_by_rounding(ledger: Ledger) -> None:
    third = Decimal(1) / Decimal(3)
    ledger.set_budget(dataset="d1", label="x", rho=Decimal(1))
    for name in "abc":
        if name == "c":
            with pytest.raises(BudgetError):
                charge(ledger, name, "1", "1e-9", (Price("zcdp", third + Decimal("1e-15")),))
        else:
            charge(ledger, name, "1", "1e-9", (Price("zcdp", third + Decimal("1e-15")),))


def test_accounts_survive_a_round_trip(ledger: Ledger) -> None:
    set_budget(ledger, "3", delta=DELTA, fixed_prices=True)
    charge(ledger, "a", "0.5", "1e-7", (pure("0.1", 3), Price("zcdp", Decimal("0.001"))))
    found = account(ledger)
    assert Account.from_dict(found.to_dict()) == found


def test_many_different_prices_are_kept_coarsely(ledger: Ledger) -> None:
    many = tuple(pure(f"{0.001 + n * 1e-6:.6f}") for n in range(700))
    charge(ledger, "a", "1", prices=many)
    found = account(ledger)
    kept = sum(Decimal(amount) * times for (_, amount), times in found.prices.items())
    exact = sum((price.amount for price in many), Decimal(0))
    assert len(found.prices) < 500 and exact <= kept <= Decimal("1.1") * exact
    assert math.isclose(float(found.composed(DELTA).eps), 0.18, rel_tol=0.3)

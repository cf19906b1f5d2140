"""The paper's guarantees and Table 1 (comparison), against the printed formulas in mpmath."""

from __future__ import annotations

import math

import pytest
from mpmath import log, mp, mpf

import dpkv
from dpkv.errors import ParameterError
from dpkv.paper import comparison_formulas as formulas
from dpkv.paper.comparison import COMPARISONS, GUARANTEES, Facts, WrittenFormula
from dpkv.seeding import Dirac
from dpkv.seeding import approximation_guarantees as guarantees

mp.dps = 40

FACTS = Facts(
    n_clusters=7,
    n_records=90_000,
    n_features=13,
    n_nodes=11,
    smallest_node=450,
    optimum=321.5,
    single_potential=8.75e5,
    node_spread=77.25,
    probe_spread=15.5,
    variance=9.125,
    stretching=0.375,
    varsigma=0.3125,
    oversampling=14.0,
    coreset_eps=0.21,
    eps=0.9,
    radius=2.5,
    separability=1.75,
)
K, M, D, N, LEAST = map(mpf, (7, 90_000, 13, 11, 450))
OPT, ONE, FORGY, PROBED, VAR = map(mpf, ("321.5", "8.75e5", "77.25", "15.5", "9.125"))
ETA, SIG, L, CORE = mpf("0.375"), mpf("0.3125"), mpf(14), mpf("0.21")
EPS, R, LAM = mpf("0.9"), mpf("2.5"), mpf("1.75")
AV = 2 + log(K)

PRINTED_GUARANTEES = {
    "k-means++": 8 * AV * OPT,
    "dk-means++, protected": AV * (10 * OPT + 6 * FORGY),
    "dk-means++, private": AV * (10 * OPT + 4 * FORGY + 2 * VAR),
    "sk-means++, as proved": AV * ((10 + 4 * ETA) * OPT + 4 * PROBED),
    "sk-means++, as printed": AV * ((8 + 4 * ETA) * OPT + 2 * PROBED),
    "ok-means++": AV * (4 + 32 / SIG**2) * OPT,
}
OURS_DP = log(K) * (OPT + M * R**2 / (EPS + log(M)) ** 2)
PRINTED_TABLE = {
    "1": (N**2 * L * log(ONE), N**2 * K),
    "2": (M, M / LEAST),
    "3": (L * log(ONE), K),
    "4": (log(K) * OPT, PRINTED_GUARANTEES["dk-means++, protected"]),
    "I": (N * K * D / CORE**4 + N**2 * K * log(N * K), N**2 * K),
    "II": (K * D / CORE**4 + N * K * log(N * K), K),
    "III": (AV * (1 + CORE) * 8 * OPT, PRINTED_GUARANTEES["dk-means++, protected"]),
    "i": (None, None),
    "ii": (AV * (1 + ETA) * 32 * OPT, PRINTED_GUARANTEES["sk-means++, as printed"]),
    "a": (None, None),
    "b": (log(M) * OPT, PRINTED_GUARANTEES["ok-means++"]),
    "A": (None, None),
    "B": (LAM * K * R / EPS, R / (EPS + log(M))),
    "C": (OPT + M * LAM**2 * K * R**2 / EPS**2, OURS_DP),
    "alpha": (None, None),
    "beta": (OPT + K * M * log(M) * R**2 / EPS**2, OURS_DP),
}


def same(found: float | None, printed: mpf | None) -> bool:
    return found is printed is None or found == pytest.approx(float(printed), rel=1e-13)


def test_guarantees_are_those_of_the_theorems():
    found = {row.algorithm: row.entry.value(FACTS) for row in GUARANTEES}
    assert found.keys() == PRINTED_GUARANTEES.keys()
    assert all(same(found[name], PRINTED_GUARANTEES[name]) for name in found)


def test_the_table_is_the_printed_one():
    assert [row.label for row in COMPARISONS] == list(PRINTED_TABLE)
    for row in COMPARISONS:
        theirs, ours = PRINTED_TABLE[row.label]
        assert same(row.theirs.value(FACTS), theirs), row.label
        assert same(row.ours.value(FACTS), ours), row.label
        assert row.reference[-4:].isdigit()


def test_only_what_the_table_gives_with_an_o_is_an_order_of_magnitude():
    entries = [e for row in COMPARISONS for e in (row.theirs, row.ours)]
    assert all(e.order == e.text.startswith(("O(", "O*(", "Omega(")) for e in entries)
    assert not any(row.entry.order for row in GUARANTEES)


def test_a_formula_says_what_it_misses():
    entry = WrittenFormula("", guarantees.dk_private_guarantee)
    known = Facts(n_clusters=3, optimum=1.0)
    assert entry.missing(known) == ("node_spread", "variance")
    assert entry.value(known) is None
    assert WrittenFormula("none").value(FACTS) is None
    assert WrittenFormula("none").missing(Facts()) == ()


def test_the_streaming_guarantee_as_printed_takes_the_bias_for_too_small():
    """One record at 1, its optimal center at 0, its point at 2: phi_opt = phi_s = 1, bias 4."""
    bias = dpkv.noise_terms([[1.0]], [[0.0]], Dirac([[2.0]])).bias  # type: ignore[arg-type]
    optimum = spread = 1.0
    assert optimum + spread < bias <= 2 * optimum + 2 * spread
    assert guarantees.printed_sk_guarantee(1, 1.0, 1.0, 0.0) == 2 * (6 + 2 * (1 + 1))
    assert guarantees.sk_guarantee(1, 1.0, 1.0, 0.0) == 2 * (6 + 2 * 4)


def test_edges():
    assert guarantees.ok_guarantee(3, 1.0, 0.0) == math.inf
    assert guarantees.ok_guarantee(1, 1.0, 1.0) == pytest.approx(72)
    assert formulas.coreset_points_shared(1, 1, 1, 1e-100) == math.inf
    assert formulas.parallel_points_shared(2.0, 0.5) == 2.0  # one round at least
    huge = Facts(n_clusters=5, n_records=10**6, optimum=1.0, eps=1.0, radius=1e300)
    assert WrittenFormula("", formulas.kvariates_approximation).value(huge) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: guarantees.ok_guarantee(3, 1.0, 1.5), "varsigma must be at most 1. Got 1.5"),
        (
            lambda: guarantees.dk_protected_guarantee(3, -1.0, 1.0),
            "optimum must be a finite number",
        ),
        (
            lambda: guarantees.dk_protected_guarantee(0, 1.0, 1.0),
            "n_clusters must be a whole number",
        ),
        (lambda: guarantees.sk_guarantee(3, 1.0, math.nan, 0.0), "spread must be a finite number"),
        (lambda: formulas.dk_records_a_center(5, 6), "smallest_node must be at most"),
        (
            lambda: formulas.coreset_approximation(3, 1.0, 0.0),
            "coreset_eps must be a finite number",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ParameterError) as refused:
        call()
    assert message in str(refused.value)

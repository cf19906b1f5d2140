"""What must hold of losses, witnesses, worst cases and sampled bounds for every input."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpkv.audits.losses import exact_losses, list_replacements, log_ratio_of_tables
from dpkv.audits.privacy import Effort, worst_case_loss
from dpkv.audits.sampled_lower_bounds import certified_bound, log_ratio_bound
from dpkv.audits.vectorised_runs import Pair, log_ratios, many_runs
from dpkv.audits.witness import check_witness, loss_bounds, parse_witness, witness_of
from dpkv.audits.worst_case import WorstCase, worst_case
from dpkv.domain import Box, Domain, L1Ball
from dpkv.grid import Grid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours
from dpkv.mechanisms.kvariates import Algorithm0

often = settings(deadline=None, max_examples=100)
sometimes = settings(deadline=None, max_examples=40)

REPLACE = Neighbours.REPLACE_ONE

# -- mechanisms, tables, outputs -------------------------------------------------------------------

domains = st.sampled_from(
    [
        Box((0.0,), (1.0,)),
        Box((0.0, -2.0), (1.0, 5.0)),
        Box((0.0, -2.0), (1.0, 5.0), scaled=False),
        Box((0.0,) * 4, (1.0,) * 4),
        L1Ball((0.0,), 1.0),
        L1Ball((0.0, 1.0, 2.0), 3.0),
    ]
)
gammas = st.floats(1e-3, 10.0) | st.just(math.inf)


@st.composite
def mechanisms(draw: st.DrawFn, grid: Grid, m: int, k: int, eps: Decimal) -> Algorithm0:
    kind = draw(st.sampled_from(["kvariates", "laplace", "forgy"]))
    if kind == "kvariates":
        return KVariates.calibrate(eps, n_records=m, n_clusters=k, grid=grid, gamma=draw(gammas))
    plain = Laplace if kind == "laplace" else Forgy
    return plain.calibrate(eps, n_clusters=k, grid=grid, neighbours=REPLACE)


epsilons = st.floats(0.01, 6.0).map(lambda eps: Decimal(f"{eps:.3g}"))


def grid_points(draw: st.DrawFn, grid: Grid, n: int) -> np.ndarray:
    """Draw grid points, of which many are equal or at the ends."""
    level = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.0)
    rows = draw(
        st.lists(
            st.lists(level, min_size=grid.n_features, max_size=grid.n_features),
            min_size=n,
            max_size=n,
        )
    )
    return grid.spread(np.array(rows).reshape(n, grid.n_features))


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a mechanism, two neighbouring tables and an output, inside the domain or beyond."""
    domain: Domain = draw(domains)
    grid = domain.grid(draw(st.sampled_from([3, 8, 16])))
    m, k = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    eps = draw(epsilons)
    output = grid_points(draw, grid, k)
    if draw(st.booleans()):
        beyond = st.integers(-3 * grid.diam1, 3 * grid.diam1)
        moved = draw(st.lists(beyond, min_size=output.size, max_size=output.size))
        output = output + np.array(moved).reshape(output.shape)
    return {
        "domain": domain,
        "mechanism": draw(mechanisms(grid, max(m, k), k, eps)),
        "common": grid_points(draw, grid, m - 1),
        "old": grid_points(draw, grid, 1)[0],
        "new": grid_points(draw, grid, 1)[0],
        "output": output,
    }


def signed_loss(case: dict[str, Any], **changes: Any) -> float:
    case = {**case, **changes}
    return log_ratio_of_tables(
        case["mechanism"],
        case["common"],
        np.ones(len(case["common"]), np.int64),
        case["old"],
        case["new"],
        case["output"],
    )


# -- losses ----------------------------------------------------------------------------------------


@often
@given(cases())
def test_three_ways_to_the_same_loss(case):
    mechanism, output = case["mechanism"], case["output"]
    expected = signed_loss(case)
    table = np.concatenate([case["old"][np.newaxis], case["common"]])
    found = exact_losses(mechanism, table, output, case["new"][np.newaxis])
    assert found.by_record[0] == pytest.approx(abs(expected), rel=1e-7, abs=1e-9)
    points = np.concatenate([table, case["new"][np.newaxis]])
    old, new = np.ones((2, len(points)), np.int64)
    old[-1] = new[0] = 0
    ratio = log_ratios(mechanism, Pair(points, old, new), output[np.newaxis])
    assert ratio[0] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@often
@given(cases())
def test_losses_are_signed_bounded_and_vanish_for_equal_tables(case):
    mechanism = case["mechanism"]
    loss = signed_loss(case)
    assert signed_loss(case, old=case["new"], new=case["old"]) == pytest.approx(-loss, abs=1e-9)
    assert abs(signed_loss(case, new=case["old"])) < 1e-12
    most = mechanism.n_clusters * float(mechanism.log_ratio)
    assert abs(loss) <= most * (1 + 1e-9) + 1e-12


@often
@given(cases())
def test_clamping_to_a_box_leaves_the_loss(case):
    assume(isinstance(case["domain"], Box))
    clamped = case["mechanism"].grid.clip(case["output"])
    assert signed_loss(case, output=clamped) == pytest.approx(signed_loss(case), abs=1e-7)


@often
@given(cases())
def test_theorem_a_covers_every_pair_of_tables_and_every_output(case):
    mechanism = case["mechanism"]
    common = case["common"]
    if mechanism.n_records_needed is not None:
        filling = mechanism.n_records_needed - 1 - len(common)
        common = np.concatenate([common, np.repeat(common[:1], filling, axis=0)])
    loss = abs(signed_loss(case, common=common))
    assert loss <= float(mechanism.cost()) * (1 + 1e-9) + 1e-12


@often
@given(domains, st.integers(1, 300), st.integers(1, 5), st.integers(0, 2**32))
def test_replacements_follow_from_grid_and_output_alone(domain, n_points, k, seed):
    grid = domain.grid()
    output = np.random.default_rng(seed).integers(-(2**18), 2**18, (k, grid.n_features))
    tried = list_replacements(grid, output, n_points)
    assert tried.shape == (n_points, grid.n_features)
    assert (grid.clip(tried) == tried).all()


# -- witnesses -------------------------------------------------------------------------------------


def witness_for(case: dict[str, Any], claimed: str = "1") -> Any:
    """Return the witness of a table whose common records are equal."""
    mechanism = case["mechanism"]
    needed = mechanism.n_records_needed or 1 + len(case["common"])
    found = WorstCase(case["common"][0], needed - 1, case["old"], case["new"], case["output"], 0.0)
    witness = witness_of(found, mechanism, case["domain"], claimed)
    expected = log_ratio_of_tables(
        mechanism,
        found.common[np.newaxis],
        np.array([needed - 1]),
        found.old,
        found.new,
        found.output,
    )
    return witness, expected


@sometimes
@given(cases())
def test_a_witness_bounds_the_loss_narrowly_and_survives_its_file(case):
    assume(case["mechanism"].grid == case["domain"].grid())
    witness, expected = witness_for(case)
    low, high = loss_bounds(witness)
    assert 0 <= high - low < Decimal("1e-40")
    assert float(low) == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert Decimal(witness.loss) <= high + Decimal("1e-15")
    again = parse_witness(witness.to_json(), "w")
    assert again == witness
    checks = {check.name: check.passed for check in check_witness(again)}
    assert checks == {"tables": True, "loss": True, "claim": low <= 1}


# -- worst cases -----------------------------------------------------------------------------------


@sometimes
@given(
    st.integers(1, 300) | st.integers(1, 10**6),
    st.integers(1, 4),
    gammas,
    epsilons,
    domains,
    st.integers(0, 100),
)
def test_no_search_exceeds_theorem_a(m, k, gamma, eps, domain, seed):
    assume(k <= m)
    mechanism = KVariates.calibrate(eps, n_records=m, n_clusters=k, grid=domain.grid(), gamma=gamma)
    found = worst_case(mechanism, m, restarts=3, seed=seed)
    assert found.loss <= float(mechanism.cost()) * (1 + 1e-9)
    if k == 1 or math.isinf(gamma):
        assert found.loss >= float(mechanism.cost()) * (1 - 1e-6)


@sometimes
@given(
    st.sampled_from([Laplace, Forgy]),
    st.integers(1, 3),
    st.floats(1e-12, 50.0).map(lambda eps: Decimal(repr(eps))),
    domains,
)
@example(Laplace, 3, Decimal("1.5"), Box((0.0,), (1.0,)))
def test_a_claim_that_is_reached_exactly_is_not_violated(kind, k, eps, domain):
    """One record at the Laplace mechanism's noise loses all of eps, and not a digit more."""
    mechanism = kind.calibrate(eps, n_clusters=k, grid=domain.grid(), neighbours=REPLACE)
    loss, witness = worst_case_loss(mechanism, 1, domain, eps, Effort(2, 2, 2, 0, 1e-6, 0))
    assert not loss.violates
    assert loss.loss == pytest.approx(float(eps), rel=1e-2)
    assert all(check.passed for check in check_witness(witness))


@sometimes
@given(st.integers(2, 10**5), st.integers(1, 3), st.floats(0.01, 1.0), domains)
def test_half_the_noise_exceeds_what_was_paid(m, k, gamma, domain):
    assume(k <= m)
    sound = KVariates.calibrate(
        Decimal(1), n_records=m, n_clusters=k, grid=domain.grid(), gamma=gamma
    )
    halved = replace(sound, noise_scale=sound.noise_scale / 2)
    one = worst_case(sound, m, restarts=2).loss
    assert worst_case(halved, m, restarts=2).loss > 1.5 * one


# -- runs and their bounds -------------------------------------------------------------------------


@sometimes
@given(cases(), st.integers(1, 40), st.integers(0, 2**32))
def test_runs_have_their_shape_and_losses_within_the_price(case, n_runs, seed):
    mechanism = case["mechanism"]
    points = np.unique(np.concatenate([case["common"], case["old"][np.newaxis]]), axis=0)
    counts = np.ones(len(points), np.int64)
    if mechanism.n_records_needed is not None:
        counts[0] += max(0, mechanism.n_records_needed - len(points))
    outputs = many_runs(mechanism, points, counts, n_runs, np.random.SeedSequence(seed))
    assert outputs.shape == (n_runs, mechanism.n_clusters, points.shape[1])
    assert outputs.dtype == np.int64
    same = log_ratios(mechanism, Pair(points, counts, counts), outputs)
    assert (same == 0.0).all()


counts = st.integers(0, 200)


@often
@given(counts, counts, st.integers(200, 400), st.integers(200, 400), st.floats(1e-9, 0.5))
def test_bounds_are_below_frequencies_and_move_with_them(first, second, n, m, alpha):
    bound = log_ratio_bound((first, second), (n, m), alpha)
    if first and second:
        assert bound < math.log((first / n) / (second / m))
    assert bound <= log_ratio_bound((first + 1, second), (n + 1, m), alpha) + 1e-12
    assert bound >= log_ratio_bound((first, second + 1), (n, m + 1), alpha) - 1e-12
    assert bound >= log_ratio_bound((first, second), (n, m), alpha / 10) - 1e-12


scores = st.lists(st.sampled_from([0.0, 1.0, 2.0]) | st.floats(-5, 5), min_size=4, max_size=80)


@often
@given(scores, scores, st.floats(1e-9, 0.2))
def test_certified_bounds_are_those_of_their_hits(first, second, alpha):
    found = certified_bound(np.array(first), np.array(second), alpha)
    runs = len(first) - len(first) // 2, len(second) - len(second) // 2
    assert all(0 <= hits <= n for hits, n in zip(found.hits, runs, strict=True))
    assert found.lower_bound == max(0.0, log_ratio_bound(found.hits, runs, alpha))
    assert found.runs_a_side == min(runs)

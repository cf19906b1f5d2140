"""Interval arithmetic against mpmath, witnesses there and back, and witnesses that were altered."""

from __future__ import annotations

import copy
import json
import math
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from support.run import in_process

from dpkv.audits.intervals import PRECISION, Interval, LaplaceLevels, Powers, log_probability_bounds
from dpkv.audits.losses import log_ratio_of_tables
from dpkv.audits.witness import (
    Witness,
    check_witness,
    float_below_signed,
    loss_bounds,
    parse_witness,
    rebuild,
    witness_of,
)
from dpkv.audits.worst_case import WorstCase, worst_case
from dpkv.domain import Box, Domain, L1Ball
from dpkv.errors import UsageError
from dpkv.grid import BoxGrid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours, Published
from dpkv.mechanisms.kvariates import Algorithm0

REPLACE = Neighbours.REPLACE_ONE
TOP = 2**16 - 1
SQUARE = Box((0.0, 0.0), (1.0, 1.0))
LINE = Box((0.0,), (1.0,))
BALL = L1Ball((0.0, 0.0), 1.0)
DIGITS = 120
NARROW = mpmath.mpf("1e-40")
Points = Sequence[Sequence[int]]

# -- probabilities by mpmath -----------------------------------------------------------------------


def log_probability(
    points: Points,
    counts: Sequence[int],
    output: Points,
    centers: Points,
    smoothing: int | None,
    scale: float,
) -> mpmath.mpf:
    """Return log P(output) up to the noise's normaliser, in the working precision."""
    b, total = mpmath.mpf(scale), mpmath.mpf(0)
    for t, drawn in enumerate(output):
        weights = list(counts)
        if t and smoothing is not None:
            nearest = [
                min(sum((p - q) ** 2 for p, q in zip(a, c, strict=True)) for c in centers[:t])
                for a in points
            ]
            smoothed = [(near + smoothing) * n for near, n in zip(nearest, counts, strict=True)]
            weights = smoothed if any(smoothed) else weights
        gaps = [sum(abs(p - q) for p, q in zip(a, drawn, strict=True)) for a in points]
        terms = [w * mpmath.exp(-gap / b) for w, gap in zip(weights, gaps, strict=True)]
        total += mpmath.log(mpmath.fsum(terms) / sum(weights))
    return total


def as_mpf(value: Decimal) -> mpmath.mpf:
    return mpmath.mpf(str(value))


def encloses(bounds: tuple[Decimal, Decimal], value: mpmath.mpf) -> None:
    """Check that bounds hold the value and are narrow, relative to it where it is large."""
    low, high = map(as_mpf, bounds)
    assert low <= value <= high
    assert high - low < NARROW * max(1, abs(value))


TABLES: dict[str, tuple[Points, list[int], Points]] = {
    "few records": ([(0,), (3,), (7,)], [1, 1, 1], [(7,), (1,), (12,)]),
    "many records": ([(0,), (TOP,)], [169307, 1], [(0,), (TOP,), (TOP // 2,)]),
    "a count of none": ([(0,), (5,), (TOP,)], [40, 0, 1], [(5,), (TOP,), (5,)]),
    "at a center": ([(4,), (9,)], [3, 2], [(4,), (9,), (4,)]),
    "far outputs": ([(0,), (TOP,)], [3, 1], [(-(2**50),), (2**61,), (-(2**62),)]),
    "plane": ([(0, 0), (TOP, 0), (2, TOP)], [5, 2, 1], [(0, 1), (TOP, TOP), (-9, 2**20)]),
}


@pytest.mark.parametrize("smoothing", [None, 0, 1, 858967246])
@pytest.mark.parametrize("scale", [1.0, 61415.87970623303, 2.7e9, 1e18])
@pytest.mark.parametrize("name", TABLES)
def test_bounds_enclose_the_logarithm_narrowly(name, scale, smoothing):
    points, counts, output = TABLES[name]
    centers = np.clip(np.array(output), 0, TOP).tolist()
    with mpmath.workdps(DIGITS):
        expected = log_probability(points, counts, output, centers, smoothing, scale)
        found = log_probability_bounds(
            points, counts, output, centers, smoothing=smoothing, levels=LaplaceLevels(scale)
        )
        encloses(found, expected)


def test_the_order_of_points_and_splitting_counts_change_nothing():
    points, counts, output = TABLES["plane"]
    centers = np.clip(np.array(output), 0, TOP).tolist()
    split = [*points, points[0]], [2, *counts[1:], counts[0] - 2]
    for table in (split, (points[::-1], counts[::-1])):
        with mpmath.workdps(DIGITS):
            expected = log_probability(points, counts, output, centers, 3, 900.0)
            found = log_probability_bounds(
                *table, output, centers, smoothing=3, levels=LaplaceLevels(900.0)
            )
            encloses(found, expected)


@pytest.mark.parametrize("eps_tilde", [10.0, 60.0, 120.0, 200.0, 1000.0])
def test_bounds_where_the_nearest_record_has_no_weight(eps_tilde):
    """Without smoothing, a record at a center is not picked again: the likeliest record of round 2
    is one that is e^eps~ times less likely."""
    points, counts, output = [(0,), (TOP,)], [2, 1], [(0,), (0,)]
    scale = TOP / eps_tilde
    with mpmath.workdps(6 * DIGITS):
        expected = log_probability(points, counts, output, output, 0, scale)
        found = log_probability_bounds(
            points, counts, output, output, smoothing=0, levels=LaplaceLevels(scale)
        )
        encloses(found, expected)


@pytest.mark.parametrize("scale", [1e-3, 0.01, 0.37])
def test_bounds_at_hardly_any_noise(scale):
    points, counts, output = [(0,), (TOP,)], [2, 1], [(0,), (TOP,)]
    with mpmath.workdps(DIGITS):
        expected = log_probability(points, counts, output, output, 5, scale)
        found = log_probability_bounds(
            points, counts, output, output, smoothing=5, levels=LaplaceLevels(scale)
        )
        encloses(found, expected)


@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 1e6, 1e300])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 100, 65535, 131070])
def test_powers_enclose(scale, exponent):
    """exp(-n / b) times 2^256, of which the bounds are whole."""
    power = Powers(scale).power(exponent)
    with mpmath.workdps(120):
        scaled = mpmath.exp(-exponent / mpmath.mpf(scale)) * mpmath.mpf(2) ** PRECISION
        assert power.low <= scaled <= power.high
        assert power.high - power.low <= mpmath.mpf(2) ** PRECISION * mpmath.mpf("1e-70")


def test_intervals_round_outward():
    third = Interval(1 << PRECISION, 1 << PRECISION).over(3)
    assert Fraction(third.low, 1 << PRECISION) < Fraction(1, 3)
    assert Fraction(third.high, 1 << PRECISION) > Fraction(1, 3)
    assert third.high - third.low == 1
    both = third.times(3) + third
    assert (both.low, both.high) == (4 * third.low, 4 * third.high)
    with mpmath.workdps(100):
        low, high = map(as_mpf, third.log_bounds())
        assert low <= -mpmath.log(3) <= high
        assert high - low < mpmath.mpf("1e-70")
    assert Interval(0, 5).log_bounds()[0] == Decimal("-Infinity")


FLOATS = ["1", "-1", "0", "0.1", "-0.1", "1e-300", "-3.3333333333333333333"]
FLOATS += ["-0.10000000000000000555111512312578270211815834045410156250000000001"]  # below a float


@pytest.mark.parametrize("text", FLOATS)
def test_the_float_below_a_decimal(text):
    value = Decimal(text)
    below = float_below_signed(value)
    assert Fraction(below) <= Fraction(value) < Fraction(math.nextafter(below, math.inf))


# -- there and back --------------------------------------------------------------------------------


def kvariates(m: int = 50, k: int = 2, domain: Domain = SQUARE, bits: int = 16) -> KVariates:
    grid = domain.grid(bits)
    return KVariates.calibrate(Decimal(1), n_records=m, n_clusters=k, grid=grid, gamma=0.1)


def found_witness(mechanism: Algorithm0, m: int, domain: Domain, eps: str = "1") -> Witness:
    return witness_of(worst_case(mechanism, m, restarts=2), mechanism, domain, eps)


def plain(kind: type[Laplace], domain: Domain, k: int = 2) -> Algorithm0:
    return kind.calibrate(Decimal(1), n_clusters=k, grid=domain.grid(), neighbours=REPLACE)


MECHANISMS: dict[str, tuple[Algorithm0, int, Domain]] = {
    "kvariates": (kvariates(), 50, SQUARE),
    "many records": (kvariates(169308, 3), 169308, SQUARE),
    "ball": (kvariates(domain=BALL), 50, BALL),
    "unscaled": (
        kvariates(domain=Box((0.0, 0.0), (1.0, 5.0), scaled=False)),
        50,
        Box((0.0, 0.0), (1.0, 5.0), scaled=False),
    ),
    "laplace": (plain(Laplace, SQUARE), 10, SQUARE),
    "one record": (plain(Laplace, LINE, 3), 1, LINE),
    "forgy": (plain(Forgy, LINE), 4, LINE),
    "published": (Published.calibrate(3.0, n_clusters=2, grid=SQUARE.grid()), 20, SQUARE),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_witness_survives_its_file_and_checks_out(name, tmp_path):
    mechanism, m, domain = MECHANISMS[name]
    found = worst_case(mechanism, m, restarts=2)
    witness = witness_of(found, mechanism, domain, "9")
    path = tmp_path / "witness.json"
    path.write_text(witness.to_json(), encoding="utf-8")
    again = parse_witness(path.read_text(encoding="utf-8"), path)
    assert again == witness
    assert rebuild(again) == mechanism
    assert {check.name: check.passed for check in check_witness(again)} == {
        "tables": True,
        "loss": True,
        "claim": True,
    }
    assert f"neighbours of {m} records" in check_witness(again)[0].detail
    assert witness.loss == pytest.approx(found.loss, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_stated_loss_is_never_above_the_true_one(name):
    mechanism, m, domain = MECHANISMS[name]
    witness = found_witness(mechanism, m, domain)
    low, high = loss_bounds(witness)
    clip = mechanism.grid.clip
    centers = clip(np.array(witness.output)).tolist()
    with mpmath.workdps(DIGITS):
        sides = [
            log_probability(
                [*witness.common, record],
                [*witness.counts, 1],
                witness.output,
                centers,
                mechanism.smoothing,
                mechanism.noise_scale,
            )
            for record in (witness.old, witness.new)
        ]
        assert as_mpf(low) <= sides[0] - sides[1] <= as_mpf(high)
        assert as_mpf(high) - as_mpf(low) < NARROW
        assert mpmath.mpf(witness.log_probability_old) <= sides[0]
        assert mpmath.mpf(witness.log_probability_new) >= sides[1]


@pytest.mark.parametrize("bits", [2, 12, 20])
def test_a_witness_on_another_grid_says_so(bits):
    mechanism = kvariates(bits=bits)
    witness = found_witness(mechanism, 50, SQUARE)
    assert rebuild(witness) == mechanism
    assert all(check.passed for check in check_witness(witness))


@pytest.mark.parametrize(("scale", "loss"), [(0.01, 100.0), (1e12, 1e-12)])
def test_losses_of_tiny_and_of_enormous_noise(scale, loss):
    """At m = 1 the loss of one center is |a - a'| / b."""
    mechanism = Laplace(1, BoxGrid((0.0,), (1.0,), (1,)), REPLACE, scale)
    domain = Box((0.0,), (1.0,))
    ends = np.array([0]), np.array([1])
    found = WorstCase(ends[0], 0, *ends, ends[0][np.newaxis], 0.0)
    witness = witness_of(found, mechanism, domain, "1").model_copy(update={"grid_bits": 16})
    assert float(loss_bounds(witness)[0]) == pytest.approx(loss, rel=1e-12)
    assert {c.name: c.passed for c in check_witness(witness)}["claim"] is (loss < 1)


def test_a_claim_below_the_loss_is_refuted_and_one_above_is_not():
    witness = found_witness(kvariates(), 50, SQUARE)
    exact = loss_bounds(witness)[0]
    for claimed, holds in (
        (exact + Decimal("1e-20"), True),
        (exact - Decimal("1e-20"), False),
        (Decimal(0), False),
        (Decimal(100), True),
    ):
        altered = witness.model_copy(update={"claimed_eps": f"{claimed:f}"})
        checks = {check.name: check for check in check_witness(altered)}
        assert checks["claim"].passed is holds
        assert checks["tables"].passed and checks["loss"].passed


@pytest.mark.parametrize(("k", "eps"), [(1, "1"), (2, "1"), (3, "1.5"), (4, "0.25"), (4, "2")])
def test_a_claim_that_is_reached_exactly_is_not_refuted(k, eps):
    """One record at the Laplace mechanism's noise: its loss is k diam1 / b, which is eps."""
    mechanism = Laplace.calibrate(Decimal(eps), n_clusters=k, grid=LINE.grid(), neighbours=REPLACE)
    assert mechanism.cost() == Decimal(eps)
    witness = found_witness(mechanism, 1, LINE, eps)
    assert all(check.passed for check in check_witness(witness))


def test_half_the_noise_is_refuted_by_its_witness():
    sound = kvariates()
    halved = replace(sound, noise_scale=sound.noise_scale / 2)
    checks = {c.name: c for c in check_witness(found_witness(halved, 50, SQUARE))}
    assert checks["tables"].passed and checks["loss"].passed
    assert not checks["claim"].passed
    assert "claimed 1" in checks["claim"].detail


def test_the_float_loss_is_checked_by_code_that_shares_nothing():
    """The witness's loss, from intervals, against the float formula at the same place."""
    for mechanism, m, domain in MECHANISMS.values():
        witness = found_witness(mechanism, m, domain)
        found = log_ratio_of_tables(
            mechanism,
            np.array(witness.common),
            np.array(witness.counts),
            np.array(witness.old),
            np.array(witness.new),
            np.array(witness.output),
        )
        assert witness.loss == pytest.approx(found, rel=1e-9, abs=1e-12)


# -- altered witnesses -----------------------------------------------------------------------------

FIELDS = json.loads(found_witness(kvariates(), 50, SQUARE).to_json())
SCALE = FIELDS["mechanism"]["noise_scale"]
SIDES = ("old", "new")
Path_ = tuple[str, ...]


def altered(path: Path_, value: Any) -> str:
    fields = copy.deepcopy(FIELDS)
    place = fields
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(fields)


def complaints(text: str) -> set[str]:
    """Return the checks that fail; or {"refused"}, for a witness that makes no sense."""
    try:
        checks = check_witness(parse_witness(text, "witness.json"))
    except UsageError:
        return {"refused"}
    return {check.name for check in checks if not check.passed}


def test_the_witness_that_is_altered_below_checks_out():
    assert complaints(json.dumps(FIELDS)) == set()
    assert FIELDS["old"] == [TOP, TOP] and FIELDS["new"] == [0, 0]
    assert FIELDS["output"] == [[0, 0], [TOP, TOP]]


ALTERED: list[tuple[Path_, Any, str]] = [
    (("claimed_eps",), "0.5", "claim"),
    (("claimed_eps",), "-1", "claim"),
    (("common",), [[1, 0]], "loss"),
    (("common",), [[-1, 0]], "tables"),
    (("counts",), [48], "tables"),
    (("counts",), [50], "tables"),
    (("old",), [TOP - 1, TOP], "loss"),
    (("old",), [TOP + 1, TOP], "tables"),
    (("new",), [500, 0], "loss"),
    (("new",), [0, -1], "tables"),
    (("output",), [[0, 0], [TOP, TOP - 1]], "loss"),
    (("output",), [[TOP, TOP], [0, 0]], "loss"),
    (("log_probability_old",), 0.0, "loss"),
    (("log_probability_old",), FIELDS["log_probability_old"] + 1e-8, "loss"),
    (("log_probability_new",), FIELDS["log_probability_new"] - 1e-8, "loss"),
    (("log_probability_old",), "Infinity", "loss"),
    (("mechanism", "noise_scale"), SCALE * 1.0001, "loss"),
    (("mechanism", "noise_scale"), SCALE / 2, "loss"),
    (("mechanism", "smoothing_steps"), 5, "loss"),
    (("mechanism", "smoothing_steps"), None, "loss"),
    (("mechanism", "n_records"), 51, "tables"),
    (("grid_bits",), 15, "tables"),
]


@pytest.mark.parametrize(("path", "value", "found"), ALTERED)
def test_an_altered_witness_does_not_check_out(path, value, found):
    assert complaints(altered(path, value)) & {found, "refused"}


def test_logarithms_that_are_both_moved_do_not_check_out():
    """Their difference is right, and neither of them is."""
    both = {f"log_probability_{side}": FIELDS[f"log_probability_{side}"] + 5 for side in SIDES}
    assert complaints(json.dumps({**FIELDS, **both})) == {"loss"}


REFUSED: list[tuple[Path_, Any]] = [
    (("schema_version",), 2),
    (("kind",), "audit"),
    (("visibility",), "everyone"),
    (("extra",), 1),
    (("grid_bits",), 99),
    (("grid_bits",), "x"),
    (("domain",), {}),
    (("domain", "kind"), "sphere"),
    (("domain", "upper"), [2.0]),
    (("mechanism",), {}),
    (("mechanism", "name"), "laplace"),
    (("mechanism", "name"), "lloyd"),
    (("mechanism", "proof"), "local"),
    (("mechanism", "neighbours"), "add-remove"),
    (("mechanism", "noise_scale"), 0.0),
    (("mechanism", "noise_scale"), -1.0),
    (("counts",), [49.5]),
    (("old",), ["a", 0]),
    (("log_probability_old",), None),
]


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_a_witness_that_makes_no_sense_is_refused(path, value):
    assert complaints(altered(path, value)) == {"refused"}


MISSHAPEN: list[tuple[Path_, Any]] = [
    (("claimed_eps",), "nan"),
    (("claimed_eps",), "sNaN"),
    (("claimed_eps",), "much"),
    (("claimed_eps",), ""),
    (("common",), []),
    (("common",), [[0]]),
    (("common",), [[0, 0], [0, 0]]),
    (("counts",), []),
    (("counts",), [-1]),
    (("counts",), [49, 0]),
    (("old",), [0]),
    (("old",), [0, 0, 0]),
    (("old",), [2**70, 0]),
    (("new",), []),
    (("output",), []),
    (("output",), [[0], [0]]),
    (("output",), [[0, 0], [2**70, 0]]),
    (("log_probability_old",), "NaN"),
]


@pytest.mark.parametrize(("path", "value"), MISSHAPEN)
def test_a_misshapen_witness_is_refused_or_fails_and_never_crashes(path, value):
    assert complaints(altered(path, value))


@pytest.mark.parametrize("k", [1, 3])
def test_a_witness_with_more_or_fewer_outputs_than_centers(k):
    assert complaints(altered(("mechanism", "k"), k))


def test_a_forged_witness_of_too_many_centers():
    """Each further center adds to the loss: a sound mechanism would seem to be refuted."""
    honest = parse_witness(json.dumps(FIELDS), "witness.json")
    longer = honest.model_copy(update={"output": honest.output + honest.output[-1:] * 5})
    low, _ = loss_bounds(longer)
    forged = longer.model_copy(
        update={"log_probability_old": float(low), "log_probability_new": 0.0}
    )
    assert low > 1, "which the mechanism never loses in two rounds"
    try:
        checks = {check.name: check.passed for check in check_witness(forged)}
    except UsageError:
        return
    assert checks["tables"] is False


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '{"kind": "witness"}', "\x00"])
def test_what_is_no_witness_is_refused(text):
    with pytest.raises(UsageError, match=r"w\.json is not (JSON|a witness .*): take an unaltered"):
        parse_witness(text, "w.json")


# -- dpkv verify -----------------------------------------------------------------------------------

Verify = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def verify(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Verify:
    """Run ``dpkv verify witness.json`` on a text."""
    run = in_process(monkeypatch, capsys, tmp_path, "verify", "witness.json")

    def command(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "witness.json").write_text(text, encoding="utf-8")
        return run(*options)

    return command


def test_a_witness_that_checks_out_has_exit_code_0(verify):
    result = verify(json.dumps(FIELDS))
    assert result.returncode == 0, result.stderr
    assert "neighbours of 50 records" in result.stdout
    assert "By this witness eps is at least 0.84332" in result.stdout
    assert "1 is claimed" in result.stdout


def test_the_checks_as_json(verify):
    result = verify(json.dumps(FIELDS), "--json")
    told = json.loads(result.stdout)
    assert told["passed"] is True
    assert {check["name"] for check in told["checks"]} == {"tables", "loss", "claim"}


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("claimed_eps",), "0.5", "claim: this output shows eps >= 0.843321709, claimed 0.5"),
        (("log_probability_old",), 0.0, "loss: recomputed as 0.84332"),
        (("counts",), [48], "tables: "),
    ],
)
def test_a_witness_that_does_not_check_out_has_exit_code_3(verify, path, value, told):
    result = verify(altered(path, value))
    assert result.returncode == 3
    assert told in result.stderr
    assert "FAIL" in result.stdout
    assert "pass." not in result.stdout


@pytest.mark.parametrize(("path", "value"), [*REFUSED[3:9:2], *MISSHAPEN[1::4]])
def test_a_witness_that_makes_no_sense_has_exit_code_2(verify, path, value):
    result = verify(altered(path, value))
    assert result.returncode in (2, 3), result.stderr
    assert "unexpected" not in result.stderr


def test_a_witness_needs_no_public_key(verify):
    result = verify(json.dumps(FIELDS), "--public-key", "witness.json")
    assert result.returncode == 2
    assert "are for releases: a witness needs no signature" in result.stderr

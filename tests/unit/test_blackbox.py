"""The parts of a black-box audit: claims, tables, what is seen of a run, events, reports."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from dpkv.accounting import Neighbours
from dpkv.audits import assert_private, audit_mechanism
from dpkv.audits.blackbox import Budget, Claim, domain_of
from dpkv.audits.blackbox.bounds import Event, clopper_pearson, curve_of, delta_shown
from dpkv.audits.blackbox.features import lowest_bits
from dpkv.audits.blackbox.junit import junit_xml
from dpkv.audits.blackbox.observations import observe, observe_error, observe_text
from dpkv.audits.blackbox.pairs import Pairs
from dpkv.audits.blackbox.report import render
from dpkv.audits.blackbox.tables import Column, TableDomain
from dpkv.errors import ParameterError, UsageError

ADD = "eps=1,neighbours=add-remove"


def leaky(table: np.ndarray, rng: np.random.Generator) -> int:
    """Count the rows, now and then one more."""
    return len(table) + int(rng.uniform() < 0.25)


@pytest.mark.parametrize(
    "text",
    ["eps=1,neighbours=add-remove", "eps=0.5,delta=0.000001,neighbours=replace-one",
     "mu=0.2,neighbours=add-remove"],
)  # fmt: skip
def test_a_claim_is_read_back(text: str) -> None:
    assert Claim.parse(Claim.parse(text).text) == Claim.parse(text)


@pytest.mark.parametrize(
    "text", ["", "eps=1", "eps=1,mu=1,neighbours=add-remove", "eps=0,neighbours=add-remove",
             "eps=1,neighbours=both", "eps=1,eps=2,neighbours=add-remove",
             "mu=1,delta=0.1,neighbours=add-remove"],
)  # fmt: skip
def test_a_bad_claim_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Claim.parse(text)


def test_the_trade_off_of_eps_and_delta_is_that_of_randomised_response() -> None:
    claim = Claim.parse("eps=1,delta=0.1,neighbours=add-remove")
    # With 0.1 the table is told outright; else a coin of e/(1+e) says which it is.
    told, right = 0.1, math.e / (1 + math.e)
    q = np.asarray([0.0, 0.9 * (1 - right), 0.9, 1.0])
    miss = np.asarray([1 - told, 0.9 * (1 - right), 0.0, 0.0])
    assert claim.trade_off(q) == pytest.approx(miss)
    # Both bounds of one event that lies on the curve say eps = 1.
    p = 1 - miss[1]
    assert claim.shown_by(np.asarray(p), q[1]) == pytest.approx(1.0)


def test_a_gaussian_claim_is_that_of_two_normal_variables() -> None:
    claim = Claim.parse("mu=0.7,neighbours=add-remove")
    cut = np.asarray([-1.0, 0.3, 2.0])
    p, q = stats.norm.sf(cut - 0.7), stats.norm.sf(cut)
    assert claim.shown_by(p, q) == pytest.approx([0.7] * 3)
    assert claim.trade_off(q) == pytest.approx(1 - p)
    eps = np.asarray([0.1, 1.0])
    best = [max(stats.norm.sf(c - 0.7) - math.exp(e) * stats.norm.sf(c)
                for c in np.linspace(-5, 9, 20001)) for e in eps]  # fmt: skip
    assert claim.delta_at(eps) == pytest.approx(best, rel=1e-5)


def test_delta_of_a_claim_is_its_largest_p_minus_q() -> None:
    claim = Claim.parse("eps=1,delta=0.05,neighbours=add-remove")
    q = np.linspace(0, 1, 100001)
    for eps in (0.0, 0.4, 1.0, 1.5):
        best = float((1 - claim.trade_off(q) - math.exp(eps) * q).max())
        assert float(claim.delta_at(np.asarray(eps))) == pytest.approx(best, abs=1e-4)


def test_bounds_of_a_probability_are_clopper_and_pearsons() -> None:
    low, high = clopper_pearson(np.asarray([0, 3, 10]), 10, 0.02)
    exact = [stats.binomtest(hits, 10).proportion_ci(0.98, "exact") for hits in (0, 3, 10)]
    assert low == pytest.approx([one.low for one in exact])
    assert high == pytest.approx([one.high for one in exact])


def test_the_curve_is_the_lower_convex_hull_of_events() -> None:
    def event(p: float, q: float) -> Event:
        return Event("", False, "", (0, 0), (1, 1), (p, 1.0), (0.0, q))

    events = [event(0.5, 0.1), event(0.55, 0.4), event(0.9, 0.5)]
    q, miss = curve_of(events)
    assert q.tolist() == [0.0, 0.1, 0.5, 1.0]
    assert miss == pytest.approx([1.0, 0.5, 0.1, 0.0])
    assert delta_shown(events, np.asarray([0.0, 1.0])) == pytest.approx([0.4, 0.5 - 0.1 * math.e])


def test_everything_that_a_run_shows_is_numbers_and_a_kind() -> None:
    assert observe(np.asarray([[1.5, 2.0]])) == ("numbers of shape (1, 2)", [1.5, 2.0])
    assert observe({"a": 1, "b": None})[1] == [1.0]
    assert observe("TT_T") == ("'4 characters'", [84.0, 84.0, 95.0, 84.0])
    assert observe_text("mean,count\n1.5,-3\n") == ("mean,count\n#,#", [1.5, -3.0])
    assert observe_error(ValueError("got 3 rows"))[1] == [3.0]
    assert observe(float("nan"))[0] != observe(1.0)[0]
    assert observe(True)[0] != observe(False)[0]


def test_the_lowest_bit_of_a_float() -> None:
    assert lowest_bits(np.asarray([1.0, 0.75, 12.0, 0.1])).tolist() == [0, -2, 2, -55]


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("min_rows", [0, 3])
def test_every_pair_is_of_neighbours_within_the_domain(relation: Neighbours, min_rows: int) -> None:
    coded = Column("c", 0, 1, levels=("x", "y"), may_be_missing=True)
    columns = Column("a", -1, 2), Column("b", 0, 5, whole=True), coded
    pairs = Pairs(TableDomain(columns, min_rows), relation, seed=1)
    every = [pair for pair, _ in zip(pairs, range(60), strict=False)]
    every += [pairs.change(pair) for pair in every]
    for pair in every:
        same = np.array_equal(pair.first, pair.second, equal_nan=True)
        assert same or pair.is_of(relation)
        for table in pair.sides:
            assert len(table) >= min_rows
            known = table[~np.isnan(table).any(axis=1)]
            assert (known >= [-1, 0, 0]).all()
            assert (known <= [2, 5, 1]).all()
            assert (known[:, 1:] % 1 == 0).all()
            assert not np.isnan(table[:, :2]).any()
    assert any(np.isnan(table).any() for pair in every for table in pair.sides)


def test_a_schema_is_read_and_written_as_a_table(tmp_path: Path) -> None:
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"], "required": True}},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"fields": fields}), encoding="utf-8")
    domain = domain_of(path)
    assert domain.to_csv(np.asarray([[7.0, 1.0], [np.nan, 0.0]])) == "age,sex\n7,M\n,F\n"


@pytest.mark.parametrize(
    "schema", [{}, {"fields": []}, {"fields": [{"name": "a", "type": "number"}]},
               {"fields": [{"name": "a", "constraints": {"minimum": 3, "maximum": 1}}]},
               {"fields": [{"type": "number"}]}, {"fields": [{"name": "a", "constraints": 3}]}],
)  # fmt: skip
def test_a_bad_schema_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        domain_of(schema)


@pytest.mark.parametrize("text", ["", "10x", "-3", "m", "1e3", "nan"])
def test_a_bad_budget_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        Budget.parse(text)


def test_a_budget_is_runs_or_time() -> None:
    assert Budget.parse("10m").seconds == 600
    assert Budget.parse("5000").runs == 5000


def test_what_never_works_is_refused() -> None:
    def broken(table: np.ndarray) -> float:
        raise TypeError(f"no such thing as {table.dtype}")

    with pytest.raises(UsageError, match="every run"):
        audit_mechanism(broken, ADD, [(0, 1)], budget=300)


def test_an_audit_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    calls = []

    def counted(table: np.ndarray, rng: np.random.Generator) -> int:
        calls.append(len(calls))
        if len(calls) == 700:
            raise KeyboardInterrupt
        return round(float(rng.normal(len(table), 3.0)))

    state = tmp_path / "state.jsonl"
    with pytest.raises(KeyboardInterrupt):
        audit_mechanism(counted, ADD, [(0, 1)], budget=2000, state=state)
    stopped = len(calls)
    first = audit_mechanism(counted, ADD, [(0, 1)], budget=2000, state=state)
    assert first.runs <= 2000
    assert len(calls) < stopped + first.runs  # some of it was in the journal
    before = len(calls)
    again = audit_mechanism(counted, ADD, [(0, 1)], budget=2000, state=state)
    assert len(calls) == before
    assert again.events == first.events
    plain = audit_mechanism(counted, ADD, [(0, 1)], budget=2000)
    assert plain.events == first.events
    with pytest.raises(UsageError, match="another audit"):
        audit_mechanism(counted, "eps=2,neighbours=add-remove", [(0, 1)], budget=2000, state=state)


def test_a_violation_is_written_up_alike_everywhere() -> None:
    found = audit_mechanism(leaky, ADD, [(0, 1)], budget=1200)
    assert not found.holds
    assert found.lower_bound > 1
    assert found.witness is not None
    assert found.witness.to_pair().is_of(Neighbours.ADD_REMOVE)
    files = render(found)
    assert "Violated" in files["report.html"]
    assert "Violated" in files["report.md"]
    assert found.headline in files["report.md"]
    assert json.loads(files["audit.json"])["holds"] is False
    case = ElementTree.fromstring(junit_xml(found)).find(".//failure")
    assert case is not None
    assert case.attrib["message"] == found.headline
    # The pair alone, again: the same verdict.
    alone = audit_mechanism(leaky, ADD, [(0, 1)], budget=600, pair=found.witness.to_pair())
    assert not alone.holds
    assert alone.pairs_tried == 1


def test_hostile_output_stays_text_in_the_report() -> None:
    def hostile(table: np.ndarray) -> str:
        return f"<script>alert({len(table)})</script>\n`x` \x1b[31m"

    found = audit_mechanism(hostile, ADD, [(0, 1)], budget=600)
    files = render(found)
    assert not found.holds
    assert "<script>" not in files["report.html"]
    assert "\x1b" not in "".join(files[name] for name in ("report.html", "report.md"))
    ElementTree.fromstring(junit_xml(found))


def test_assert_private_fails_with_the_pair() -> None:
    with pytest.raises(AssertionError, match=r"add-remove.*First table"):
        assert_private(leaky, ADD, [(0, 1)], budget=1200)
    assert_private(lambda _table: 0, ADD, [(0, 1)], budget=300)

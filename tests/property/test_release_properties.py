"""What must hold for every release: it verifies, costs at most eps, and stays on its grid."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import dpkv
from dpkv.errors import DpkvError, UsageError
from dpkv.mechanisms import MECHANISMS
from dpkv.releases import Plan, ReleaseRecord, verify
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.plan import DEFAULT_BOUNDS_SHARE
from dpkv.releases.verify import failed

untimed = settings(deadline=None, max_examples=60)
KINDS = [
    (name, relation)
    for name, kind in MECHANISMS.items()
    for relation in (one.value for one in kind.relations)
]
coordinates = st.one_of(
    st.floats(-1e3, 1e3, width=32), st.integers(-5, 5).map(float), st.just(2.0**53)
)
epsilons = st.one_of(
    st.decimals(Decimal("1e-9"), Decimal(1_000_000), places=9),
    st.sampled_from(["0.1", "1", "1e-9", "1000000", "0.30000000000000004"]).map(Decimal),
    st.floats(1e-6, 1e3).map(lambda x: Decimal(repr(x))),
)


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    return draw(arrays.arrays(np.float64, shape, elements=coordinates)).astype(kind)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    mechanism, relation = draw(st.sampled_from(KINDS))
    low = draw(st.floats(-1e3, 1e3, width=32))
    bounds = draw(
        st.one_of(
            st.sampled_from(["private", "data"]),
            st.floats(0, 1e3, width=32).map(lambda width: (low, low + width)),
            st.floats(0, 1e3, width=32).map(lambda radius: {"center": low, "radius": radius}),
        )
    )
    return {
        "k": draw(st.integers(1, 4)),
        "eps": draw(epsilons),
        "bounds": bounds,
        "mechanism": mechanism,
        "neighbours": relation,
        "gamma": draw(st.sampled_from([1e-6, 0.1, 3.0, float("inf")])),
        "bounds_share": draw(st.sampled_from([0.001, DEFAULT_BOUNDS_SHARE, 0.9])),
        "scaled": draw(st.booleans()),
        "clamp": draw(st.booleans()),
    }


@untimed
@given(tables(), requests(), st.integers(0, 2**32))
def test_every_release_verifies(table: np.ndarray, asked: dict[str, Any], seed: int) -> None:
    """A simulation, which runs the code of a release; refusals are sentences, never crashes."""
    try:
        done = dpkv.simulate(table, **asked, seed=seed)
    except DpkvError as refusal:
        text = str(refusal)
        assert "\n" not in text and text[-1] in ".:)"
        return
    record = done.record
    assert done.centers.shape == (asked["k"], table.shape[1]) and np.isfinite(done.centers).all()
    assert record.spent is not None and record.spent >= 0.0
    assert record.spent <= math.nextafter(float(asked["eps"]), math.inf)  # a float, rounded up
    again = ReleaseRecord.model_validate_json(record.to_json())
    assert again == record
    assert not failed(verify(again))
    if asked["clamp"] and record.bounds.domain["kind"] == "box":
        assert (done.centers >= record.bounds.domain["lower"]).all()
        assert (done.centers <= record.bounds.domain["upper"]).all()
    twin = dpkv.simulate(table, **asked, seed=seed)
    np.testing.assert_array_equal(twin.centers, done.centers)


@untimed
@given(epsilons, st.floats(1e-9, 0.999))
@example(Decimal("0.1"), 0.1)
@example(Decimal("1e-9"), 1e-9)
def test_the_parts_of_eps_never_add_up_to_more(eps: Decimal, share: float) -> None:
    unit = Fraction(1, 10**9)
    try:
        plan = Plan.of(k=2, eps=eps, bounds="private", bounds_share=share, columns=["a"])
    except UsageError:
        assert Fraction(eps) * Fraction(repr(share)) < unit, "nothing that could be charged"
        return
    bounds, rest = map(Fraction, plan.split.parts)
    assert bounds > 0 and rest > 0
    assert bounds + rest == Fraction(eps)
    assert bounds % unit == 0, "whole units of the ledger: both charges add up to that of eps"
    assert 0 <= Fraction(eps) * Fraction(repr(share)) - bounds < unit


@untimed
@given(epsilons)
@example(Decimal("1E+2"))
@example(Decimal("0.10"))
def test_a_plan_keeps_eps_as_written(eps: Decimal) -> None:
    plan = Plan.of(k=2, eps=eps, bounds="data", columns=["a"])
    assert Fraction(plan.exact_eps) == Fraction(eps)
    assert "e" not in plan.eps.lower() and Plan.model_validate_json(plan.model_dump_json()) == plan
    assert plan.digest == Plan.of(k=2, eps=str(eps), bounds="data", columns=["a"]).digest


# --- records that somebody made up ------------------------------------------------------------

X = np.random.default_rng(0).uniform(-0.9, 0.9, (30, 2))
PAIR = np.array([-0.5, 0.5])[np.arange(300) % 2][:, None] + np.linspace(-0.01, 0.01, 600).reshape(
    300, 2
)
MADE = [
    json.loads(dpkv.simulate(X, k=2, eps=50.0, bounds=bounds, seed=0, **changes).record.to_json())
    for bounds, changes in (
        ((-1, 1), {}),
        ("private", {"mechanism": "gupt", "bounds_share": 0.9}),
        ((-1, 1), {"mechanism": "lloyd", "neighbours": "add-remove"}),
        ({"center": 0, "radius": 2}, {"mechanism": "laplace"}),
    )
] + [
    json.loads(
        dpkv.simulate(PAIR, k=2, eps=15.0, bounds=(-1, 1), calibration="published", seed=0)
        .record.to_json()
    )
]  # fmt: skip
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from([2**31, 2**63, 10**30, -(10**400)]),
        st.floats(allow_nan=False),
        st.text(max_size=4),
        st.sampled_from(["0.5", "1e-9", "Infinity", "NaN", "add-remove", "published", "box"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(below, (*path, key))


PLACES = [list(places(fields)) for fields in MADE]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_whatever_a_record_says_it_is_judged_and_not_stumbled_over(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(MADE) - 1))
    fields = copy.deepcopy(MADE[number])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PLACES[number]))
        place: Any = fields
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = data.draw(json_values)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    try:
        record = parse_record(json.dumps(fields), Path("release.json"))
    except UsageError:
        return
    for check in verify(record):
        assert check.passed in (True, False, None) and check.detail

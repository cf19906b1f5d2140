"""The sampled audit of the synopsis: the honest one passes, each planted fault is caught.

A bound exceeds the truth by chance with probability 1e-9 at most, so that an honest mechanism fails
as rarely.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from support.chance import FALSE_ALARM

from dpkv.audits import privacy
from dpkv.audits.faults import FAULTS, plant_fault
from dpkv.domain import Box
from dpkv.mechanisms import Neighbours, Synopsis

SQUARE = Box((-1.0, -1.0), (1.0, 1.0))
CASE_OF = {
    "synopsis-sensitivity": ("counts", 3_000),
    "synopsis-radius": ("step", 1_000),
    "synopsis-decay": ("tree", 12_000),
}


def bounds_of(
    mechanism: Synopsis, eps: str, part: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> list[bool]:
    """Audit one part with fewer runs than an audit would; return whether it is violated."""
    chosen = [one for one in mechanism.audit_parts(2.0 / float(eps)) if one.name == part]
    assert chosen
    monkeypatch.setattr(Synopsis, "audit_parts", lambda *_: chosen)
    monkeypatch.setattr(privacy, "FEWEST_PART_RUNS", 1)
    effort = privacy.Effort(1, 1, runs, 1, FALSE_ALARM, 3)
    return [bound.violates for bound in privacy.part_bounds(mechanism, Decimal(eps), effort)]


@pytest.mark.parametrize("fault", CASE_OF)
def test_planted_faults_are_caught(fault, monkeypatch):
    mechanism = plant_fault(
        fault, Decimal(1), n_records=2000, n_clusters=3, domain=SQUARE, gamma=0.1
    ).mechanism
    assert isinstance(mechanism, Synopsis)
    assert any(bounds_of(mechanism, "1", *CASE_OF[fault], monkeypatch))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("part", ["counts", "step", "tree", "places"])
def test_the_honest_synopsis_passes(part, neighbours, monkeypatch):
    domain = Box((-1.0,) * 4, (1.0,) * 4) if part == "places" else SQUARE
    mechanism = Synopsis.calibrate(
        Decimal(1), n_clusters=3, grid=domain.grid(), neighbours=neighbours
    )
    assert not any(bounds_of(mechanism, "1", part, 2_000, monkeypatch))


def test_every_fault_of_a_part_of_the_synopsis_is_tried_here():
    """A threshold from the exact count is no part's: replays of whole runs find it."""
    of_the_whole = {"synopsis-exact-count"}
    assert set(CASE_OF) == {name for name in FAULTS if name.startswith("synopsis-")} - of_the_whole


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_part_that_is_audited_costs_what_the_whole_does(neighbours):
    """Else the audit would be of another claim."""
    grid = Box((-1.0,) * 5, (1.0,) * 5).grid()
    mechanism = Synopsis.calibrate(Decimal(1), n_clusters=3, grid=grid, neighbours=neighbours)
    for part in mechanism.audit_parts(1.0):
        named = {"tree": "cell-tree", "step": "residual-sums"}.get(part.name, part.name)
        price = sum(float(s.eps or 0) for s in part.mechanism.steps() if named in s.name)
        assert price == pytest.approx(1.0, rel=1e-6)

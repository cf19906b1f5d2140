"""Known-broken mechanisms are accused and correct ones are not, on small budgets.

An audit accuses a correct mechanism with probability at most 1e-9 here. ``audits/blackbox.py`` runs
all subjects with more runs.
"""

from __future__ import annotations

import pytest
from support.chance import FALSE_ALARM

from dpkv.audits.blackbox import audit_mechanism
from dpkv.audits.blackbox.subjects import SUBJECTS

BY_NAME = {subject.name: subject for subject in SUBJECTS}
BROKEN = {
    "numpy-laplace": 12_000,
    "one-scalar-of-noise": 12_000,
    "half-gaussian": 12_000,
    "talking-count": 12_000,
    "svt-without-noise": 20_000,
}
CORRECT = ("discrete-laplace", "randomised-response", "opendp-gaussian-mu", "svt")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_mechanism_is_accused(name: str) -> None:
    subject = BY_NAME[name]
    assert subject.broken
    found = audit_mechanism(
        subject.mechanism, subject.claim, subject.domain, budget=BROKEN[name], alpha=FALSE_ALARM
    )
    assert not found.holds, found.headline


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_mechanism_is_not(name: str) -> None:
    subject = BY_NAME[name]
    assert not subject.broken
    found = audit_mechanism(
        subject.mechanism, subject.claim, subject.domain, budget=6_000, alpha=FALSE_ALARM
    )
    assert found.holds, found.headline


@pytest.mark.processes
def test_several_processes_see_what_one_does() -> None:
    subject = BY_NAME["talking-count"]
    one, two = (
        audit_mechanism(subject.mechanism, subject.claim, subject.domain, budget=2000, jobs=jobs)
        for jobs in (1, 2)
    )
    assert one.events == two.events

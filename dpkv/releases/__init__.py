"""Releases: the plan, the run, the record, and its verification."""

from dpkv.releases.api import release, simulate
from dpkv.releases.guarantee import CONDITIONAL, NOT_RELEASABLE, Guarantee
from dpkv.releases.plan import Plan
from dpkv.releases.produce import Charging, Records, Release, carry_out, rehearse
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.verify import Check, verify

__all__ = [
    "CONDITIONAL",
    "NOT_RELEASABLE",
    "Charging",
    "Check",
    "Guarantee",
    "Plan",
    "Records",
    "Release",
    "ReleaseRecord",
    "carry_out",
    "rehearse",
    "release",
    "simulate",
    "verify",
]

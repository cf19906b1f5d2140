"""Releases: the plan, the run, the record, and its verification."""

from dpkv.releases.api import release, simulate
from dpkv.releases.charging import Charging
from dpkv.releases.guarantee import Guarantee
from dpkv.releases.inputs import InputTable
from dpkv.releases.plan import Plan
from dpkv.releases.produce import Release, carry_out, rehearse
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.settling import Settled, settle
from dpkv.releases.standing import Standing, cluster_synopsis, read_synopsis
from dpkv.releases.synopsis import PrivateSynopsis
from dpkv.releases.verify import Check, verify
from dpkv.releases.wording import CONDITIONAL, NOT_RELEASABLE

__all__ = [
    "CONDITIONAL",
    "NOT_RELEASABLE",
    "Charging",
    "Check",
    "Guarantee",
    "InputTable",
    "Plan",
    "PrivateSynopsis",
    "Release",
    "ReleaseRecord",
    "Settled",
    "Standing",
    "carry_out",
    "cluster_synopsis",
    "read_synopsis",
    "rehearse",
    "release",
    "settle",
    "simulate",
    "verify",
]

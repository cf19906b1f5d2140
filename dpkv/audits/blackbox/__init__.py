"""Auditing anybody's mechanism, by runs alone.

    from dpkv.audits import audit_mechanism
    audit_mechanism(my_mean, "eps=1,neighbours=add-remove", [(0, 100)])

``claim``         what is to hold: (eps, delta) or mu, and a relation
``tables``        columns and bounds, pairs of neighbouring tables
``pairs``         which pairs are tried, and how they are changed
``runners``       calling a function, or a command with files
``observations``  what is seen of a run
``features``      numbers that tell outputs apart
``scorers``       events that are learned
``bounds``        what held-out runs show
``search``        the rounds
``journal``       stopping and going on
``results``       what was found, as JSON; ``report`` writes it up
"""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpkv.audits.blackbox.claim import Claim
from dpkv.audits.blackbox.journal import Journal
from dpkv.audits.blackbox.results import BlackBoxAudit, audit_of
from dpkv.audits.blackbox.runners import CallableRunner, CommandRunner, Mechanism, Runner
from dpkv.audits.blackbox.search import Budget, Search
from dpkv.audits.blackbox.tables import Column, Pair, TableDomain, domain_of
from dpkv.errors import ParameterError
from dpkv.types import StageProgress
from dpkv.validation import whole_number

__all__ = [
    "DEFAULT_ALPHA",
    "BlackBoxAudit",
    "Budget",
    "CallableRunner",
    "Claim",
    "Column",
    "CommandRunner",
    "Pair",
    "TableDomain",
    "assert_private",
    "audit_mechanism",
    "audit_runner",
    "domain_of",
]

DEFAULT_BUDGET = "100000"
DEFAULT_ALPHA = 1e-6
_MOST_ALPHA = 0.5


def audit_mechanism(
    mechanism: Mechanism,
    claim: Claim | str,
    domain: Any,
    *,
    budget: str | int | Budget = DEFAULT_BUDGET,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    min_rows: int = 0,
    jobs: int = 1,
    state: Path | str | None = None,
    with_time: bool = False,
    pair: Pair | None = None,
    progress: StageProgress = lambda _label, _share: None,
) -> BlackBoxAudit:
    """Search for a violation of a mechanism's claim, by running it.

    Parameters
    ----------
    mechanism : callable
        Takes a table, an array of shape (rows, columns), and returns anything. A parameter named
        ``rng`` or ``seed`` gets the randomness of the run.
    claim : Claim or str
        Such as ``"eps=1,neighbours=add-remove"``.
    domain : TableDomain, list of pairs, Box, schema or path
        Columns and their public bounds.
    budget : str or int
        ``"5m"``, or a number of runs.
    alpha : float
        The probability, at most, of accusing a mechanism that keeps its claim.

    Returns:
    -------
    BlackBoxAudit
        ``holds`` is False where the claim is violated.

    Example:
    -------
    >>> import numpy as np
    >>> from dpkv.audits import audit_mechanism
    >>> def total(table, rng):
    ...     return int(table.sum()) + int(rng.geometric(0.3)) - int(rng.geometric(0.3))
    >>> found = audit_mechanism(total, "eps=0.1,neighbours=add-remove", [(0, 1)], budget=4000)
    >>> found.holds
    False
    """
    tables = domain_of(domain, min_rows=whole_number("min_rows", min_rows, at_least=0))
    runner = CallableRunner(mechanism, seed, jobs)
    again = f"audit_mechanism({runner.how}, {Claim.parse(claim).text!r}, ..., seed={seed})"
    return audit_runner(
        runner,
        claim,
        tables,
        budget=budget,
        alpha=alpha,
        seed=seed,
        state=None if state is None else Path(state),
        with_time=with_time,
        pair=pair,
        progress=progress,
        again=again,
    )


def audit_runner(
    runner: Runner,
    claim: Claim | str,
    domain: TableDomain,
    *,
    budget: str | int | Budget,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    state: Path | None = None,
    with_time: bool = False,
    pair: Pair | None = None,
    progress: StageProgress = lambda _label, _share: None,
    again: str = "",
) -> BlackBoxAudit:
    """Search for a violation by whatever runs the mechanism."""
    began = time.monotonic()
    claim, limits = Claim.parse(claim), Budget.parse(budget)
    if not 0 < alpha <= _MOST_ALPHA:
        raise ParameterError("alpha", f"above 0 and at most {_MOST_ALPHA}", alpha)
    subject = {
        "mechanism": runner.how,
        "claim": claim.text,
        "domain": repr(domain),
        "seed": seed,
        "alpha": str(Decimal(str(alpha))),
        "runs": limits.runs,
        "with_time": with_time,
        "pair": None if pair is None else pair.key,
    }
    search = Search(
        runner=runner,
        domain=domain,
        claim=claim,
        budget=limits,
        alpha=alpha,
        seed=whole_number("seed", seed, at_least=0),
        journal=Journal(state, subject),
        with_time=with_time,
        given=pair,
        progress=progress,
    )
    search.run()
    return audit_of(search, seconds=time.monotonic() - began, again=again)


def assert_private(mechanism: Mechanism, claim: Claim | str, domain: Any, **options: Any) -> None:
    """Fail a test where a mechanism violates its claim; the options are ``audit_mechanism``'s.

    With ``alpha`` of one in a million, that is how often a test fails for no reason. A test that
    passes proves nothing.
    """
    __tracebackhide__ = True
    found = audit_mechanism(mechanism, claim, domain, **options)
    if not found.holds:
        best, pair = found.best, found.witness
        assert best is not None
        assert pair is not None
        raise AssertionError(
            f"{found.headline}. Event: {best.words}; in {best.hits[0]} of {best.runs[0]} runs on "
            f"the {best.likelier_under} table and {best.hits[1]} of {best.runs[1]} on the other. "
            f"First table: {pair.first}. Second table: {pair.second}."
        )

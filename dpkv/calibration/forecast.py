"""What ``dpkv release`` would do by default: the mechanism, and how far off centres would be.

All of it follows from public facts, so that a choice made by it is covered by the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpkv.accounting import ROW, Unit
from dpkv.calibration.record import Forecast
from dpkv.domain import Domain
from dpkv.errors import UsageError
from dpkv.mechanisms import Mechanism, Terms, choose, for_terms
from dpkv.validation import exact_eps

_TRIED = (2, 3, 4, 6, 8)
_HALF = 0.505  # of the deviation, with room for rounding


def forecast(
    domain: Domain, n_records: int, eps: float, k: int, gamma: float, unit: Unit = ROW
) -> Forecast | None:
    """Return what is predicted of a release of k centers, replace-one, of so many units.

    None where eps is beyond what a release can have.
    """

    def terms(times: int) -> Terms:
        wanted = Decimal(repr(float(eps))) * times
        return Terms.of(
            wanted,
            n_records=n_records,
            n_clusters=k,
            grid=domain.grid(),
            gamma=gamma,
            unit=unit,
        )

    try:
        exact_eps("eps", eps)
        taken = choose(terms(1)).mechanism
    except UsageError:
        return None
    return Forecast(
        mechanism=taken.name,
        deviations=taken.predicted_deviations(n_records),
        hopeless=taken.is_hopeless(n_records),
        eps_for_half=_eps_for_half(taken, terms, n_records, eps),
    )


def _eps_for_half(
    taken: Mechanism, terms: Callable[[int], Terms], n_records: int, eps: float
) -> float | None:
    """Return the first of a few multiples of eps at which the mechanism is half as far off."""

    def error(mechanism: Mechanism) -> float:
        return mechanism.predicted_error(n_records)

    wanted = error(taken) * _HALF**2
    for times in _TRIED:
        if error(for_terms(taken.name, terms(times))) <= wanted:
            return times * eps
    return None

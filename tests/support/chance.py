"""Exact tests of observed frequencies, with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-9
"""Chance that one statistical test fails on correct code. The suite has well under 1000 of them, so
a whole run fails by chance with probability below 1e-6."""


def implausible(
    outcomes: Iterable[Hashable],
    probabilities: Mapping[Hashable, float],
    false_alarm: float = FALSE_ALARM,
) -> str | None:
    """Return why the outcomes cannot have these probabilities, or None when they can.

    An exact two-sided binomial test for every outcome, with the false-alarm rate divided among
    them (Bonferroni): no asymptotics, valid for any sample size.
    """
    listed = list(outcomes)
    total = sum(probabilities.values())
    assert abs(total - 1.0) < 1e-9, f"the expected probabilities add up to {total}"
    counts = dict.fromkeys(probabilities, 0)
    for outcome in listed:
        if outcome not in counts:
            return f"{outcome!r} came although it has probability 0"
        counts[outcome] += 1
    level = false_alarm / len(probabilities)
    for outcome, probability in probabilities.items():
        p_value = _two_sided(counts[outcome], len(listed), min(1.0, probability))
        if p_value < level:
            return (
                f"{outcome!r} came {counts[outcome]} times in {len(listed)}, expected "
                f"{probability * len(listed):.1f} (p = {p_value:.1e})"
            )
    return None


def _two_sided(count: int, n: int, probability: float) -> float:
    below = stats.binom.cdf(count, n, probability)
    above = stats.binom.sf(count - 1, n, probability)
    return float(min(1.0, 2.0 * min(below, above)))


def fits_distribution(
    sample: np.ndarray, distribution: stats.rv_continuous, false_alarm: float = FALSE_ALARM
) -> bool:
    """Tell whether a continuous sample fits, by the DKW inequality (exact constant, any n)."""
    values = np.sort(sample)
    n = len(values)
    expected = distribution.cdf(values)
    ranks = np.arange(n)
    gap = max((ranks + 1) / n - expected).item(), max(expected - ranks / n).item()
    return max(gap) <= float(np.sqrt(np.log(2.0 / false_alarm) / (2.0 * n)))

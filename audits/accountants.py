"""Which accountant composes a ledger's prices: dpkv's own beside two libraries and the exact value.

    python audits/accountants.py            print the table
    python audits/accountants.py --write    and keep it in accountants.json

Each composition is of pure steps. The exact value is a sum of binomials at 60 digits; ``off`` is
how far a figure is from it, relative to it: one below 0 promises more privacy than there is.
Google's dp-accounting composes privacy-loss distributions by Fourier transforms. OpenDP composes in
zCDP (pure steps turned into rho) and has no loss distributions. Seconds are of processor time, one
composition each, the import of the library apart.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

import dpkv
from dpkv.accounting.loss_distribution import eps_of_pure_steps
from dpkv.accounting.zcdp import eps_of_rho

Group = tuple[str, int]
COMPOSITIONS: tuple[tuple[tuple[Group, ...], float], ...] = (
    ((("0.1", 50),), 1e-6),
    ((("0.1", 500),), 1e-6),
    ((("0.01", 1000),), 1e-6),
    ((("0.01", 400),), 1e-9),
    ((("1", 20),), 1e-6),
    ((("0.1", 20), ("0.25", 12)), 1e-6),
    ((("0.0123457", 17), ("0.4567891", 9)), 1e-5),
)
_DIGITS, _HALVINGS = 60, 70
_IMPORTS = {
    "dpkv": "dpkv.accounting.loss_distribution",
    "dp-accounting": "dp_accounting.pld.privacy_loss_distribution",
    "opendp": "opendp.prelude",
}


def exact(groups: tuple[Group, ...], delta: float) -> Any:
    """Return the least eps of a composition of randomised responses, by sums of binomials."""
    outcomes = []
    for heads in itertools.product(*(range(count + 1) for _, count in groups)):
        loss, chance = mpmath.mpf(0), mpmath.mpf(1)
        for (eps, count), number in zip(groups, heads, strict=True):
            price = mpmath.mpf(eps)
            odds = mpmath.exp(price)
            ways = mpmath.binomial(count, number)
            chance *= ways * odds**number / (1 + odds) ** count
            loss += (2 * number - count) * price
        outcomes.append((loss, chance))
    low, high = mpmath.mpf(0), max(loss for loss, _ in outcomes)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = sum(p * (1 - mpmath.exp(middle - x)) for x, p in outcomes if x > middle)
        low, high = (low, middle) if beyond <= mpmath.mpf(delta) else (middle, high)
    return high


def by_dpkv(groups: tuple[Group, ...], delta: float) -> float:
    """Compose as a ledger does."""
    found = eps_of_pure_steps([(Fraction(eps), count) for eps, count in groups], delta)
    assert found is not None
    return float(found)


def by_dp_accounting(groups: tuple[Group, ...], delta: float) -> float:
    """Compose as Google's library does, with its defaults, which are to err upwards."""
    from dp_accounting.pld import common, privacy_loss_distribution  # noqa: PLC0415

    total = None
    for eps, count in groups:
        promise = common.DifferentialPrivacyParameters(float(eps), 0.0)
        part = privacy_loss_distribution.from_privacy_parameters(promise).self_compose(count)
        total = part if total is None else total.compose(part)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def by_opendp(groups: tuple[Group, ...], delta: float) -> float:
    """Compose as OpenDP does, in zCDP."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    parts = []
    for eps, count in groups:
        noise = dp.m.make_laplace(*space, scale=1.0 / float(eps))
        parts += [dp.c.make_pureDP_to_zCDP(noise)] * count
    together = dp.c.make_zCDP_to_approxDP(dp.c.make_composition(parts))
    return float(together.map(1).epsilon(delta))


def in_zcdp(groups: tuple[Group, ...], delta: float) -> float:
    """Compose in zCDP, as a ledger's filter does."""
    rho = sum((Fraction(eps) ** 2 / 2 * count for eps, count in groups), Fraction(0))
    return float(eps_of_rho(rho, delta))


WAYS: dict[str, Callable[[tuple[Group, ...], float], float]] = {
    "dpkv": by_dpkv,
    "dp-accounting": by_dp_accounting,
    "dpkv, zCDP": in_zcdp,
    "opendp, zCDP": by_opendp,
}


def measure(groups: tuple[Group, ...], delta: float) -> dict[str, Any]:
    """Return what every accountant finds for a composition, how far off, and how fast."""
    with mpmath.workdps(_DIGITS):
        truth = exact(groups, delta)
        found: dict[str, Any] = {
            "steps": [list(group) for group in groups],
            "delta": delta,
            "plain_sum": float(sum(Fraction(eps) * count for eps, count in groups)),
            "exact": mpmath.nstr(truth, 15),
        }
        for name, way in WAYS.items():
            started = time.process_time()
            eps = way(groups, delta)
            seconds = time.process_time() - started
            off = float((mpmath.mpf(eps) - truth) / truth)
            found[name] = {"eps": eps, "off": float(f"{off:.2e}"), "seconds": round(seconds, 4)}
    return found


def import_seconds(module: str) -> float:
    """Return the processor time in which a fresh interpreter imports a module."""
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return round(float(done.stdout), 2)


def main() -> int:
    """Print the table, and keep it where that is wanted; exit code 3 where dpkv is below."""
    parser = argparse.ArgumentParser(description="Compare accountants.")
    parser.add_argument("--write", action="store_true", help="keep it in accountants.json")
    asked = parser.parse_args()
    imports = {name: import_seconds(module) for name, module in _IMPORTS.items()}
    print("import: " + ", ".join(f"{name} {seconds} s" for name, seconds in imports.items()))
    for way in WAYS.values():
        way((("1", 2),), 1e-3)  # so that imports are not in the times
    rows = []
    for groups, delta in COMPOSITIONS:
        row = measure(groups, delta)
        rows.append(row)
        steps = " + ".join(f"{count} x {eps}" for eps, count in groups)
        print(f"{steps} at {delta}: sum {row['plain_sum']:g}, exact {row['exact']}", flush=True)
        for name in WAYS:
            eps, off, seconds = row[name].values()
            print(f"  {name}: {eps:.10f}, off by {off:.1e}, {1e3 * seconds:.1f} ms", flush=True)
    if asked.write:
        result = {
            "schema_version": 1,
            "kind": "accountants",
            "dpkv_version": dpkv.__version__,
            "python": platform.python_version(),
            "versions": {n: importlib.metadata.version(n) for n in ("dp-accounting", "opendp")},
            "import_seconds": imports,
            "compositions": rows,
        }
        path = Path(__file__).with_suffix(".json")
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 3 if any(row["dpkv"]["off"] < 0 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

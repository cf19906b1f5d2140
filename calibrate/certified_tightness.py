"""How tight are the certified spread and monotonicity?

    python calibrate/certified_tightness.py           print what was found
    python calibrate/certified_tightness.py --write   and keep it in certified_tightness.json

Hundreds of small instances for which the exact figures can be had, from four families. Certified
figures must never be on the wrong side; the question is by how much they are too careful.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpkv.calibration import calibrate
from dpkv.domain import data_domain

INSTANCES = 100  # of each family
SEED = 20160619


def _uniform(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    return rng.uniform(size=(m, d))


def _clustered(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    places = rng.uniform(size=(3, d))
    return places[rng.integers(3, size=m)] + 0.05 * rng.standard_normal((m, d))


def _outlier(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    points = rng.standard_normal((m, d))
    points[0] *= 10.0
    return points


def _grid(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    return rng.integers(4, size=(m, d)).astype(float)  # duplicates and ties


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "uniform": _uniform,
    "clustered": _clustered,
    "one outlier": _outlier,
    "grid with duplicates": _grid,
}


def study(family: str, rng: np.random.Generator) -> dict[str, float]:
    """Return medians and worst cases of certified over exact for one family."""
    spreads, falls = [], []
    for _ in range(INSTANCES):
        m, d, k = int(rng.integers(8, 15)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
        points = FAMILIES[family](rng, m, d)
        domain = data_domain(points, scaled=False)
        seed = int(rng.integers(2**31))
        both = {
            method: calibrate(
                points, eps=1.0, k=k, domain=domain, method=method, n_est=10, rng=seed
            ).rows[0]
            for method in ("exact", "certified")
        }
        exact, certified = both["exact"], both["certified"]
        if exact.spread is None or exact.monotonicity is None or certified.spread is None:
            continue  # nothing need remain: the spread is infinite
        spreads.append(certified.spread / exact.spread)
        if certified.monotonicity is not None:
            falls.append((1.0 + certified.monotonicity) / (1.0 + exact.monotonicity))
    return {
        "instances": len(spreads),
        "spread_median": float(np.median(spreads)),
        "spread_largest": float(np.max(spreads)),
        "spread_wrong_side": int(np.sum(np.array(spreads) < 1.0 - 1e-9)),
        "monotonicity_instances": len(falls),
        "monotonicity_median": float(np.median(falls)),
        "monotonicity_wrong_side": int(np.sum(np.array(falls) < 1.0 - 1e-9)),
    }


def main() -> int:
    """Print the study and return 1 when a certified figure is on the wrong side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    write = parser.parse_args().write
    rng = np.random.default_rng(SEED)
    results = {}
    print("certified over exact     instances  spread: median  largest   1 + monotonicity: median")
    for family in FAMILIES:
        found = results[family] = study(family, rng)
        print(
            f"{family:22s}   {found['instances']:9d}  {found['spread_median']:14.4f}  "
            f"{found['spread_largest']:7.3f}   {found['monotonicity_median']:24.2f}",
            flush=True,
        )
    wrong = sum(f["spread_wrong_side"] + f["monotonicity_wrong_side"] for f in results.values())
    print(f"on the wrong side: {wrong}")
    if write:
        record = {"command": "python calibrate/certified_tightness.py --write", "found": results}
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

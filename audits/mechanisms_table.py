"""Every mechanism on the bundled table, beside diffprivlib, sample and aggregate, and no privacy.

    python audits/mechanisms_table.py             print the figures
    python audits/mechanisms_table.py --write     and keep them in audits/mechanisms_table.json

Potentials at eps = 1, k = 5, replace-one, over the best that is found without privacy: means of 30
runs, and 95 % intervals (Student's t on the logarithm of a mean). It is the comparison of
``dpkv audit`` on its terms, with the paper's mechanism in all its forms.
"""

from __future__ import annotations

import argparse
import json
from decimal import Decimal
from pathlib import Path

import numpy as np

import dpkv
from dpkv.audits.rivals import CONTENDERS, PUBLISHED, Contender, Contest, RivalRun
from dpkv.audits.utility import compare
from dpkv.domain import Box
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.paper.datasets.clinic import EDGE, clinic_patients
from dpkv.records import run_on_points
from dpkv.types import Float64s

OUT = Path(__file__).with_suffix(".json")
K, EPS, RUNS = 5, "1", 30
WINDOWS, WINDOWS_ALONE = "kvariates, windows and Lloyd steps", "kvariates, windows alone"


def with_windows(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    """Run k-variates++ with windows, and Lloyd steps where the name says so."""
    mechanism = calibrate_mechanism(
        "kvariates",
        Decimal(EPS),
        n_records=len(problem.points),
        n_clusters=run.k,
        grid=problem.terms.grid,
        density="window",
        lloyd_steps=0 if run.rival == WINDOWS_ALONE else None,
    )
    drawn = run_on_points(mechanism, problem.points, SeededEntropy(seed)).centers
    return problem.terms.to_working(problem.terms.grid.clip(drawn))


def main() -> None:
    """Measure, print, and keep what was found where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    contenders = (
        *(one for one in CONTENDERS if one.name != PUBLISHED),  # undefined on this table
        Contender(WINDOWS_ALONE, WINDOWS_ALONE, with_windows),
        Contender(WINDOWS, WINDOWS, with_windows),
    )
    rows = compare(
        clinic_patients(),
        Box((-EDGE, -EDGE), (EDGE, EDGE)),
        ks=[K],
        epsilons=[EPS],
        runs=RUNS,
        contenders=contenders,
        workers=1,  # others would not find the functions of a script
    )
    found = {}
    for row in rows:
        assert row.over_optimum is not None and row.over_optimum_interval is not None, row.failure
        low, high = row.over_optimum_interval
        found[row.name] = {"mean": row.over_optimum, "low": low, "high": high}
        print(f"{row.name:36} {row.over_optimum:9.4f}  {low:9.4f} to {high:9.4f}")
    if asked.write:
        kept = {"dpkv": dpkv.__version__, "k": K, "eps": EPS, "runs": RUNS, "potentials": found}
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""k-variates++ with windows and Lloyd steps against the paper's rivals, as the studies have them.

    python audits/windows_contest.py table            the lines of the table study
    python audits/windows_contest.py heat             the cells of the heat maps, in full
    python audits/windows_contest.py table --write    and keep them in audits/windows_contest.json,
                                                      cell by cell: the next call goes on from there

The rivals are Forgy-DP, GUPT, and the sample and aggregate of Nissim, Raskhodnikova and Smith.
Ratios of mean potentials at eps = 1, replace-one, bounds known, all of eps on the noise, centres
clamped: above 1 k-variates++ is ahead. The studies themselves measure the same with more runs, and
much else besides, for which they take hours. Tables of the paper are looked for in DPKV_DATA, or
beside the checkout, and left out where they are absent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from dpkv.domain import Box
from dpkv.mechanisms import calibrate_mechanism
from dpkv.paper.datasets.families import ball
from dpkv.paper.studies import published_table
from dpkv.paper.studies.mechanism_contest import (
    AGGREGATE,
    CLAMPED,
    FORGY,
    GUPT,
    Arena,
    contest,
    contestants,
)
from dpkv.paper.studies.runner import rng_of

OUT = Path(__file__).with_suffix(".json")
SIZES, DIMENSIONS, KS = (10_000, 30_000, 100_000, 300_000, 1_000_000), (2, 15), (2, 3, 4, 5, 6, 8)
SEED_OF_BALLS, SEED = 20160619, 5
WINDOWS = "windows"
RIVALS = (FORGY, GUPT, AGGREGATE)
MANY = 300_000  # records from which on fewer runs are made
Cell = tuple[str, Arena, int, int]


def cells_of_table() -> Iterator[Cell]:
    """Yield the lines of the table: name, records, k, runs."""
    for table in ("clinic_patients", "lifesci", "house_rgb_unique", "europediff"):
        prepared = published_table.arena_of(table)
        name = published_table.PAPERS_NAMES.get(table)
        ks = (2, 3, 4, 5) if name is None else tuple(published_table.PRINTED_RATIOS[name])
        for k in ks if prepared is not None else ():
            assert prepared is not None
            yield f"{table} k={k}", prepared[0], k, 20


def cells_of_heat_maps() -> Iterator[Cell]:
    """Yield the cells of the heat maps."""
    for m in SIZES:
        for d in DIMENSIONS:
            points = ball(m, d, rng_of(SEED_OF_BALLS, "ball", d, m))
            arena = Arena.of(points, Box((-1.0,) * d, (1.0,) * d, scaled=False))
            for k in KS:
                yield f"d={d} m={m} k={k}", arena, k, 4 if m < MANY else 2


def ratios(cell: Cell) -> dict[str, float]:
    """Return the potentials of the rivals over that of k-variates++ with windows."""
    name, arena, k, runs = cell
    able = contestants(arena, 1.0, k, 0.1, {})
    windows = calibrate_mechanism(
        "kvariates",
        Decimal(1),
        n_records=len(arena.points),
        n_clusters=k,
        grid=arena.grid,
        density="window",
    )
    ran = {WINDOWS: windows, **{rival: able[rival] for rival in RIVALS}}
    found = contest(arena, ran, runs, rng_of(SEED, name))
    own = found[WINDOWS][CLAMPED]
    return {rival: round(found[rival][CLAMPED] / own, 2) for rival in RIVALS}


def main() -> None:
    """Measure, print, and keep what was found where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("table", "heat"))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    kept = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() and asked.write else {}
    found = {name: one for name, one in kept.get(asked.what, {}).items() if set(one) == set(RIVALS)}
    for cell in cells_of_table() if asked.what == "table" else cells_of_heat_maps():
        if cell[0] not in found:
            found[cell[0]] = ratios(cell)
            print(f"{cell[0]:30}", found[cell[0]], flush=True)
        if asked.write:
            text = json.dumps({**kept, asked.what: kept.get(asked.what, {}) | found}, indent=1)
            OUT.write_text(text + "\n", encoding="utf-8")
    for rival in RIVALS:
        behind = [name for name, one in found.items() if one[rival] <= 1.0]
        print(f"ahead of {rival} in {len(found) - len(behind)} of {len(found)}; not in: {behind}")


if __name__ == "__main__":
    main()

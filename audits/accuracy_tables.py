"""The tables of accuracy in README and documentation, from what the audits have kept.

    python audits/accuracy_tables.py            print them
    python audits/accuracy_tables.py --renew    put them into the pages

Figures are those of ``mechanisms_table.json`` and ``synopsis_accuracy.json``: a mean, and the 95 %
interval of it. Printed figures of others have no interval.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README, PAGE = Path("README.md"), Path("docs/explanation/mechanisms.md")
TABLES = {
    "mixture m=100k d=2 k=8": "mixture, 100k x 2, k=8",
    "mixture m=20k d=10 k=5": "mixture, 20k x 10, k=5",
    "unit ball m=100k d=2 k=4": "ball, 100k x 2, k=4",
    "unit ball m=100k d=15 k=4": "ball, 100k x 15, k=4",
}
RELEASES = {
    "synopsis, add/remove": "dpkv synopsis",
    "diffprivlib": "diffprivlib KMeans",
    "EUGkM and a step": "EUGkM and a Lloyd step",
    "DPLloyd, public start": "DPLloyd",
    "Google LSH tree, delta 1e-6 (printed, other draws)": "Google LSH trees, (eps, 1e-6)",
    "FastLloyd, delta (printed, other draws)": "FastLloyd, (eps, delta)",
}
EPS, EPS_OF_README = ("0.1", "0.5", "1", "2"), ("0.1", "1")
MECHANISMS = {
    "`synopsis`": "synopsis",
    "`lloyd`": "lloyd",
    "`gupt`": "gupt",
    "`kvariates`": "kvariates",
    "`kvariates --density window`": "kvariates, windows and Lloyd steps",
    "`kvariates --density window --lloyd-steps 0`": "kvariates, windows alone",
    "`laplace`": "laplace",
    "`forgy`": "forgy",
    "sample and aggregate (simulated)": "sample-aggregate",
    "diffprivlib's KMeans": "diffprivlib",
    "k-means++, no privacy": "kmeans++",
    "k-means++ and Lloyd's iterations, no privacy": "kmeans++-lloyd",
}
"""First cells of lines whose last cell is a potential of ``mechanisms_table.json``."""
DIGITS = ((1.1, 4), (10.0, 2), (math.inf, 1))
"""Decimals of a mean below so much: near one, what comes after it is what counts."""
Table = tuple[str, ...]


def cell_of(row: Mapping[str, float]) -> str:
    """Return a mean, and its interval where there is one."""
    mean = row["mean"]
    if "low" not in row:
        return f"{mean:.2f}"
    digits = next(digits for below, digits in DIGITS if mean < below)
    return f"{mean:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})"


def line_of(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def read(name: str) -> dict[str, Any]:
    """Return what an audit has kept."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def tables_of_accuracy() -> dict[Path, list[Table]]:
    """Return the tables that stand in the pages as they are here."""
    rows = {(r["table"], r["eps"], r["way"]): r for r in read("synopsis_accuracy")["rows"]}
    of_readme = [("release", "eps", *TABLES.values()), ("---",) * (2 + len(TABLES))]
    of_readme += [
        (title, eps, *(cell_of(rows[table, eps, way]) for table in TABLES))
        for way, title in RELEASES.items()
        for eps in EPS_OF_README
    ]
    of_page = [
        [
            (title, *(f"eps = {eps}" for eps in EPS)),
            ("---",) * (1 + len(EPS)),
            *(
                (release, *(cell_of(rows[table, eps, way]) for eps in EPS))
                for way, release in RELEASES.items()
            ),
        ]
        for table, title in TABLES.items()
    ]
    return {
        README: [tuple(map(line_of, of_readme))],
        PAGE: [tuple(map(line_of, table)) for table in of_page],
    }


def cells_of_mechanisms() -> dict[str, str]:
    """Return the last cell of every line that begins with one of these."""
    found = read("mechanisms_table")["potentials"]
    return {first: cell_of(found[name]) for first, name in MECHANISMS.items()}


def renewed(page: Path, text: str) -> str:
    """Return a page with the tables that belong there."""
    lines = text.split("\n")
    for table in tables_of_accuracy().get(page, []):
        start = next(i for i, line in enumerate(lines) if line == table[0])
        end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
        lines[start:end] = table
    if page == PAGE:
        for first, last in cells_of_mechanisms().items():
            (at,) = (i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
            before = lines[at].rstrip("| ").rpartition(" | ")[0]
            lines[at] = f"{before} | {last} |"
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or put them into the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--renew", action="store_true")
    asked = parser.parse_args()
    for page in (README, PAGE):
        path = HERE.parent / page
        text = path.read_text(encoding="utf-8")
        if asked.renew:
            path.write_text(renewed(page, text), encoding="utf-8")
        else:
            for table in tables_of_accuracy()[page]:
                print(*table, "", sep="\n")
    if not asked.renew:
        for first, last in cells_of_mechanisms().items():
            print(line_of((first, last)))


if __name__ == "__main__":
    main()

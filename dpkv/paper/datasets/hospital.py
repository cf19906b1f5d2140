"""A synthetic hospital: visits of imagined patients, with what makes real tables hard.

No real person is in it. Patients come up to 13 times; a quarter of the visits miss a cell or more;
sex and region are text; there is a date. Every patient is of one of four groups, which differ in
age, blood pressure, body mass, sex and region.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

NAME = "hospital_visits"
WHAT = "visits of imagined patients: blanks, text, dates, and the schema for them"
SEED = 20161119
N_VISITS = 50_000
MOST_VISITS = 13
INCOMPLETE = 0.25  # share of visits with a blank
SEXES, REGIONS = ("F", "M"), ("north", "east", "south", "west")
COLUMNS = ("patient_id", "visit_date", "age", "sex", "region", "systolic", "bmi")
_MEASURED = (2, 3, 4, 5, 6)  # the columns that may be blank
_FIRST_DAY, _DAYS = np.datetime64("2023-01-01"), 730


@dataclass(frozen=True)
class Group:
    """What patients of a group have in common; numbers are mean and standard deviation."""

    share: float
    age: tuple[float, float]
    systolic: tuple[float, float]
    bmi: tuple[float, float]
    women: float
    regions: tuple[float, float, float, float]


GROUPS = (
    Group(0.35, (28, 5), (112, 7), (22, 2), 0.85, (0.9, 0.04, 0.03, 0.03)),
    Group(0.30, (55, 6), (148, 8), (33, 3), 0.25, (0.03, 0.9, 0.04, 0.03)),
    Group(0.20, (81, 5), (162, 9), (24, 2), 0.65, (0.03, 0.03, 0.9, 0.04)),
    Group(0.15, (12, 3), (101, 6), (18, 2), 0.45, (0.04, 0.03, 0.03, 0.9)),
)

SCHEMA: dict[str, Any] = {
    "fields": [
        {"name": "patient_id", "type": "string", "dpkv": {"role": "person"}},
        {"name": "visit_date", "type": "date", "dpkv": {"role": "ignore"}},
        {
            "name": "age",
            "type": "integer",
            "constraints": {"minimum": 0, "maximum": 110},
            "dpkv": {"missing": "ignore"},
        },
        {
            "name": "sex",
            "type": "string",
            "constraints": {"enum": list(SEXES)},
            "dpkv": {"missing": "ignore"},
        },
        {
            "name": "region",
            "type": "string",
            "constraints": {"enum": list(REGIONS)},
            "dpkv": {"missing": "ignore"},
        },
        {
            "name": "systolic",
            "type": "integer",
            "constraints": {"minimum": 60, "maximum": 240},
            "dpkv": {"missing": "ignore"},
        },
        {
            "name": "bmi",
            "type": "number",
            "constraints": {"minimum": 10, "maximum": 60},
            "dpkv": {"missing": "ignore"},
        },
    ],
    "missingValues": [""],
    "dpkv": {"header": True, "delimiter": ","},
}
"""What a data dictionary would say of the table: nothing here depends on the visits."""


def schema_text() -> str:
    """Return the schema as a file holds it."""
    return json.dumps(SCHEMA, indent=2) + "\n"


def hospital_visits(seed: int = SEED, rows: int = N_VISITS) -> str:
    """Return so many visits as CSV text; the same seed makes the same text."""
    rng = np.random.default_rng(seed)
    patients = _number_of_visits(rng, rows)
    visits = np.repeat(np.arange(len(patients)), patients)[:rows]
    cells = _cells(rng, len(patients), visits)
    blank = rng.random(rows) < INCOMPLETE
    gone = rng.random((rows, len(_MEASURED))) < 1.0 / len(_MEASURED)
    gone[np.arange(rows), rng.integers(0, len(_MEASURED), rows)] = True
    for place, column in enumerate(_MEASURED):
        cells[blank & gone[:, place], column] = ""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(cells[rng.permutation(rows)].tolist())
    return text.getvalue()


def _number_of_visits(rng: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    """Return how often each of enough patients comes."""
    return np.minimum(rng.geometric(0.3, rows), MOST_VISITS)


def _cells(
    rng: np.random.Generator, n_patients: int, visits: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return the cells of complete visits."""
    shares = [group.share for group in GROUPS]
    own = rng.choice(len(GROUPS), size=n_patients, p=shares)

    def typical(name: str) -> np.ndarray[Any, Any]:
        """Return what is typical of every patient."""
        means = np.array([getattr(group, name)[0] for group in GROUPS])
        spreads = np.array([getattr(group, name)[1] for group in GROUPS])
        return np.asarray(means[own] + spreads[own] * rng.standard_normal(n_patients))

    age = np.clip(typical("age"), 0, 110).astype(int)
    women = rng.random(n_patients) < np.array([group.women for group in GROUPS])[own]
    bounds = np.cumsum([group.regions for group in GROUPS], axis=1)[own]
    region = (rng.random(n_patients)[:, np.newaxis] > bounds).sum(axis=1).clip(0, 3)
    names = rng.permutation(n_patients)
    systolic = typical("systolic")[visits] + rng.normal(0, 5, len(visits))
    bmi = typical("bmi")[visits] + rng.normal(0, 0.4, len(visits))
    dates = _FIRST_DAY + rng.integers(0, _DAYS, len(visits))
    cells = np.empty((len(visits), len(COLUMNS)), dtype=object)
    cells[:, 0] = [f"P{names[patient]:06d}" for patient in visits]
    cells[:, 1] = dates.astype(str)
    cells[:, 2] = age[visits]
    cells[:, 3] = np.array(SEXES, dtype=object)[np.where(women, 0, 1)][visits]
    cells[:, 4] = np.array(REGIONS, dtype=object)[region][visits]
    cells[:, 5] = np.clip(np.rint(systolic), 60, 240).astype(int)
    cells[:, 6] = np.clip(bmi, 10, 60).round(1)
    return cells

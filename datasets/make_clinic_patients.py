"""Writes clinic_patients.csv: where the imagined patients of a town live, in km from its square.

Run it from anywhere; it writes beside itself, the same bytes every time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SEED = 20161118
N_PATIENTS = 20_000
EDGE = 10.0  # the town's map reaches 10 km in each direction: a public fact
SCATTERED = 0.03  # share of patients on farms anywhere on the map

# east, north, spread (km), share of the patients
NEIGHBOURHOODS = (
    ("old town", 0.4, 0.1, 0.7, 0.34),
    ("harbour", -6.2, -4.8, 0.9, 0.22),
    ("hillside", 5.6, 6.3, 1.1, 0.20),
    ("airport road", 6.8, -3.9, 0.8, 0.14),
    ("lake villages", -5.1, 5.7, 1.3, 0.10),
)


def clinic_patients() -> np.ndarray:
    rng = np.random.default_rng(SEED)
    shares = [row[4] for row in NEIGHBOURHOODS]
    places = np.array([row[1:3] for row in NEIGHBOURHOODS])
    spreads = np.array([row[3] for row in NEIGHBOURHOODS])
    home = rng.choice(len(NEIGHBOURHOODS), size=N_PATIENTS, p=shares)
    position = places[home] + spreads[home, None] * rng.standard_normal((N_PATIENTS, 2))
    scattered = rng.random(N_PATIENTS) < SCATTERED
    position[scattered] = rng.uniform(-EDGE, EDGE, size=(int(scattered.sum()), 2))
    return np.clip(position, -EDGE, EDGE).round(2) + 0.0  # no negative zero


def text() -> str:
    lines = [f"{east:.2f},{north:.2f}\n" for east, north in clinic_patients()]
    return "east_km,north_km\n" + "".join(lines)


def main() -> None:
    target = Path(__file__).with_name("clinic_patients.csv")
    target.write_text(text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

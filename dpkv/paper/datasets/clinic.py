"""The bundled table: where the patients of an imagined town live, in km from its square.

No real person is in it: five neighbourhoods of different size and spread, and three patients in a
hundred on farms anywhere on the map.
"""

from __future__ import annotations

import numpy as np

from dpkv.types import Float64s

SEED = 20161118
N_PATIENTS = 20_000
EDGE = 10.0  # the town's map reaches 10 km in each direction: a public fact
SCATTERED = 0.03  # share of patients on farms anywhere on the map
COLUMNS = ("east_km", "north_km")

# east, north, spread (km), share of the patients
NEIGHBOURHOODS = (
    ("old town", 0.4, 0.1, 0.7, 0.34),
    ("harbour", -6.2, -4.8, 0.9, 0.22),
    ("hillside", 5.6, 6.3, 1.1, 0.20),
    ("airport road", 6.8, -3.9, 0.8, 0.14),
    ("lake villages", -5.1, 5.7, 1.3, 0.10),
)


def clinic_patients(seed: int = SEED, rows: int = N_PATIENTS) -> Float64s:
    """Return where the patients live; with the default seed, the bundled table."""
    rng = np.random.default_rng(seed)
    shares = [row[4] for row in NEIGHBOURHOODS]
    places = np.array([row[1:3] for row in NEIGHBOURHOODS])
    spreads = np.array([row[3] for row in NEIGHBOURHOODS])
    home = rng.choice(len(NEIGHBOURHOODS), size=rows, p=shares)
    position = places[home] + spreads[home, None] * rng.standard_normal((rows, 2))
    scattered = rng.random(rows) < SCATTERED
    position[scattered] = rng.uniform(-EDGE, EDGE, size=(int(scattered.sum()), 2))
    return np.asarray(np.clip(position, -EDGE, EDGE).round(2) + 0.0)  # no negative zero

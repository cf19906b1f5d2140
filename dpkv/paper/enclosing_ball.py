"""R: how far apart records can be, for the published calibration."""

from __future__ import annotations

import numpy as np

from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.types import Float64s

_ROUNDS = 200
_STEPS = 4000
_CLOSE_ENOUGH = 1e-9


def enclosing_radius(points: Float64s) -> float:
    """Return the radius of the smallest ball around the points, never less than the truth.

    Points are added to a small core set, farthest first (Badoiu and Clarkson 2003), until the ball
    around the core holds all of them. The radius is measured to the farthest point, so it errs
    upwards whatever the accuracy of the center.
    """
    center = points.mean(axis=0)
    core = points[[int(SQUARED_EUCLIDEAN.to_center(points, center).argmax())]]
    best = np.inf
    for _ in range(_ROUNDS):
        distances = SQUARED_EUCLIDEAN.to_center(points, center)
        farthest = int(distances.argmax())
        best = min(best, float(np.sqrt(distances[farthest])))
        inner = float(np.sqrt(SQUARED_EUCLIDEAN.to_center(core, center).max()))
        if len(core) > 1 and best <= inner * (1.0 + _CLOSE_ENOUGH):
            break
        core = np.unique(np.vstack([core, points[farthest]]), axis=0)
        center = _core_center(core)
    return best * (1.0 + 1e-12)


def _core_center(core: Float64s) -> Float64s:
    """Return the center of the smallest ball around a few points: away-step Frank-Wolfe.

    Maximises sum_i u_i ||p_i||^2 - ||sum_i u_i p_i||^2 over the simplex, with exact line search.
    """
    centred = core - core.mean(axis=0)
    share = np.full(len(core), 1.0 / len(core))
    for _ in range(_STEPS):
        center = share @ centred
        distances = SQUARED_EUCLIDEAN.to_center(centred, center)
        to, away = int(distances.argmax()), int(np.where(share > 0, distances, np.inf).argmin())
        gap = float(distances[to] - distances[away])
        if gap <= 1e-14 * float(distances[to]):
            break
        length = float(((centred[to] - centred[away]) ** 2).sum())
        step = min(gap / (2.0 * length), float(share[away]))
        share[to] += step
        share[away] -= step
    return np.asarray(share @ core)

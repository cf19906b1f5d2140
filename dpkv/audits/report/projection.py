"""A picture's plane: the two columns, or the principal components of many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpkv.types import Float64s

_PLANE = 2


def project(points: Float64s, columns: Sequence[str]) -> tuple[Float64s, tuple[str, str]]:
    """Return points in the plane, and what its axes are."""
    if points.shape[1] == 1:
        return np.column_stack([points[:, 0], np.zeros(len(points))]), (columns[0], "")
    if points.shape[1] == _PLANE:
        return points, (columns[0], columns[1])
    return _components(points), ("first principal component", "second principal component")


def _components(points: Float64s) -> Float64s:
    centred = points - points.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = centred / np.where(spread > 0, spread, 1.0)
    directions = np.linalg.svd(scaled, full_matrices=False)[2]
    plane = np.zeros((_PLANE, points.shape[1]))
    plane[: len(directions[:_PLANE])] = directions[:_PLANE]
    largest = np.abs(plane).argmax(axis=1)
    signs = np.where(plane[np.arange(_PLANE), largest] < 0, -1.0, 1.0)
    placed: Float64s = scaled @ (signs[:, np.newaxis] * plane).T
    return placed

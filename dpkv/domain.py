"""The domain: the public facts about where records may lie.

A domain is a box (bounds for every column) or an L1 ball. It is chosen without looking at the data,
or says that it was not: ``source`` is "given", "private" (found by a mechanism that paid for it) or
"data" (read from the records, which leaks them). Domains are immutable and serialise to plain JSON.

Every quantity of a domain is in the user's own coordinates. Algorithms run in the coordinates of
``domain.working``: the unit cube for a scaled box, the domain itself otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from dpkv import kernels
from dpkv.errors import DomainError, shown
from dpkv.grid import GRID_BITS, Grid, box_grid, l1_ball_grid, onto_l1_ball
from dpkv.types import Float64s, Floats

_SHOWN = 12
Source = Literal["given", "private", "data"]
Bounds = Sequence[float] | Sequence[Sequence[float]] | Mapping[str, Any]


class Domain(ABC):
    """A box or an L1 ball. Build one with ``Box``, ``L1Ball`` or ``Domain.bounded``."""

    source: Source

    @staticmethod
    def bounded(
        bounds: Bounds,
        n_features: int,
        *,
        scaled: bool = True,
        source: Source = "given",
        columns: Sequence[str] | None = None,
    ) -> Domain:
        """Build a domain for ``n_features`` columns.

        ``bounds`` is a pair (low, high) for all columns, one pair per column, or a mapping: column
        names to pairs (needs ``columns``), ``{"lower": ..., "upper": ...}``, or
        ``{"center": ..., "radius": ...}`` for an L1 ball.
        """
        if isinstance(bounds, Mapping):
            return _from_mapping(bounds, n_features, scaled, source, columns)
        pairs = _numbers("bounds", bounds)
        if pairs.shape == (2,):
            pairs = np.tile(pairs, (n_features, 1))
        if pairs.shape != (n_features, 2):
            raise DomainError(
                f"bounds must be one low,high pair or one pair for each of the {n_features} "
                f"columns. Got shape {pairs.shape} instead."
            )
        return Box(tuple(pairs[:, 0]), tuple(pairs[:, 1]), scaled=scaled, source=source)

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns."""

    @property
    @abstractmethod
    def diam1(self) -> float:
        """L1 diameter: the largest L1 distance between two points of the domain."""

    @property
    @abstractmethod
    def diam2(self) -> float:
        """L2 diameter: the largest L2 distance between two points of the domain."""

    @property
    @abstractmethod
    def middle(self) -> Float64s:
        """The domain's center."""

    @property
    @abstractmethod
    def working(self) -> Domain:
        """The domain that algorithms see, with its own clip and diameters."""

    @property
    def coordinates(self) -> str:
        """What the coordinates of ``working`` are called."""
        return "as given" if self.working is self else "unit cube"

    @abstractmethod
    def clip(self, values: Floats) -> Floats:
        """Return each row moved to the nearest point of the domain."""

    @abstractmethod
    def to_working(self, values: Floats) -> Floats:
        """Clip, then map to the coordinates of ``working``."""

    @abstractmethod
    def from_working(self, values: Floats) -> Floats:
        """Map from the coordinates of ``working`` back to the user's."""

    @abstractmethod
    def grid(self, bits: int = GRID_BITS) -> Grid:
        """Return the public integer grid over the domain."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the domain as plain JSON values."""

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> Domain:
        """Rebuild a domain from ``to_dict``."""
        from dpkv.simplices import Product  # noqa: PLC0415 (it builds on this module)

        kinds = {"box": Box, "l1-ball": L1Ball, "product": Product}
        try:
            return kinds[fields["kind"]]._from_fields(fields)  # type: ignore[attr-defined,no-any-return]
        except KeyError as missing:
            field = shown(missing.args[0])
            raise DomainError(f"domain record lacks or mistakes the field {field}.") from None
        except DomainError:
            raise
        except (TypeError, ValueError, OverflowError):
            raise DomainError("domain record has a field of the wrong type.") from None

    def _check_columns(self, values: Floats) -> None:
        if values.ndim != 2 or values.shape[1] != self.n_features:  # noqa: PLR2004
            raise DomainError(
                f"the domain has {self.n_features} columns. Got values of shape {values.shape} "
                "instead: give bounds for exactly the columns used."
            )


@dataclass(frozen=True)
class Box(Domain):
    """Bounds for every column. A column of zero width is allowed and carries no information."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scaled: bool = True
    source: Source = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", tuple(float(x) for x in self.lower))
        object.__setattr__(self, "upper", tuple(float(x) for x in self.upper))
        _check_source(self.source)
        if not isinstance(self.scaled, (bool, np.bool_)):
            raise DomainError(f"scaled must be True or False. Got {shown(self.scaled)} instead.")
        if len(self.lower) != len(self.upper) or not self.lower:
            raise DomainError(
                f"bounds must have as many lows as highs, and at least one. "
                f"Got {len(self.lower)} and {len(self.upper)} instead."
            )
        for column, (low, high) in enumerate(zip(self.lower, self.upper, strict=True), start=1):
            if not (np.isfinite(low) and np.isfinite(high)):
                raise DomainError(f"bounds of column {column} must be finite. Got {low}, {high}.")
            if low > high:
                raise DomainError(
                    f"bounds of column {column} must be low,high in this order. "
                    f"Got {low:g},{high:g} instead: swap them."
                )
            _check_extent(column, low, high)

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(fields["lower"], fields["upper"], fields["scaled"], fields["source"])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.lower)

    @property
    def widths(self) -> Float64s:
        """Widths of the columns."""
        return np.subtract(self.upper, self.lower)

    @property
    def diam1(self) -> float:
        """L1 diameter: the sum of the widths, rounded up."""
        return _upward(float(self.widths.sum()), self.n_features)

    @property
    def diam2(self) -> float:
        """L2 diameter: the length of the diagonal, rounded up."""
        return _upward(float(np.linalg.norm(self.widths)), self.n_features)

    @property
    def middle(self) -> Float64s:
        """The center of the box."""
        return np.add(self.lower, self.upper) / 2.0

    @property
    def working(self) -> Box:
        """The unit cube for a scaled box, else the box itself."""
        if not self.scaled:
            return self
        zeros, ones = np.zeros(self.n_features), np.where(self.widths > 0, 1.0, 0.0)
        return Box(tuple(zeros), tuple(ones), scaled=False, source=self.source)

    def clip(self, values: Floats) -> Floats:
        """Return the values moved inside the bounds, column by column."""
        self._check_columns(values)
        lower = _rounded(self.lower, values.dtype, np.inf)
        upper = _rounded(self.upper, values.dtype, -np.inf)
        return np.clip(values, np.minimum(lower, upper), upper)

    def to_working(self, values: Floats) -> Floats:
        """Clip, and stretch every column to [0, 1] when the box is scaled."""
        clipped = self.clip(values)
        if not self.scaled:
            return clipped
        widths = np.where(self.widths > 0, self.widths, 1.0)
        stretched = (clipped - np.asarray(self.lower)) / widths
        return np.asarray(np.clip(stretched, 0.0, self.working.upper), dtype=values.dtype)

    def from_working(self, values: Floats) -> Floats:
        """Return user's coordinates, never outside the bounds by rounding."""
        self._check_columns(values)
        if not self.scaled:
            return values
        moved = np.asarray(self.lower) + values * self.widths
        moved = np.asarray(moved, dtype=values.dtype)
        inside = (values >= 0) & (values <= 1)
        return np.where(inside, self.clip(moved), moved)

    def grid(self, bits: int = GRID_BITS) -> Grid:
        """Return the grid: 2^bits levels on a scaled side; a common step when not scaled."""
        return box_grid(self.lower, self.upper, scaled=self.scaled, bits=bits)

    def to_dict(self) -> dict[str, Any]:
        """Return the box as plain JSON values."""
        return {
            "kind": "box",
            "lower": list(self.lower),
            "upper": list(self.upper),
            "scaled": self.scaled,
            "source": self.source,
        }


@dataclass(frozen=True)
class L1Ball(Domain):
    """All points within L1 distance ``radius`` of ``center``. Never scaled."""

    center: tuple[float, ...]
    radius: float
    source: Source = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", tuple(float(x) for x in self.center))
        object.__setattr__(self, "radius", float(self.radius))
        _check_source(self.source)
        if not self.center or not np.isfinite(self.center).all():
            raise DomainError("center must be finite numbers, one per column.")
        if not (np.isfinite(self.radius) and self.radius >= 0):
            raise DomainError(f"radius must be finite and at least 0. Got {self.radius} instead.")
        for column, middle in enumerate(self.center, start=1):
            _check_extent(column, middle - self.radius, middle + self.radius)

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(fields["center"], fields["radius"], fields["source"])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.center)

    @property
    def diam1(self) -> float:
        """L1 diameter."""
        return 2.0 * self.radius

    @property
    def diam2(self) -> float:
        """L2 diameter: the distance of opposite corners."""
        return 2.0 * self.radius

    @property
    def middle(self) -> Float64s:
        """The center of the ball."""
        return np.asarray(self.center)

    @property
    def working(self) -> L1Ball:
        """The ball itself."""
        return self

    def clip(self, values: Floats) -> Floats:
        """Return each row's nearest point of the ball in L2 (soft thresholding of the offsets)."""
        self._check_columns(values)
        offsets = values - self.middle
        norms = np.abs(offsets).sum(axis=1)
        outside = np.flatnonzero(norms > self.radius)
        if not outside.size:
            return values
        clipped = values.astype(np.result_type(values, np.float64))
        # What rounding the result may add to its norm is taken off beforehand.
        margin = float(np.finfo(values.dtype).eps) * (np.abs(self.middle).sum() + self.radius)
        inner = max(0.0, self.radius - margin)
        clipped[outside] = self.middle + onto_l1_ball(offsets[outside], inner)
        return clipped.astype(values.dtype, copy=False)

    def to_working(self, values: Floats) -> Floats:
        """Clip; working coordinates are the user's."""
        return self.clip(values)

    def from_working(self, values: Floats) -> Floats:
        """Return the values as they are."""
        self._check_columns(values)
        return values

    def grid(self, bits: int = GRID_BITS) -> Grid:
        """Return the lattice around the center with 2^(bits-1) - 1 steps to each corner."""
        return l1_ball_grid(self.center, self.radius, bits=bits)

    def to_dict(self) -> dict[str, Any]:
        """Return the ball as plain JSON values."""
        return {
            "kind": "l1-ball",
            "center": list(self.center),
            "radius": self.radius,
            "source": self.source,
        }


def _rounded(bounds: tuple[float, ...], dtype: np.dtype[Any], toward: float) -> Floats:
    """Return bounds in ``dtype``, rounded toward plus or minus infinity where not representable."""
    rounded = np.asarray(bounds).astype(dtype)
    outside = (rounded < bounds) if toward > 0 else (rounded > bounds)
    return np.where(outside, np.nextafter(rounded, dtype.type(toward)), rounded)


def _upward(length: float, n_terms: int) -> float:
    """Return a sum of rounded widths, raised by what rounding may have lost; whole numbers stay."""
    if length == round(length) and length < 2.0**52 / n_terms:
        return length
    return length * (1.0 + (n_terms + 3) * np.finfo(np.float64).eps)


def _check_source(source: str) -> None:
    if source not in ("given", "private", "data"):
        raise DomainError(
            f"source must be 'given', 'private' or 'data'. Got {shown(source)} instead."
        )


def _check_extent(column: int, low: float, high: float) -> None:
    if max(abs(low), abs(high)) > 2.0**53:
        raise DomainError(f"bounds of column {column} must stay within ±2^53: rescale the column.")


def _numbers(name: str, values: object) -> Float64s:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(f"{name} must be numbers in low,high pairs.") from None


def _from_mapping(
    bounds: Mapping[str, Any],
    n_features: int,
    scaled: bool,
    source: Source,
    columns: Sequence[str] | None,
) -> Domain:
    if columns is not None and set(columns) <= set(bounds):  # even when called lower and upper
        return _by_name(bounds, n_features, scaled, source, columns)
    if set(bounds) == {"center", "radius"}:
        center = _numbers("center", bounds["center"])
        radius = _numbers("radius", bounds["radius"])
        if center.ndim == 0:
            center = np.full(n_features, center)
        if center.shape != (n_features,) or radius.ndim:
            raise DomainError(f"an L1 ball needs {n_features} center numbers and one radius.")
        return L1Ball(tuple(center), float(radius), source=source)
    if set(bounds) == {"lower", "upper"}:
        lower, upper = _numbers("lower", bounds["lower"]), _numbers("upper", bounds["upper"])
        lower, upper = (np.full(n_features, b) if b.ndim == 0 else b for b in (lower, upper))
        if lower.shape != (n_features,) or upper.shape != (n_features,):
            raise DomainError(
                f"lower and upper must have one number for each of the {n_features} columns. "
                f"Got {lower.size} and {upper.size} instead."
            )
        return Box(tuple(lower), tuple(upper), scaled=scaled, source=source)
    if columns is None:
        raise DomainError("bounds by column name need a table with column names.")
    missing = [str(place) for place, name in enumerate(columns, start=1) if name not in bounds]
    # By number: a name that was read from a table may be a record's cell.
    shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    raise DomainError(f"bounds must name every column used. Got none for number {shown} of them.")


def _by_name(
    bounds: Mapping[str, Any],
    n_features: int,
    scaled: bool,
    source: Source,
    columns: Sequence[str],
) -> Domain:
    pairs = _numbers("bounds", [bounds[name] for name in columns])
    if pairs.shape != (n_features, 2):  # two plain numbers are not one pair for all
        raise DomainError("bounds by column name must be one low,high pair for each name.")
    return Box(tuple(pairs[:, 0]), tuple(pairs[:, 1]), scaled=scaled, source=source)


def data_domain(data: Floats, *, scaled: bool = True) -> Box:
    """Return the smallest box around the data. It leaks them, and its ``source`` says so."""
    lower, upper = kernels.column_extent(data)
    return Box(tuple(lower), tuple(upper), scaled=scaled, source="data")

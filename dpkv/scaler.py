"""``PublicScaler``: columns scaled by public bounds, with nothing learnt from the records.

Scalers that are fitted read means, quantiles or extremes off the records, and every row they scale
tells of them. What comes before a private estimator must not: its guarantee covers what happens
inside its own ``fit`` only.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpkv.domain import Bounds, Box, Domain
from dpkv.errors import ParameterError
from dpkv.learning import checked
from dpkv.types import Float64s, Floats

_OPTIONS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}


class PublicScaler(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Scale every column from its public bounds to [0, 1].

    Parameters
    ----------
    bounds : low, high for all columns, one pair per column, or a mapping from names, chosen without
        looking at the data. It has no default that could be right: a fit without it is refused.
    clip : move what is outside the bounds to them.

    Attributes
    ----------
    n_features_in_ : number of columns seen in ``fit``.
    feature_names_in_ : their names, where they had names.

    ``fit`` looks at the number of columns and their names, and at no record. Missing cells stay.
    """

    def __init__(self, bounds: Bounds | Box | None = None, *, clip: bool = False) -> None:
        self.bounds = bounds
        self.clip = clip

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803
        """Check that the bounds are for the columns of ``X``. Nothing is kept of its rows."""
        checked(self, X, **_OPTIONS)
        self._ends()
        return self

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the rows with bounds at 0 and 1."""
        check_is_fitted(self)
        records = checked(self, X, reset=False, **_OPTIONS)
        low, high = self._ends()
        scaled = (records - low) / (high - low)
        if self.clip:
            scaled = np.clip(scaled, 0.0, 1.0)
        return np.asarray(scaled, dtype=records.dtype)

    def inverse_transform(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return rows, or centers, in the units that ``transform`` took."""
        check_is_fitted(self)
        scaled = np.asarray(X)
        low, high = self._ends()
        if scaled.ndim != 2 or scaled.shape[1] != len(low):  # noqa: PLR2004
            raise ValueError(f"X must have {len(low)} columns.")
        kind = scaled.dtype if scaled.dtype == np.float32 else np.float64
        return np.asarray(low + scaled * (high - low), dtype=kind)

    def _ends(self) -> tuple[Float64s, Float64s]:
        if self.bounds is None:
            raise ParameterError("bounds", "low and high", None, "They must be public.")
        if isinstance(self.bounds, Box):
            box: Domain = self.bounds
        else:
            names = getattr(self, "feature_names_in_", None)
            columns = None if names is None else list(map(str, names))
            box = Domain.bounded(self.bounds, self.n_features_in_, columns=columns)
        if not isinstance(box, Box) or box.n_features != self.n_features_in_:
            raise ParameterError("bounds", f"low,high for {self.n_features_in_} columns", "others")
        return np.asarray(box.lower, dtype=np.float64), np.asarray(box.upper, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

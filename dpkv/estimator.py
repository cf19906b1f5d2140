"""``PrivateKMeans``: releases behind scikit-learn's interface.

``fit`` is a release: it spends epsilon, charges the ledger and draws fresh noise, so fitting again
gives other centers and spends again. What it leaves behind is public: the centers and the record.
There are no ``labels_`` and no ``inertia_``: exact ones would tell more than was paid for. The
labels of any records, the training ones included, are ``predict``'s, for the curator's own eyes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from dpkv import kernels
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.mechanisms.registry import AUTO
from dpkv.releases.api import release
from dpkv.releases.plan import DEFAULT_BOUNDS_SHARE
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.request import AnyBounds
from dpkv.settings import AUTO as AUTO_WORKSPACE
from dpkv.tables.naming import default_names
from dpkv.tables.schema import TableSchema
from dpkv.types import Floats

_DTYPES = [np.float64, np.float32]
_SHOWN_ARRAY = re.compile(
    r"(instead:\n)array=.*\n(?=Reshape)|(?<=Complex data not supported)\n.*|(?<=got scalar )`.*`",
    re.DOTALL,
)


class PrivateKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Differentially private cluster centers.

    Parameters
    ----------
    n_clusters : the number of centers.
    epsilon : what a fit may cost.
    bounds : where records may lie, chosen without looking at the data: low, high for all columns,
        one pair per column, a mapping or a ``dpkv.Domain``; or "private", or "data", which leaks.
        It has no default that could be right: a fit without it is refused.
    mechanism : "auto", the one of least predicted error, from public facts alone; or a name in
        ``dpkv.mechanisms.MECHANISMS``.
    neighbours : "replace-one", or "add-remove" where the mechanism's proof covers it.
    gamma : smoothing of the D^2 picks of "kvariates".
    iterations : of "lloyd".
    delta : the chance with which the promise may fail, for mechanisms with Gaussian noise.
    bounds_share : the share of epsilon for private bounds.
    scaled : scale a box of bounds to the unit cube while the centers are found.
    missing : cells that are no number, such as NaN or text: "refuse" them in ``fit`` (the default),
        "fill:VALUE", or "ignore", with which their rows count for nothing.
    schema : the public facts of the columns, with their bounds and rules; columns of numbers only,
        since ``predict`` measures distances to numbers.
    workspace : the folder of the ledger that is charged; "auto" is the command line's, which
        ``DPKV_WORKSPACE`` or the user's settings may name. None charges nobody.
    dataset : the name of the data set whose budget is charged. Give one where several fits concern
        the same people (cross-validation, parts of a table): without it every array has its own.

    Attributes
    ----------
    cluster_centers_ : (n_clusters, n_features) released centers, within the bounds.
    privacy_ : the record of the release (``dpkv.ReleaseRecord``).
    n_features_in_ : number of columns seen in ``fit``.
    feature_names_in_ : their names, where the records had names.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        epsilon: float | str | Decimal = 1.0,
        *,
        bounds: AnyBounds | None = None,
        mechanism: str = AUTO,
        neighbours: str = "replace-one",
        gamma: float = DEFAULT_GAMMA,
        iterations: int | None = None,
        density: str | None = None,
        lloyd_steps: int | None = None,
        delta: float | str | Decimal = 0,
        bounds_share: float = DEFAULT_BOUNDS_SHARE,
        scaled: bool = True,
        missing: str | None = None,
        schema: TableSchema | str | Path | None = None,
        workspace: str | Path | None = AUTO_WORKSPACE,
        dataset: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.mechanism = mechanism
        self.neighbours = neighbours
        self.gamma = gamma
        self.iterations = iterations
        self.density = density
        self.lloyd_steps = lloyd_steps
        self.delta = delta
        self.bounds_share = bounds_share
        self.scaled = scaled
        self.missing = missing
        self.schema = schema
        self.workspace = workspace
        self.dataset = dataset

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803
        """Release centers of ``X``. Spends ``epsilon``."""
        any_cell = self._takes_any_cell
        records = self._checked(
            X, dtype=None if any_cell else _DTYPES, ensure_all_finite=not any_cell
        )
        names = getattr(self, "feature_names_in_", default_names(records.shape[1]))
        done = release(
            records,
            k=self.n_clusters,
            eps=self.epsilon,
            bounds=self.bounds,
            mechanism=self.mechanism,
            neighbours=self.neighbours,
            gamma=self.gamma,
            iterations=self.iterations,
            density=self.density,
            lloyd_steps=self.lloyd_steps,
            delta=self.delta,
            bounds_share=self.bounds_share,
            scaled=self.scaled,
            missing=self.missing,
            schema=self.schema,
            workspace=self.workspace,
            dataset=self.dataset,
            columns=tuple(map(str, names)),
        )
        self.cluster_centers_ = done.centers
        self.privacy_: ReleaseRecord = done.record
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:  # noqa: N803
        """Return the nearest released center of each row of ``X``, which stays with the caller."""
        records = self._records(X)
        return kernels.assign_nearest(records, self.cluster_centers_)[0]

    def fit_predict(self, X: ArrayLike, y: object = None, **parameters: Any) -> NDArray[np.int32]:  # noqa: N803
        """Fit, then predict for the same rows; the labels are not kept and must not be released."""
        return self.fit(X, y, **parameters).predict(X)

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the distance of each row of ``X`` to each released center."""
        records = self._records(X)
        gaps = [np.linalg.norm(records - center, axis=1) for center in self.cluster_centers_]
        return np.stack(gaps, axis=1).astype(records.dtype, copy=False)

    def _records(self, X: ArrayLike) -> Floats:  # noqa: N803
        check_is_fitted(self)
        return np.asarray(self._checked(X, dtype=_DTYPES, reset=False))

    def _checked(self, X: ArrayLike, **options: Any) -> Any:  # noqa: N803
        """Return what scikit-learn makes of ``X``; its refusals must not quote a record."""
        try:
            return validate_data(self, X, order="C", **options)
        except (TypeError, ValueError) as error:
            sentence = _without_records(str(error))
            kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(sentence)

    @property
    def _takes_any_cell(self) -> bool:
        """Whether a rule may be there for cells that are no numbers."""
        return self.missing not in (None, "refuse") or self.schema is not None

    @property
    def _n_features_out(self) -> int:
        """How many columns ``transform`` gives."""
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_any_cell
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = True
        return tags


def _without_records(sentence: str) -> str:
    """Return scikit-learn's or numpy's sentence without the array or the cell that it shows."""
    if sentence.startswith("could not convert"):
        return "X must be numeric: drop or encode the other columns."
    return _SHOWN_ARRAY.sub(lambda found: found.group(1) or "", sentence)

"""``PrivateKMeans``: releases behind scikit-learn's interface.

``fit`` is a release: it spends epsilon, charges the ledger and draws fresh noise, so fitting again
gives other centers and spends again. What it leaves behind is public: the centers and the record.
There are no ``labels_`` and no ``inertia_``: exact ones would tell more than was paid for. The
labels of any records, the training ones included, are ``predict``'s, for the curator's own eyes.

The guarantee covers what happens inside ``fit``, and says so: a step before it in a pipeline must
not be fitted to the records, as ``dpkv.PublicScaler`` is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from dpkv import kernels
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.errors import UsageError
from dpkv.learning import checked
from dpkv.mechanisms.registry import AUTO
from dpkv.releases.api import release_table
from dpkv.releases.plan import DEFAULT_BOUNDS_SHARE
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.request import AnyBounds, Request
from dpkv.settings import AUTO as AUTO_WORKSPACE
from dpkv.tables.described import schema_of
from dpkv.tables.frames import as_frame
from dpkv.tables.naming import default_names, quoted
from dpkv.tables.schema import TableSchema
from dpkv.types import Floats

_DTYPES = [np.float64, np.float32]


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
    mechanism : "auto", the one with the smallest predicted error, from public facts alone; or a
        name in ``dpkv.mechanisms.MECHANISMS``.
    neighbours : "replace-one", or "add-remove" where the mechanism's proof covers it.
    gamma : smoothing of the D^2 picks of "kvariates".
    iterations : of "lloyd".
    delta : the chance with which the promise may fail, for mechanisms with Gaussian noise.
    bounds_share : the share of epsilon for private bounds.
    scaled : scale a box of bounds to the unit cube while the centers are found.
    missing : cells that are no number, such as NaN or text: "refuse" them in ``fit`` (the default),
        "fill:VALUE", or "ignore", with which their rows count for nothing.
    schema : the public facts of the columns, with their bounds and rules; columns of numbers only,
        since ``predict`` measures distances to numbers. Its columns of persons and of weights are
        found in a frame.
    rows_per_person : keep at most this many rows of each person, where ``fit`` is told whose rows
        they are ("add-remove"); by default all rows of a person share one weight.
    one_row_per_person : "mean" makes one row of all rows of a person.
    most_weight : the public upper bound of ``sample_weight``; larger ones are moved to it.
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
        rows_per_person: int | None = None,
        one_row_per_person: str | None = None,
        most_weight: float | None = None,
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
        self.rows_per_person = rows_per_person
        self.one_row_per_person = one_row_per_person
        self.most_weight = most_weight
        self.workspace = workspace
        self.dataset = dataset

    def fit(
        self,
        X: ArrayLike | str | Path,  # noqa: N803
        y: object = None,  # noqa: ARG002
        *,
        person: str | Sequence[object] | None = None,
        sample_weight: str | Sequence[float] | None = None,
    ) -> Self:
        """Release centers of ``X``, records or the path of a table. Spends ``epsilon``.

        ``person`` says whose each row is, one id per row: a person then counts once, and is what
        the promise is about. ``sample_weight`` are survey weights, one per row, at most
        ``most_weight``. Either may be the name of a column of a frame, which is then no feature;
        later frames may have it or not.
        """
        if sample_weight is not None and not isinstance(sample_weight, str):
            sample_weight = np.asarray(sample_weight).tolist()
        if isinstance(X, (str, Path)):
            return self._fit_file(Path(X), person, sample_weight)
        schema = schema_of(self.schema, None)
        aside = _columns_aside(person, sample_weight, schema)
        features, columns_aside = _set_aside(X, aside)
        any_cell = self._takes_any_cell
        records = checked(
            self, features, dtype=None if any_cell else _DTYPES, ensure_all_finite=not any_cell
        )
        names = getattr(self, "feature_names_in_", default_names(records.shape[1]))
        request = self._request(schema, person, sample_weight, tuple(map(str, names)))
        return self._released(_joined(records, names, columns_aside), request)

    def _fit_file(
        self,
        path: Path,
        person: str | Sequence[object] | None,
        weight: str | Sequence[float] | None,
    ) -> Self:
        """Release centers of a file's table, by the schema beside it where none was given."""
        done = self._released(path, self._request(self.schema, person, weight, None))
        names = [facts.name for facts in done.privacy_.plan.table]
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return done

    def _request(
        self,
        schema: TableSchema | str | Path | None,
        person: str | Sequence[object] | None,
        weight: str | Sequence[float] | None,
        columns: tuple[str, ...] | None,
    ) -> Request:
        return Request(
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
            schema=schema,
            person=person,
            rows_per_person=self.rows_per_person,
            one_row_per_person=self.one_row_per_person,
            weight=weight,
            most_weight=None if weight is None else self.most_weight,
            columns=columns,
        )

    def _released(self, data: Any, request: Request) -> Self:
        done = release_table(
            data,
            request,
            workspace=self.workspace,
            dataset=self.dataset,
            behind_steps=True,
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
        unit = self.privacy_.plan.unit
        aside = [name for name in (unit.person_column, unit.weight_column) if name is not None]
        features, _ = _set_aside(X, aside, demanded=False)
        return np.asarray(checked(self, features, dtype=_DTYPES, reset=False))

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


def _columns_aside(
    person: str | Sequence[object] | None,
    weight: str | Sequence[float] | None,
    schema: TableSchema | None,
) -> list[str]:
    """Return the columns that are no features: those of persons and of weights."""
    facts = None if schema is None else schema.facts()
    by_schema = (
        None if facts is None else facts.person,
        None if facts is None or facts.weight is None else facts.weight.name,
    )
    found = []
    for given, said in zip((person, weight), by_schema, strict=True):
        name = said if given is None else given
        if isinstance(name, str):
            found.append(name)
    return found


def _set_aside(
    data: Any, names: Sequence[str], *, demanded: bool = True
) -> tuple[Any, dict[str, list[Any]]]:
    """Return a table without some columns, and these columns."""
    table = _as_pandas(data)
    known = tuple(table.columns) if isinstance(table, pd.DataFrame) else ()
    absent = [name for name in names if name not in known]
    if absent and demanded:
        raise UsageError(
            f"X must be a data frame with the column {quoted(absent)[0]}: give it, or one value "
            "per row."
        )
    there = [name for name in names if name in known]
    if not there:
        return table, {}
    return table.drop(columns=there), {name: table[name].tolist() for name in there}


def _as_pandas(data: Any) -> Any:
    """Return a frame of another library as pandas', whose names scikit-learn reads."""
    frame = None if isinstance(data, pd.DataFrame) else as_frame(data)
    if frame is None:
        return data
    columns = {}
    for name in frame.columns:
        cells = frame[name]
        is_float = cells.dtype.is_float()  # whole numbers beside nothing would become floats
        columns[name] = cells.to_numpy() if is_float else pd.Series(cells.to_list(), dtype=object)
    return pd.DataFrame(columns)


def _joined(records: Any, names: Sequence[str], aside: dict[str, list[Any]]) -> Any:
    """Return the features with the columns that were set aside behind them."""
    if not aside:
        return records
    frame = pd.DataFrame(records, columns=list(map(str, names)))
    return frame.assign(**{name: pd.Series(cells, dtype=object) for name, cells in aside.items()})

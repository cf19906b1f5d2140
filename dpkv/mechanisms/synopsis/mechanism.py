"""The synopsis as a mechanism: private cells, free clustering, private Lloyd steps.

    number of records    noisy where it is private             root_scale
    cells                a tree grown by noisy tests           tree_scale, decay, floor, levels
    counts               of the leaves, noisy                  count_scale
    places               of the records in their leaves        mean_scale
    clustering           sk-means++, Lloyd, swaps              free
    Lloyd steps          on the records, noisy                 norm_scale, sum_scale, n_steps

Proof "synopsis". Every part is a question whose file has its proof (``records/questions``). They
are asked one after another, each with what was answered before in hand, and their prices add up.
How deep the public first levels of the tree go, and the threshold, are decided by the number of
records, noisy or public. The map to cells depends on public numbers alone. Thresholds, mass handed
down, seeding, swaps, radii and blending use what was answered already. Under add/remove nothing
else depends on the number of records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.accounting.exact import float_below, upward
from dpkv.accounting.split import Split
from dpkv.accounting.zcdp import largest_rho, smallest_gaussian_scale
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.kernels import assign_nearest
from dpkv.mechanisms.mechanism import (
    CLIP_RADII,
    RECORDS,
    AuditPart,
    Mechanism,
    Noise,
    Outcome,
    Proof,
    Terms,
    members,
)
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.clustering import cluster
from dpkv.mechanisms.synopsis.estimates import estimate_clusters, share_cells, sizes_of
from dpkv.mechanisms.synopsis.number import choose_number, potential_curve
from dpkv.mechanisms.synopsis.settings import (
    CATEGORIES_SKEW,
    Layout,
    cell_dimensions,
    layout,
    lloyd_steps,
)
from dpkv.noise import smallest_scale
from dpkv.records.questions import (
    PLACE_UNIT,
    Ask,
    CellCounts,
    CellPlaces,
    CellSplits,
    Clusters,
    RecordCount,
    TreeTest,
    calibrate_test,
    cells_step,
    count_step,
    first_levels,
    is_total_private,
    norms_step,
    places_step,
    public_map,
    residuals_step,
    scale_for,
    tree_step,
)
from dpkv.simplices import ProductGrid
from dpkv.types import Float64s, Integers
from dpkv.validation import (
    LARGEST_WHOLE,
    MOST_ITERATIONS,
    check_range,
    non_negative_finite,
    positive_finite,
    whole_number,
)

_STANDS_OUT = 2.0  # scales of a count's noise
_CUT = 0.125  # of the domain: the radius that residuals are cut to, for predictions
_LEAVES_A_CLUSTER = 16
_MEAN_THRESHOLD = 10.0  # scales of a place's noise: leaves with fewer records have no use for it
_LARGEST_PRODUCT = 2**62  # of two norms: beyond it int64 would overflow
_MEAN_REACH = 0.5  # of the dimensions: the L1 norm that places are cut to, in half sides


@dataclass(frozen=True)
class Synopsis(Mechanism):
    """Private adaptive cells, clustered at will, and private Lloyd steps."""

    root_scale: float | None
    """None where what all records weigh is public."""
    tree_scale: float
    decay: int
    floor: int
    levels: int
    threshold: int
    most_threshold: int | None
    """The threshold rises up to this one as far as the number of records allows; None: it stays."""
    first_cell: int
    """Records that a cell of the public first grid has on average, ..."""
    least_cell: int
    """... or at least this many where k clusters need more cells."""
    count_scale: float
    mean_scale: float | None
    """None where places are not asked for."""
    n_steps: int
    norm_scale: float
    sum_scale: float
    delta_spent: float
    """Above 0 where the sums have Gaussian noise."""
    n_dimensions: int
    """Of the cells: as many as there are columns, or fewer."""
    fewest: int | None = None
    """Where the number of centers is chosen from the cells: the fewest."""

    name: ClassVar[str] = "synopsis"
    title: ClassVar[str] = "private synopsis: adaptive cells, sk-means++, private Lloyd steps"
    why: ClassVar[str] = "cells, counts and Lloyd steps add up, the tree by a certified sum"
    knows_units: ClassVar[bool] = True
    uses_delta: ClassVar[bool] = True
    chooses_number: ClassVar[bool] = True
    makes_synopsis: ClassVar[bool] = True
    preference: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid.diam1**2 >= _LARGEST_PRODUCT:
            raise UsageError("the grid is too fine for exact residuals: use fewer columns.")
        if (self.root_scale is not None) != is_total_private(self.neighbours, self.unit):
            raise ParameterError(
                "root_scale", "given where the number of records is private", self.root_scale
            )
        self.test.cost(self.neighbours, self.unit)
        if self.root_scale is not None:
            positive_finite("root_scale", self.root_scale)
        for name in ("count_scale", "norm_scale", "sum_scale"):
            positive_finite(name, getattr(self, name))
        if self.mean_scale is not None:
            positive_finite("mean_scale", self.mean_scale)
        most_dimensions = self.grid.n_features
        whole_number("n_steps", self.n_steps, at_least=1, at_most=MOST_ITERATIONS)
        whole_number("threshold", self.threshold, at_least=0, at_most=LARGEST_WHOLE)
        if self.most_threshold is not None:
            whole_number("most_threshold", self.most_threshold, at_least=0, at_most=LARGEST_WHOLE)
        whole_number("first_cell", self.first_cell, at_least=1, at_most=LARGEST_WHOLE)
        whole_number("least_cell", self.least_cell, at_least=1, at_most=LARGEST_WHOLE)
        whole_number("n_dimensions", self.n_dimensions, at_least=1, at_most=most_dimensions)
        non_negative_finite("delta_spent", self.delta_spent)
        if self.fewest is not None:
            check_range(self.fewest, self.n_clusters)

    @classmethod
    def for_terms(cls, terms: Terms) -> Synopsis:
        """Return the mechanism that costs at most eps, and delta where that helps."""
        return cls.calibrate(
            terms.eps,
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            neighbours=terms.neighbours,
            delta=terms.delta,
            unit=terms.unit,
            fewest=terms.fewest,
            n_records=terms.n_records,
        )

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours,
        delta: Decimal = Decimal(0),
        unit: Unit = ROW,
        fewest: int | None = None,
        n_records: int | None = None,
    ) -> Synopsis:
        """Return the mechanism that costs at most ``eps``, and ``delta`` where that helps.

        ``n_records`` is their number where it is public.
        """
        steps = lloyd_steps(
            grid.n_features,
            float(eps),
            changed=neighbours.changed_records,
            members=None if n_records is None else members(n_records, n_clusters),
            has_delta=delta > 0,
        )
        shape = replace(layout(grid.n_features), n_steps=steps)
        budget = _Budget.of(eps, shape, private_m=is_total_private(neighbours, unit))
        changed = unit.changed(neighbours)
        test = calibrate_test(
            budget.tree,
            decay=shape.decay,
            floor=shape.floor,
            levels=shape.levels,
            neighbours=neighbours,
            unit=unit,
        )
        count_scale = smallest_scale(changed, float_below(budget.counts))
        mean_scale = None
        if budget.means is not None:
            mean_scale = smallest_scale(changed, float_below(budget.means))
        dimensions = cell_dimensions(grid.n_features)
        sum_scale, spent = _sum_noise(budget, shape, changed, grid.n_features, delta)
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=neighbours,
            root_scale=None
            if budget.root is None
            else smallest_scale(unit.shares, float_below(budget.root)),
            tree_scale=test.scale,
            decay=test.decay,
            floor=test.floor,
            levels=test.levels,
            threshold=_whole(shape.threshold * count_scale),
            most_threshold=None
            if mean_scale is None
            else _whole(_MEAN_THRESHOLD * _MEAN_REACH * dimensions * mean_scale),
            first_cell=_whole(shape.first_cell * changed / float(eps)),
            least_cell=_whole(shape.least_cell * changed / float(eps)),
            count_scale=count_scale,
            mean_scale=mean_scale,
            n_steps=shape.n_steps,
            norm_scale=smallest_scale(changed, float_below(budget.norms)),
            sum_scale=sum_scale,
            delta_spent=spent,
            n_dimensions=dimensions,
            fewest=fewest,
            unit=unit,
        )

    @property
    def proof(self) -> Proof:
        """The sum of the parts, the tree's being certified."""
        return "synopsis"

    @property
    def delta(self) -> float:
        """What Gaussian noise needs beyond eps; 0 where all noise is Laplace."""
        return self.delta_spent

    @property
    def test(self) -> TreeTest:
        """When a cell is split."""
        return TreeTest(self.tree_scale, self.decay, self.floor, self.levels)

    @property
    def step_noise(self) -> refine.StepNoise:
        """The noise of a Lloyd step."""
        shape = layout(self.grid.n_features)
        return refine.StepNoise(
            self.norm_scale,
            self.sum_scale,
            gaussian=self.delta_spent > 0,
            bias=shape.bias,
            skew=CATEGORIES_SKEW if isinstance(self.grid, ProductGrid) else shape.skew,
            stretch=shape.stretch,
        )

    def schedule(self) -> Iterator[Step]:
        """Return the parts in the order in which they are asked for."""
        if self.root_scale is not None:
            yield count_step(self.root_scale, self.neighbours, self.unit)
        yield tree_step(self.test, self.neighbours, self.unit)
        yield cells_step(self.count_scale, self.neighbours, self.unit)
        if self.mean_scale is not None:
            yield places_step(self.mean_scale, self.neighbours, self.unit)
        for _ in range(self.n_steps):
            yield from self.lloyd_schedule()

    def lloyd_schedule(self) -> Iterator[Step]:
        """Return the parts of one Lloyd step."""
        yield norms_step(self.norm_scale, self.neighbours, self.unit)
        gaussian = self.delta_spent > 0
        yield residuals_step(self.sum_scale, self.neighbours, self.unit, gaussian=gaussian)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of every part."""
        per = self.unit.per
        found = [
            Noise("cell-test", self.tree_scale, RECORDS, per=per),
            Noise("cell-count", self.count_scale, RECORDS, per=per),
            Noise("residual-norm-bin", self.norm_scale, RECORDS, per=per),
            Noise(
                "residual-sum-coordinate",
                self.sum_scale,
                CLIP_RADII,
                "discrete-gaussian" if self.delta_spent > 0 else "discrete-laplace",
                per=per,
            ),
        ]
        if self.mean_scale is not None:
            found.insert(2, Noise("cell-place", self.mean_scale, CLIP_RADII, per=per))
        if self.root_scale is not None:
            found.insert(0, Noise("record-count", self.root_scale, RECORDS, per=per))
        return tuple(found)

    def parameters(self) -> dict[str, Any]:
        """Return noise and layout."""
        names = (
            "root_scale", "tree_scale", "decay", "floor", "levels", "threshold", "most_threshold",
            "first_cell", "least_cell", "count_scale", "mean_scale", "n_steps", "norm_scale",
            "sum_scale", "delta_spent", "n_dimensions", "fewest",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def _predicted_error(self, n_shares: int) -> float:
        """Clusters that stand out of the noise of the cells are found.

        Their centers move by the noise of a sum, cut to an eighth of the domain.
        """
        size = members(n_shares, self.n_clusters)
        half = max(1.0, self.grid.diam1 / max(1, self.grid.n_features) / 2.0)
        radius = _CUT * self.grid.n_features * 2.0
        unseen = _STANDS_OUT * self.count_scale / size
        return (self._noise_share(size) * half * radius) ** 2 + unseen**2

    def audit_parts(self, times: float) -> tuple[AuditPart, ...]:
        """Return the tree, the counts, the places and a Lloyd step."""
        from dpkv.mechanisms.synopsis.parts import parts_of  # noqa: PLC0415 (it needs this module)

        return parts_of(self, times)

    # -- running -----------------------------------------------------------------------------------

    def run(self, ask: Ask) -> Outcome:
        """Ask for cells, cluster them, and move the centers by private Lloyd steps."""
        cells = self.private_cells(ask)
        number, curve = self.n_clusters, None
        if self.fewest is not None:
            curve = potential_curve(cells, number, ask.coins)
            number = choose_number(curve, self.n_dimensions, self.fewest)
        found = weighted_points(cells, number)
        heads = cluster(found, number, ask.coins)
        estimate = opening_estimate(found, heads, cells, self.grid)
        for step in range(self.n_steps):
            if step == 0 and cells.space.matrix is not None:
                clusters = Clusters(np.rint(heads).astype(np.int64), self.grid, cells.space)
            else:
                clusters = Clusters(estimate.centers, self.grid)
            estimate = self.lloyd_step(ask, clusters, estimate)
        edges = refine.bin_edges(self.grid, squared=self.step_noise.gaussian)
        total = self.public_shares(ask.public_size)
        told = estimate_clusters(cells, estimate, self.step_noise, edges, total)
        share = self.unit.counted(1.0)
        curve = None if curve is None else curve * share
        return Outcome(estimate.centers, cells, told.worth(share), curve)

    def number_for(self, curve: Float64s) -> int | None:
        """Return how many centers it takes by such a curve; None where it does not choose."""
        if self.fewest is None:
            return None
        return choose_number(curve, self.n_dimensions, self.fewest)

    def private_cells(self, ask: Ask) -> PrivateCells:
        """Return the private cells."""
        n_records = self._number_of(ask)
        one_row_each = self.unit.kind == "person" and self.unit.shares == 1  # maybe a mean of rows
        space = public_map(self.grid, self.n_dimensions, has_means=one_row_each)
        untested = first_levels(self._first_cells(n_records))
        tree = ask(CellSplits(space, self.test, untested, self._threshold_for(n_records)))
        counts = ask(CellCounts(space, tree, self.count_scale))
        places = None
        if self.mean_scale is not None:
            places = ask(CellPlaces(space, tree, self._reach, self.mean_scale))
        return PrivateCells(space, tree, counts, places, *self.cell_scales)

    def lloyd_step(self, ask: Ask, clusters: Clusters, before: refine.Estimate) -> refine.Estimate:
        """Return the centers after one private Lloyd step."""
        return refine.lloyd_step(ask, clusters, before, self.step_noise, self.grid)

    def _number_of(self, ask: Ask) -> float:
        """Return what all records weigh where that is public, and with noise where it is not."""
        if self.root_scale is not None:
            return max(1.0, float(ask(RecordCount(self.root_scale))[0]))
        assert ask.public_size is not None
        return float(ask.public_size * self.unit.shares)

    def _first_cells(self, n_records: float) -> float:
        """Return how many cells the public first grid is to have for about so many records."""
        shape, k = layout(self.grid.n_features), self.n_clusters
        affordable = (n_records / (k * self.least_cell)) ** shape.growth
        a_cluster = min(max(affordable, shape.fewest_cells), shape.cells)
        return max(n_records / self.first_cell, a_cluster * k)

    def _threshold_for(self, n_records: float) -> int:
        """Return the threshold of the tests for about so many records."""
        if self.most_threshold is None:
            return self.threshold
        share = math.floor(n_records / (_LEAVES_A_CLUSTER * self.n_clusters))
        return max(self.threshold, min(self.most_threshold, share))

    @property
    def _reach(self) -> int:
        """The L1 norm that places in a cell are cut to."""
        return int(_MEAN_REACH * PLACE_UNIT) * self.n_dimensions

    @property
    def cell_scales(self) -> tuple[float, float]:
        """The noise of a cell's count, and of its places (0 where there are none)."""
        if self.mean_scale is None:
            return self.count_scale, 0.0
        return self.count_scale, scale_for(self.mean_scale, self._reach)

    @property
    def untold(self) -> str | None:
        """Cells and Lloyd steps tell all."""
        return None

    def sizes_in(self, cells: PrivateCells, centers: Integers, n_records: int | None) -> Float64s:
        """Return the clusters' sizes again, in records, from cells that were published."""
        total = self.public_shares(n_records)
        sizes = sizes_of(cells, share_cells(cells, centers), len(centers), total)[0]
        return sizes * self.unit.counted(1.0)

    def find_fault_in(self, cells: PrivateCells) -> str | None:
        """Compare noise and layout with its own."""
        if (cells.count_scale, cells.offset_scale) != self.cell_scales:
            return "the synopsis's noise is not the mechanism's"
        space, all_columns = cells.space, self.n_dimensions == self.grid.n_features
        if (
            (cells.offsets is None) != (self.mean_scale is None)
            or space.n_dimensions != self.n_dimensions
            or (space.matrix is None) != all_columns
        ):
            return "the synopsis is not what the mechanism makes"
        return None


def opening_estimate(
    found: WeightedPoints, heads: Float64s, cells: PrivateCells, grid: Grid
) -> refine.Estimate:
    """Return the centers of a synopsis in full dimension, and the variance of their coordinates.

    Two errors are known of: the noise of the counts, by how far cells are from their center, and
    where in its cell a record is. What a projection leaves out is as wide as what it shows.
    """
    labels, distances, _ = assign_nearest(found.points, heads)
    k, p, d = len(heads), cells.space.n_dimensions, grid.n_features
    counts = np.bincount(labels, found.weights, k)
    safe = np.maximum(counts, 1.0)
    by_noise = np.bincount(labels, found.doubt * distances, k)
    by_place = np.bincount(labels, found.weights**2 * found.spread, k)
    variance = (by_noise + by_place) / p / safe**2
    if cells.space.matrix is not None:
        shown = float((counts @ heads**2).sum()) / max(float(counts.sum()), 1.0) / p
        variance = variance * p / d + shown * (d - p) / d
    centers = grid.clip(np.rint(cells.space.lift(heads)).astype(np.int64))
    return refine.Estimate(
        centers,
        np.asarray(counts, dtype=np.float64),
        np.asarray(np.bincount(labels, found.doubt, k) + cells.count_scale**2),
        np.maximum(variance, 1e-6),
    )


@dataclass(frozen=True)
class _Budget:
    """The parts of eps; None where nothing is spent. ``norms`` and ``sums`` are a step's."""

    root: Decimal | None
    tree: Decimal
    counts: Decimal
    means: Decimal | None
    norms: Decimal
    sums: Decimal
    all_sums: Decimal

    @classmethod
    def of(cls, eps: Decimal, shape: Layout, *, private_m: bool) -> _Budget:
        """Share eps out; what a part does not need goes to the counts."""
        shares = {
            "root": shape.root if private_m else 0.0,
            "tree": shape.tree,
            "counts": shape.counts + (0.0 if private_m else shape.root),
            "means": shape.means,
            "norms": shape.steps * shape.norm_share,
            "sums": shape.steps * (1.0 - shape.norm_share),
        }
        used = {name: share for name, share in shares.items() if share > 0.0}
        parts = dict(zip(used, Split.of(eps, *used.values()).parts, strict=True))
        a_step = {
            name: Split.of(parts[name], 1.0, times=shape.n_steps).parts[0]
            for name in ("norms", "sums")
        }
        return cls(
            parts.get("root"),
            parts["tree"],
            parts["counts"],
            parts.get("means"),
            a_step["norms"],
            a_step["sums"],
            parts["sums"],
        )


def _sum_noise(
    budget: _Budget, shape: Layout, changed: int, n_features: int, delta: Decimal
) -> tuple[float, float]:
    """Return the scale of the sums' noise, and the delta it needs.

    Cut to a radius in L2, a residual is sqrt(d) times longer in L1 than in L2 at most, and usually
    nearly so: Gaussian noise is taken where it is smaller than Laplace noise by that comparison.
    """
    laplace = smallest_scale(changed, float_below(budget.sums))
    chance = float_below(delta) if delta > 0 else 0.0
    if chance == 0.0:
        return laplace, 0.0
    rho = largest_rho(budget.all_sums, chance) / shape.n_steps
    gaussian = smallest_gaussian_scale(changed**2, rho * (1.0 - 1e-12))
    if gaussian**2 < 2.0 * laplace**2 * n_features:
        return _with_few_digits(gaussian), chance
    return laplace, 0.0


def _with_few_digits(scale: float) -> float:
    """Return a scale rounded up: what was searched for in floats is the same on every machine."""
    return float(upward(10).create_decimal(Decimal(scale)))


def _whole(value: float) -> int:
    """Return the next whole number, at least 1."""
    return max(1, math.ceil(min(value, 2.0**62)))

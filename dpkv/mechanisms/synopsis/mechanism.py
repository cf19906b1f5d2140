"""The synopsis as a mechanism: private cells, free clustering, private Lloyd steps.

    number of records    noisy where it is private             root_scale
    core                 noisy histograms: where records are   core_scale, reach_scale
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
from dpkv.accounting.exact import float_below
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
from dpkv.mechanisms.synopsis.budget import Budget, round_up, sum_noise
from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.clustering import cluster
from dpkv.mechanisms.synopsis.core import find_core, may_find_core, share_of
from dpkv.mechanisms.synopsis.estimates import estimate_clusters, share_cells, sizes_of
from dpkv.mechanisms.synopsis.number import choose_number, potential_curve
from dpkv.mechanisms.synopsis.settings import (
    CATEGORIES_SKEW,
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
    PublicMap,
    RecordCount,
    TreeTest,
    calibrate_test,
    cells_step,
    core_columns_step,
    core_reach_step,
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
    core_scale: float | None = None
    reach_scale: float | None = None
    """None where it is not asked which part of the domain has records, and cells cover it all."""

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
        for name in ("mean_scale", "core_scale", "reach_scale"):
            if getattr(self, name) is not None:
                positive_finite(name, getattr(self, name))
        if (self.core_scale is None) != (self.reach_scale is None):
            raise ParameterError("reach_scale", "given where core_scale is", self.reach_scale)
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
        changed, dimensions = unit.changed(neighbours), cell_dimensions(grid.n_features)
        private_m = is_total_private(neighbours, unit)
        shares = None if private_m or n_records is None else n_records * unit.shares
        core = may_find_core(grid, changed / (shape.reach * float(eps)), shares)
        budget = Budget.of(eps, shape, private_m=private_m, core=core)
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
        core_scale = reach_scale = None
        if budget.core is not None and budget.reach is not None:
            core_scale = smallest_scale(changed * dimensions, float_below(budget.core))
            reach_scale = smallest_scale(changed, float_below(budget.reach))
        sum_scale, spent = sum_noise(budget, shape, changed, grid.n_features, delta)
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
            threshold=round_up(shape.threshold * count_scale),
            most_threshold=None
            if mean_scale is None
            else round_up(_MEAN_THRESHOLD * _MEAN_REACH * dimensions * mean_scale),
            first_cell=round_up(shape.first_cell * changed / float(eps)),
            least_cell=round_up(shape.least_cell * changed / float(eps)),
            count_scale=count_scale,
            mean_scale=mean_scale,
            n_steps=shape.n_steps,
            norm_scale=smallest_scale(changed, float_below(budget.norms)),
            sum_scale=sum_scale,
            delta_spent=spent,
            n_dimensions=dimensions,
            fewest=fewest,
            core_scale=core_scale,
            reach_scale=reach_scale,
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
        if self.core_scale is not None and self.reach_scale is not None:
            columns = self.core_scale, self.n_dimensions
            yield core_columns_step(*columns, self.neighbours, self.unit)
            yield core_reach_step(self.reach_scale, self.neighbours, self.unit)
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
        if self.core_scale is not None and self.reach_scale is not None:
            found.insert(0, Noise("core-column-bin", self.core_scale, RECORDS, per=per))
            found.insert(1, Noise("core-reach-bin", self.reach_scale, RECORDS, per=per))
        if self.root_scale is not None:
            found.insert(0, Noise("record-count", self.root_scale, RECORDS, per=per))
        return tuple(found)

    def parameters(self) -> dict[str, Any]:
        """Return noise and layout; what is about a core only where one is looked for."""
        names = (
            "root_scale", "tree_scale", "decay", "floor", "levels", "threshold", "most_threshold",
            "first_cell", "least_cell", "count_scale", "mean_scale", "n_steps", "norm_scale",
            "sum_scale", "delta_spent", "n_dimensions", "fewest",
        )  # fmt: skip
        core = () if self.core_scale is None else ("core_scale", "reach_scale")
        return {name: getattr(self, name) for name in (*names, *core)}

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
        estimate = replace(
            opening_estimate(found, heads, cells, self.grid),
            core=share_of(cells.space, self._space),
        )
        for step in range(self.n_steps):
            if step == 0 and cells.space.matrix is not None:
                clusters = Clusters(np.rint(heads).astype(np.int64), self.grid, cells.space)
            else:
                clusters = Clusters(estimate.centers, self.grid)
            estimate = self.lloyd_step(ask, clusters, estimate)
        noise = self.step_noise
        edges = refine.bin_edges(self.grid, squared=noise.gaussian, core=estimate.core)
        total = self.public_shares(ask.public_size)
        told = estimate_clusters(cells, estimate, noise, edges, total)
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
        n_records, space = self._number_of(ask), self._space
        if self.core_scale is not None and self.reach_scale is not None:
            space = find_core(ask, space, n_records, self.core_scale, self.reach_scale)
        untested = first_levels(self._first_cells(n_records))
        tree = ask(CellSplits(space, self.test, untested, self._threshold_for(n_records)))
        counts = ask(CellCounts(space, tree, self.count_scale))
        places = None
        if self.mean_scale is not None:
            places = ask(CellPlaces(space, tree, self._reach, self.mean_scale))
        return PrivateCells(space, tree, counts, places, *self.cell_scales)

    @property
    def _space(self) -> PublicMap:
        """Where cells are made in: all of it."""
        one_row_each = self.unit.kind == "person" and self.unit.shares == 1  # maybe a mean of rows
        return public_map(self.grid, self.n_dimensions, has_means=one_row_each)

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
        affordable = math.pow(n_records / (k * self.least_cell), shape.growth)
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
            or (space.is_core and self.core_scale is None)
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

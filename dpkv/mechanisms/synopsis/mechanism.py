"""The synopsis as a mechanism: private cells, free clustering, private Lloyd steps.

    number of records    noisy where it is private             root_scale
    cells                a tree grown by noisy tests           tree_scale, decay, floor, levels
    counts               of the leaves, noisy                  count_scale
    places               of the records in their leaves        mean_scale
    clustering           sk-means++, Lloyd, swaps              free
    Lloyd steps          on the records, noisy                 norm_scale, sum_scale, n_steps

Proof "synopsis". The parts are composed one after another, each with what was released before in
hand, and their prices add up. With changed = 1 for add/remove and 2 for replace-one:

- The number of records changes by 1 under add/remove: 1 / root_scale. Under replace-one it is
  public and nothing is spent on it.
- The tree costs what ``certificate.py`` proves. How deep its public first levels go, and the
  threshold, are decided by the number of records, noisy or public.
- A record is in one leaf. Counts change by ``changed`` in L1: changed / count_scale.
- A record's place in its leaf has L1 norm at most ``reach``, whatever the leaf (rounded toward
  zero). Under replace-one two leaves change by that, or one by twice that: changed reach over the
  noise of scale mean_scale times reach, which is changed / mean_scale.
- A Lloyd step costs what ``refine.py`` proves.
- The map to cells depends on public numbers alone. Thresholds, mass handed down, seeding, swaps,
  radii and blending use what is released already.

Counts, sums and scores are integers, every sum is exact whatever the order of the records, and all
noise is discrete: no probability passes through a float. Under add/remove nothing else depends on
the number of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.calibration.concentrated import largest_rho, smallest_gaussian_scale
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.kernels import Float64s, Integers, assign_nearest
from dpkv.mechanisms.mechanism import (
    RECORDS,
    Mechanism,
    Neighbours,
    Noise,
    Proof,
    Step,
    gaussian_step,
    laplace_step,
)
from dpkv.mechanisms.split import Split
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.certificate import TreeTest, calibrated_test
from dpkv.mechanisms.synopsis.clustering import cluster
from dpkv.mechanisms.synopsis.passes import UNIT
from dpkv.mechanisms.synopsis.projection import PublicMap, public_map
from dpkv.mechanisms.synopsis.settings import Layout, cell_dimensions, layout
from dpkv.mechanisms.synopsis.tree import first_levels, grow
from dpkv.noise import Entropy, smallest_scale
from dpkv.validation import float_below, non_negative_finite, positive_finite, whole_number

_CELLS_A_CLUSTER, _LEAVES_A_CLUSTER = 6, 16
_MEAN_THRESHOLD = 10.0  # scales of a place's noise: leaves with fewer records have no use for it
_LARGEST_PRODUCT = 2**62  # of two norms: beyond it int64 would overflow
_MEAN_REACH = 0.5  # of the dimensions: the L1 norm that places are cut to, in half sides


@dataclass(frozen=True)
class Synopsis(Mechanism):
    """Private adaptive cells, clustered at will, and private Lloyd steps."""

    root_scale: float | None
    """None where the number of records is public."""
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

    name: ClassVar[str] = "synopsis"
    title: ClassVar[str] = "private synopsis: adaptive cells, sk-means++, private Lloyd steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid.diam1**2 >= _LARGEST_PRODUCT:
            raise UsageError("the grid is too fine for exact residuals: use fewer columns.")
        if (self.root_scale is not None) != (self.neighbours is Neighbours.ADD_REMOVE):
            raise ParameterError("root_scale", "given for 'add-remove' alone", self.root_scale)
        self.test.cost(self.neighbours)
        if self.root_scale is not None:
            positive_finite("root_scale", self.root_scale)
        for name in ("count_scale", "norm_scale", "sum_scale"):
            positive_finite(name, getattr(self, name))
        if self.mean_scale is not None:
            positive_finite("mean_scale", self.mean_scale)
        whole_number("n_steps", self.n_steps, at_least=1)
        whole_number("threshold", self.threshold, at_least=0)
        if self.most_threshold is not None:
            whole_number("most_threshold", self.most_threshold, at_least=0)
        whole_number("first_cell", self.first_cell, at_least=1)
        whole_number("least_cell", self.least_cell, at_least=1)
        whole_number("n_dimensions", self.n_dimensions, at_least=1)
        non_negative_finite("delta_spent", self.delta_spent)

    @classmethod
    def calibrated(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours,
        delta: Decimal = Decimal(0),
    ) -> Synopsis:
        """Return the mechanism that costs at most ``eps``, and ``delta`` where that helps."""
        shape = layout(grid.n_features)
        private_m = neighbours is Neighbours.ADD_REMOVE
        budget = _Budget.of(eps, shape, private_m=private_m)
        changed = neighbours.changed_records
        test = calibrated_test(
            budget.tree,
            decay=shape.decay,
            floor=shape.floor,
            levels=shape.levels,
            neighbours=neighbours,
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
            root_scale=None if budget.root is None else smallest_scale(1, float_below(budget.root)),
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
            skew=shape.skew,
            stretch=shape.stretch,
        )

    def steps(self) -> tuple[Step, ...]:
        """Return the parts in the order in which they are run."""
        changed = self.neighbours.changed_records
        parts = [Step("tree of cells", self.test.cost(self.neighbours))]
        if self.root_scale is not None:
            parts.insert(0, laplace_step("number of records", 1, self.root_scale))
        parts.append(laplace_step("counts of the cells", changed, self.count_scale))
        if self.mean_scale is not None:
            parts.append(laplace_step("places in the cells", changed, self.mean_scale))
        norms = "a Lloyd step: histograms of residual norms"
        parts.append(laplace_step(norms, changed, self.norm_scale, self.n_steps))
        sums = "a Lloyd step: sums of residuals"
        if self.delta_spent > 0:
            parts.append(gaussian_step(sums, changed**2, self.sum_scale, self.n_steps))
        else:
            parts.append(laplace_step(sums, changed, self.sum_scale, self.n_steps))
        return tuple(parts)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of every part."""
        found = [
            Noise("each test of a cell", self.tree_scale, RECORDS),
            Noise("each count of a cell", self.count_scale, RECORDS),
            Noise("each bin of residual norms", self.norm_scale, RECORDS),
            Noise(
                "each coordinate of each sum of residuals",
                self.sum_scale,
                "clip radii",
                "discrete Gaussian" if self.delta_spent > 0 else "discrete Laplace",
            ),
        ]
        if self.mean_scale is not None:
            found.insert(2, Noise("each place in a cell", self.mean_scale, "clip radii"))
        if self.root_scale is not None:
            found.insert(0, Noise("the number of records", self.root_scale, RECORDS))
        return tuple(found)

    def parameters(self) -> dict[str, Any]:
        """Return noise and layout."""
        names = (
            "root_scale", "tree_scale", "decay", "floor", "levels", "threshold", "most_threshold",
            "first_cell", "least_cell", "count_scale", "mean_scale", "n_steps", "norm_scale",
            "sum_scale", "delta_spent", "n_dimensions",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    # -- running -----------------------------------------------------------------------------------

    def _run(self, points: Integers, entropy: Entropy) -> Integers:
        return self._run_with_cells(points, entropy)[0]

    def run_with_cells(self, points: Integers, entropy: Entropy) -> tuple[Integers, PrivateCells]:
        """Return the centers, and the private cells they came from, at the price of the centers."""
        self._check_points(points)
        return self._run_with_cells(points, entropy)

    def _run_with_cells(self, points: Integers, entropy: Entropy) -> tuple[Integers, PrivateCells]:
        cells, mapped = self.private_cells(points, entropy)
        space = cells.space
        found = weighted_points(cells, self.n_clusters)
        heads = cluster(found, self.n_clusters, entropy.generator())
        estimate = opening_estimate(found, heads, cells, self.grid)
        for step in range(self.n_steps):
            if step == 0 and space.matrix is not None:
                labels = refine.labels_of(mapped, np.rint(heads).astype(np.int64))
            else:
                labels = refine.labels_of(points, estimate.centers)
            estimate = self.lloyd_step(points, labels, estimate, entropy)
        return estimate.centers, cells

    def private_cells(self, points: Integers, entropy: Entropy) -> tuple[PrivateCells, Integers]:
        """Return the private cells, and the records mapped to where cells are (which stay)."""
        n_records = self._number_of(points, entropy)
        space = public_map(self.grid, self.n_dimensions)
        mapped = space.apply(points)
        return self._cells(mapped, space, n_records, entropy), mapped

    def lloyd_step(
        self, points: Integers, labels: Integers, before: refine.Estimate, entropy: Entropy
    ) -> refine.Estimate:
        """Return the centers after one private Lloyd step."""
        return refine.lloyd_step(points, labels, before, self.step_noise, self.grid, entropy)

    def _number_of(self, points: Integers, entropy: Entropy) -> float:
        """Return the number of records where that is public, and a noisy one where it is not."""
        if self.root_scale is None:
            return float(len(points))
        noisy = entropy.add_laplace(np.asarray([len(points)]), self.root_scale)
        return max(1.0, float(noisy[0]))

    def _first_cells(self, n_records: float) -> float:
        """Return how many cells the public first grid is to have for about so many records."""
        needed = min(_CELLS_A_CLUSTER * self.n_clusters, n_records / self.least_cell)
        return max(n_records / self.first_cell, needed)

    def _threshold_for(self, n_records: float) -> int:
        """Return the threshold of the tests for about so many records."""
        if self.most_threshold is None:
            return self.threshold
        share = math.floor(n_records / (_LEAVES_A_CLUSTER * self.n_clusters))
        return max(self.threshold, min(self.most_threshold, share))

    def _cells(
        self, mapped: Integers, space: PublicMap, n_records: float, entropy: Entropy
    ) -> PrivateCells:
        grown = grow(
            mapped,
            space,
            self.test,
            untested=first_levels(self._first_cells(n_records)),
            threshold=self._threshold_for(n_records),
            entropy=entropy,
        )
        counts = entropy.add_laplace(grown.leaf_counts(), self.count_scale)
        offsets = None
        if self.mean_scale is not None:
            offsets = entropy.add_laplace(grown.leaf_offsets(self._reach), self.cell_scales[1])
        return PrivateCells(space, grown.tree, counts, offsets, *self.cell_scales)

    @property
    def _reach(self) -> int:
        """The L1 norm that places in a cell are cut to."""
        return int(_MEAN_REACH * UNIT) * self.n_dimensions

    @property
    def cell_scales(self) -> tuple[float, float]:
        """The noise of a cell's count, and of its places (0 where there are none)."""
        if self.mean_scale is None:
            return self.count_scale, 0.0
        return self.count_scale, refine.scale_for(self.mean_scale, self._reach)


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
    by_noise = 2.0 * cells.count_scale**2 * np.bincount(labels, distances, k)
    by_place = np.bincount(labels, found.weights**2 * found.spread, k)
    variance = (by_noise + by_place) / p / safe**2
    if cells.space.matrix is not None:
        shown = float((counts @ heads**2).sum()) / max(float(counts.sum()), 1.0) / p
        variance = variance * p / d + shown * (d - p) / d
    centers = grid.clip(np.rint(cells.space.lift(heads)).astype(np.int64))
    n_cells = np.maximum(np.bincount(labels, minlength=k), 1)
    return refine.Estimate(
        centers,
        np.asarray(counts, dtype=np.float64),
        2.0 * cells.count_scale**2 * n_cells,
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
    return float(Context(prec=10, rounding=ROUND_CEILING).create_decimal(Decimal(scale)))


def _whole(value: float) -> int:
    """Return the next whole number, at least 1."""
    return max(1, math.ceil(min(value, 2.0**62)))

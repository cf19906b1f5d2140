"""How eps is shared out among the parts of a synopsis, and what noise its sums get for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from dpkv.accounting.exact import float_below, upward
from dpkv.accounting.split import Split
from dpkv.accounting.zcdp import largest_rho, smallest_gaussian_scale
from dpkv.mechanisms.synopsis.settings import Layout
from dpkv.noise import smallest_scale


@dataclass(frozen=True)
class Budget:
    """The parts of eps; None where nothing is spent. ``norms`` and ``sums`` are a step's."""

    root: Decimal | None
    core: Decimal | None
    reach: Decimal | None
    tree: Decimal
    counts: Decimal
    means: Decimal | None
    norms: Decimal
    sums: Decimal
    all_sums: Decimal

    @classmethod
    def of(cls, eps: Decimal, shape: Layout, *, private_m: bool, core: bool) -> Budget:
        """Share eps out; what m does not need goes to the counts, the core's share to all."""
        shares = {
            "root": shape.root if private_m else 0.0,
            "core": shape.core if core else 0.0,
            "reach": shape.reach if core else 0.0,
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
            parts.get("core"),
            parts.get("reach"),
            parts["tree"],
            parts["counts"],
            parts.get("means"),
            a_step["norms"],
            a_step["sums"],
            parts["sums"],
        )


def sum_noise(
    budget: Budget, shape: Layout, changed: int, n_features: int, delta: Decimal
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


def round_up(value: float) -> int:
    """Return the next whole number, at least 1."""
    return max(1, math.ceil(min(value, 2.0**62)))

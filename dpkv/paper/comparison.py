"""Table 1 (comparison), row by row: formulas, and their values for whatever numbers are known."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpkv.paper import comparison_formulas as formulas
from dpkv.seeding import approximation_guarantees as guarantees
from dpkv.theorems import DISTRIBUTED, EXPECTED_POTENTIAL, MINIBATCHES, STREAMS

Formula = Callable[..., float]


@dataclass(frozen=True)
class Facts:
    """The numbers the formulas ask for; None where unknown."""

    n_clusters: int | None = None
    n_records: int | None = None
    n_features: int | None = None
    n_nodes: int | None = None
    smallest_node: int | None = None
    optimum: float | None = None
    single_potential: float | None = None
    node_spread: float | None = None
    probe_spread: float | None = None
    variance: float | None = None
    stretching: float | None = None
    varsigma: float | None = None
    oversampling: float | None = None
    coreset_eps: float | None = None
    eps: float | None = None
    radius: float | None = None
    separability: float | None = None

    @property
    def known(self) -> dict[str, Any]:
        """The numbers that are not None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class WrittenFormula:
    """One formula: as written, as computed, and whether it is only an order of magnitude."""

    text: str
    formula: Formula | None = None
    order: bool = False

    def missing(self, facts: Facts) -> tuple[str, ...]:
        """Return the numbers that are needed and not known."""
        return tuple(name for name in self._needs() if name not in facts.known)

    def value(self, facts: Facts) -> float | None:
        """Return the number, or None for words and where something is missing."""
        if self.formula is None or self.missing(facts):
            return None
        try:
            return self.formula(**{name: facts.known[name] for name in self._needs()})
        except OverflowError:
            return math.inf

    def _needs(self) -> Mapping[str, Any]:
        return {} if self.formula is None else inspect.signature(self.formula).parameters


@dataclass(frozen=True)
class ApproximationGuarantee:
    """What a theorem promises of the expected potential."""

    algorithm: str
    theorem: str
    entry: WrittenFormula


@dataclass(frozen=True)
class Comparison:
    """A row of Table 1 (comparison)."""

    label: str
    rival: str
    compared: str
    theirs: WrittenFormula
    ours: WrittenFormula

    @property
    def reference(self) -> str:
        """Whose algorithm the rival is."""
        return _REFERENCES[self.rival]


GUARANTEES = (
    ApproximationGuarantee(
        "k-means++",
        EXPECTED_POTENTIAL,
        WrittenFormula("(2+log k) 8 phi_opt", guarantees.kmeans_plusplus_guarantee),
    ),
    ApproximationGuarantee(
        "dk-means++, protected",
        DISTRIBUTED,
        WrittenFormula("(2+log k) (10 phi_opt + 6 phi_s^F)", guarantees.dk_protected_guarantee),
    ),
    ApproximationGuarantee(
        "dk-means++, private",
        DISTRIBUTED,
        WrittenFormula(
            "(2+log k) (10 phi_opt + 4 phi_s^F + 2 phi_var)", guarantees.dk_private_guarantee
        ),
    ),
    ApproximationGuarantee(
        "sk-means++, as proved",
        STREAMS,
        WrittenFormula("(2+log k) ((10+4 eta) phi_opt + 4 phi_s^probe)", guarantees.sk_guarantee),
    ),
    ApproximationGuarantee(
        "sk-means++, as printed",
        STREAMS,
        WrittenFormula(
            "(2+log k) ((8+4 eta) phi_opt + 2 phi_s^probe)", guarantees.printed_sk_guarantee
        ),
    ),
    ApproximationGuarantee(
        "ok-means++",
        MINIBATCHES,
        WrittenFormula("(2+log k) (4 + 32/varsigma^2) phi_opt", guarantees.ok_guarantee),
    ),
)
"""What follows from Theorem 1 (expected potential)."""

_DK_MESSAGES = WrittenFormula("O(n^2 k)", formulas.dk_communication, order=True)
_DK_POINTS = WrittenFormula("k", formulas.dk_points_shared)
_DK_GUARANTEE = WrittenFormula(
    "(2+log k) (10 phi_opt + 6 phi_s^F)", guarantees.dk_protected_guarantee
)
_KV_ORDER = WrittenFormula(
    "O(log k (phi_opt + m R^2/(eps + log m)^2))", formulas.kvariates_approximation, order=True
)
_NONE = WrittenFormula("none")
_PARALLEL, _CORESETS, _SHARP = "k-means||", "coresets", "k-means#"
_ONLINE, _AGGREGATE, _SUBSPACE = "on-line k-means", "sample-aggregate", "subspaces"
_REFERENCES = {
    _PARALLEL: "Bahmani, Moseley, Vattani, Kumar and Vassilvitskii 2012",
    _CORESETS: "Balcan, Ehrlich and Liang 2013",
    _SHARP: "Ailon, Jaiswal and Monteleoni 2009",
    _ONLINE: "Liberty, Sriharsha and Sviridenko 2014",
    _AGGREGATE: "Nissim, Raskhodnikova and Smith 2007",
    _SUBSPACE: "Wang, Wang and Singh 2015",
}
_APPROXIMATION = "approximation"

COMPARISONS = (
    Comparison(
        "1",
        _PARALLEL,
        "communication",
        WrittenFormula("O(n^2 l log phi_1)", formulas.parallel_communication, order=True),
        _DK_MESSAGES,
    ),
    Comparison(
        "2",
        _PARALLEL,
        "data to compute one centre",
        WrittenFormula("m", formulas.parallel_records_a_center),
        WrittenFormula("<= max_i m/m_i", formulas.dk_records_a_center),
    ),
    Comparison(
        "3",
        _PARALLEL,
        "data points shared",
        WrittenFormula("O(l log phi_1)", formulas.parallel_points_shared, order=True),
        _DK_POINTS,
    ),
    Comparison(
        "4",
        _PARALLEL,
        _APPROXIMATION,
        WrittenFormula("O(log k phi_opt)", formulas.parallel_approximation, order=True),
        _DK_GUARANTEE,
    ),
    Comparison(
        "I",
        _CORESETS,
        "communication",
        WrittenFormula("Omega(nkd/e^4 + n^2 k log nk)", formulas.coreset_communication, order=True),
        _DK_MESSAGES,
    ),
    Comparison(
        "II",
        _CORESETS,
        "data points shared",
        WrittenFormula("Omega(kd/e^4 + nk log nk)", formulas.coreset_points_shared, order=True),
        _DK_POINTS,
    ),
    Comparison(
        "III",
        _CORESETS,
        _APPROXIMATION,
        WrittenFormula("(2+log k) (1+e) 8 phi_opt", formulas.coreset_approximation),
        _DK_GUARANTEE,
    ),
    Comparison(
        "i",
        _SHARP,
        "time of the outer loop",
        WrittenFormula("identical"),
        WrittenFormula("identical"),
    ),
    Comparison(
        "ii",
        _SHARP,
        _APPROXIMATION,
        WrittenFormula("(2+log k) (1+eta) 32 phi_opt", formulas.sharp_approximation),
        WrittenFormula(
            "(2+log k) ((8+4 eta) phi_opt + 2 phi_s^probe)", guarantees.printed_sk_guarantee
        ),
    ),
    Comparison(
        "a", _ONLINE, "knowledge required", WrittenFormula("a lower bound of phi_opt"), _NONE
    ),
    Comparison(
        "b",
        _ONLINE,
        _APPROXIMATION,
        WrittenFormula("O(log m phi_opt)", formulas.online_facility_approximation, order=True),
        WrittenFormula("(2+log k) (4 + 32/varsigma^2) phi_opt", guarantees.ok_guarantee),
    ),
    Comparison("A", _AGGREGATE, "knowledge required", WrittenFormula("lambda(phi_opt)"), _NONE),
    Comparison(
        "B",
        _AGGREGATE,
        "noise sigma",
        WrittenFormula("O(lambda k R/eps)", formulas.sample_aggregate_noise, order=True),
        WrittenFormula("O(R/(eps + log m))", formulas.kvariates_noise, order=True),
    ),
    Comparison(
        "C",
        _AGGREGATE,
        _APPROXIMATION,
        WrittenFormula(
            "O*(phi_opt + m lambda^2 k R^2/eps^2)",
            formulas.sample_aggregate_approximation,
            order=True,
        ),
        _KV_ORDER,
    ),
    Comparison(
        "alpha",
        _SUBSPACE,
        "assumptions on phi_opt",
        WrittenFormula("several (separability, sizes of clusters, ...)"),
        _NONE,
    ),
    Comparison(
        "beta",
        _SUBSPACE,
        _APPROXIMATION,
        WrittenFormula(
            "O*(phi_opt + k m log(m) R^2/eps^2)", formulas.subspace_approximation, order=True
        ),
        _KV_ORDER,
    ),
)
"""The rows of Table 1 (comparison), in its order."""

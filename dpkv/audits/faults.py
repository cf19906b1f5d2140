"""Planted faults: what an audit must report, to show that it can see.

``dpkv audit --plant NAME`` audits a mechanism with one of these, and must end with exit code 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.accounting import Unit
from dpkv.domain import Box, Domain
from dpkv.errors import ParameterError
from dpkv.mechanisms import (
    Algorithm0,
    KVariates,
    Laplace,
    Lloyd,
    Mechanism,
    Neighbours,
    Published,
    Synopsis,
)
from dpkv.mechanisms.mechanism import Outcome
from dpkv.mechanisms.synopsis import refine
from dpkv.noise import Entropy, OperatingSystemEntropy
from dpkv.records.block import Block
from dpkv.records.questions import (
    Ask,
    ClusterCounts,
    Clusters,
    NormHistograms,
    RecordCount,
    TreeTest,
)
from dpkv.records.questions.question import Records
from dpkv.types import Int64s, Integers

_WIDE = 10
_ROWS_OF_A_PERSON = 6
PAPERS_EPS_TILDE = 19.0
"""What the paper's table prints for EuropeDiff at eps = 1, k = 2."""

FAULTS = {
    "half-noise": "the noise has half the scale that the certificate needs",
    "window-ratio": "windows are told apart by three times what the certificate allows",
    "no-smoothing": "gamma = 0: an outlier is picked for certain",
    "papers-eps-tilde": "eps~ = 19, as the paper prints for EuropeDiff",
    "float-noise": "floating-point Laplace noise instead of integers",
    "swapped-split": "DPLloyd's budget split is unpacked in the wrong order",
    "synopsis-sensitivity": "a synopsis counts a replaced record once instead of twice",
    "synopsis-radius": "a synopsis reads its clip radii from the records",
    "synopsis-decay": "a synopsis forgets that scores fall with depth",
    "synopsis-exact-count": "a synopsis takes its thresholds from the exact number of records",
    "extra-question": "DPLloyd asks one question more than it planned and priced",
    "weights-above-person": "the rows of a person weigh one person each, not one together",
}


@dataclass(frozen=True)
class Fault:
    """A faulty mechanism under the description of a sound one."""

    name: str
    mechanism: Mechanism
    """What is run; its claims are those of the sound mechanism."""
    entropy: type[Entropy] = OperatingSystemEntropy


class FloatEntropy(OperatingSystemEntropy):
    """Operating system picks, but noise that is a rounded real number and off the grid."""

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:
        """Return values plus floating-point Laplace noise: floats where integers belong."""
        noise = np.random.default_rng().laplace(0.0, scale, values.shape)
        return values + noise  # type: ignore[return-value]


def plant_fault(
    name: str, eps: Decimal, *, n_records: int, n_clusters: int, domain: Domain, gamma: float
) -> Fault:
    """Return the fault of that name, in the place of a mechanism calibrated for ``eps``."""
    if name not in FAULTS:
        raise ParameterError("plant", f"one of {', '.join(FAULTS)}", name)
    grid = domain.grid()
    sound = KVariates.calibrate(
        eps, n_records=n_records, n_clusters=n_clusters, grid=grid, gamma=gamma
    )
    if name in ("synopsis-exact-count", "extra-question"):
        return Fault(name, _question_faults(name, eps, n_clusters=n_clusters, domain=domain))
    if name.startswith("synopsis-") or name == "weights-above-person":
        return Fault(name, _faulty_synopsis(name, eps, n_clusters=n_clusters, domain=domain))
    if name in ("half-noise", "window-ratio"):
        return Fault(name, _tell_apart(sound, with_windows=name == "window-ratio"))
    if name in ("no-smoothing", "papers-eps-tilde"):
        noise = Published.calibrate(PAPERS_EPS_TILDE, n_clusters=n_clusters, grid=grid)
        return Fault(name, _drop_smoothing(sound) if name == "no-smoothing" else noise)
    if name == "float-noise":
        return Fault(name, sound, FloatEntropy)
    return Fault(name, _swap_in_wide(eps, n_clusters=n_clusters, domain=domain))


class _ExtraQuestion(Lloyd):
    """Once all is answered, it asks for the counts again."""

    def run(self, ask: Ask) -> Outcome:
        """Iterate, and look once more."""
        outcome = super().run(ask)
        ask(ClusterCounts(outcome.centers, self.count_scale))
        return outcome


class _ExactCount(RecordCount):
    """Asks for the number of records by its price, and answers without noise."""

    def answer(self, records: Records, entropy: Entropy) -> Integers:  # noqa: ARG002
        """Return the number itself."""
        return self.exact(records)

    def log_probability(self, records: Records, answer: Integers) -> float:
        """Return what an answer without noise has: certainty, or none."""
        return 0.0 if np.array_equal(answer, self.exact(records)) else -math.inf


class _ThresholdsFromTheCount(Synopsis):
    """How deep the tree starts, and its threshold, follow from the exact number of records."""

    def _number_of(self, ask: Ask) -> float:
        assert self.root_scale is not None
        return max(1.0, float(ask(_ExactCount(self.root_scale))[0]))


def _question_faults(name: str, eps: Decimal, *, n_clusters: int, domain: Domain) -> Mechanism:
    """Return a mechanism whose questions are not those that it planned and priced."""
    grid = domain.grid()
    if name == "extra-question":
        return _ExtraQuestion.calibrate(
            eps, n_clusters=n_clusters, grid=grid, neighbours=Neighbours.REPLACE_ONE
        )
    sound = Synopsis.calibrate(
        eps, n_clusters=n_clusters, grid=grid, neighbours=Neighbours.ADD_REMOVE
    )
    return _ThresholdsFromTheCount(**_fields(sound))


class _LongestResiduals(NormHistograms):
    """Asks for histograms by its price, and answers with the longest residual of every cluster."""

    def answer(self, records: Records, entropy: Entropy) -> Integers:  # noqa: ARG002
        """Return the norms themselves, without noise."""
        found: Integers = np.max(records.gather(self._longest), axis=0)
        return found

    def log_probability(self, records: Records, answer: Integers) -> float:
        """Return what an answer without noise has: certainty, or none."""
        same = np.array_equal(answer, np.max(records.gather(self._longest), axis=0))
        return 0.0 if same else -math.inf

    def _longest(self, block: Block) -> Integers:
        labels = self.clusters.labels(block)
        norms = np.abs(block.points - self.centers[labels]).sum(axis=1)
        radii = np.zeros(len(self.centers), np.int64)
        np.maximum.at(radii, labels, norms)
        return radii


class _DataRadius(Synopsis):
    """Residuals are cut to the longest that there is, and the noise follows it."""

    def lloyd_step(self, ask: Ask, clusters: Clusters, before: refine.Estimate) -> refine.Estimate:
        """Return the centers after a step whose radii no noise hides."""
        nothing, noise = np.empty(0, np.int64), self.step_noise
        radii = ask(
            _LongestResiduals(clusters, before.centers, nothing, noise.gaussian, noise.norm_scale)
        )
        unpulled = np.zeros(len(radii))
        return refine.move_centers(ask, clusters, before, radii, unpulled, noise, self.grid)


class _NoDecayTest(TreeTest):
    """Every test has the full count, whatever its depth; the price is that of falling scores."""

    def score_fall(self, tests: int) -> int:  # noqa: ARG002
        """Return nothing."""
        return 0


class _NoDecay(Synopsis):
    """A tree whose scores do not fall with depth."""

    @property
    def test(self) -> TreeTest:
        """When a cell is split."""
        return _NoDecayTest(self.tree_scale, self.decay, self.floor, self.levels)


@dataclass(frozen=True)
class _HeavyUnit(Unit):
    """Persons of several rows, each of which weighs what a person may; the price is for one."""

    def changed(self, neighbours: Neighbours) -> int:
        """Return what changes where a person weighs one."""
        return neighbours.changed_records


def _faulty_synopsis(name: str, eps: Decimal, *, n_clusters: int, domain: Domain) -> Synopsis:
    grid, relation = domain.grid(), Neighbours.REPLACE_ONE
    sound = Synopsis.calibrate(eps, n_clusters=n_clusters, grid=grid, neighbours=relation)
    if name == "synopsis-radius":
        return _DataRadius(**_fields(sound))
    if name == "synopsis-decay":
        return _NoDecay(**_fields(sound))
    if name == "weights-above-person":
        return replace(sound, unit=_HeavyUnit("person", _ROWS_OF_A_PERSON))
    once = Synopsis.calibrate(
        eps, n_clusters=n_clusters, grid=grid, neighbours=Neighbours.ADD_REMOVE
    )
    return replace(once, neighbours=relation, root_scale=None)


def _fields(mechanism: Synopsis) -> dict[str, Any]:
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}


def _tell_apart(sound: KVariates, *, with_windows: bool) -> Algorithm0:
    """Return noise of half the scale, or windows of three times the ratio."""
    if not with_windows:
        return replace(sound, noise_scale=sound.noise_scale / 2.0)
    windows = sound.with_windows()
    return replace(windows, density_ratio=3.0 * windows.density_ratio)


def _drop_smoothing(sound: KVariates) -> Algorithm0:
    return Laplace(sound.n_clusters, sound.grid, sound.neighbours, sound.noise_scale)


def _swap_in_wide(eps: Decimal, *, n_clusters: int, domain: Domain) -> Lloyd:
    # In few columns the swapped split happens to spend less than it claims.
    wide = Box((0.0,) * _WIDE, (1.0,) * _WIDE) if domain.n_features < _WIDE else domain
    return swap_split(eps, n_clusters=n_clusters, domain=wide)


def swap_split(eps: Decimal, *, n_clusters: int, domain: Domain) -> Lloyd:
    """Return DPLloyd whose counts got the budget of the sums, and sums that of one column.

    The split is one share for the counts and one for each of the d columns of the sums; unpacked in
    the wrong order, each column gets the counts' share.
    """
    right = Lloyd.calibrate(
        eps, n_clusters=n_clusters, grid=domain.grid(), neighbours=Neighbours.REPLACE_ONE
    )
    counts, sums = (float(step.eps or 0) for step in right.steps())
    d = domain.n_features
    return replace(
        right,
        count_scale=right.count_scale * counts / (sums / d),
        sum_scale=right.sum_scale * sums / (counts * d),
    )

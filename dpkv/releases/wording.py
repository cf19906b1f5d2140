"""What records, guarantees and plans say, in words: every sentence is rendered here, from codes.

Nothing on the wire depends on a word of this module, so that any sentence may be improved at any
time. What belongs to one mechanism is with that mechanism: its title, why its price holds, and the
words for codes of its own. A code that nobody has words for is shown as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpkv.mechanisms import find_kind
from dpkv.releases.guarantee import Guarantee
from dpkv.releases.missing_cells import filled_centers

if TYPE_CHECKING:
    from dpkv.mechanisms import Mechanism
    from dpkv.releases.plan import Plan
    from dpkv.releases.record import NoiseRecord, ReleaseRecord, StepRecord

CONDITIONAL = "conditional on the data, not an end-to-end guarantee"
NOT_RELEASABLE = "a seeded simulation, not releasable: whoever knows the seed can undo the noise"

STATEMENTS = {
    "proved": "The release is {eps}-differentially private: {change} changes the probability of "
    "any outcome by a factor of at most {factor}.",
    "proved-with-delta": "The release is ({eps}, {delta})-differentially private: {change} changes "
    "the probability of any outcome by a factor of at most {factor}, plus at most {delta}.",
    "conditional-published-noise": f"No guarantee is proved: {CONDITIONAL}. The noise follows the "
    "paper's formula and depends on the records itself.",
    "conditional-data-bounds": "No end-to-end guarantee: the bounds were read from the data, which "
    f"leaks them. What is proved of the centres is {CONDITIONAL}.",
    "simulated": f"No guarantee: {NOT_RELEASABLE}.",
}
"""By the status of a guarantee."""

CHANGES = {
    ("row", "replace-one"): "replacing any one record by any other",
    ("row", "add-remove"): "adding or removing any one record",
    ("person", "replace-one"): "replacing all rows of any one person",
    ("person", "add-remove"): "adding or removing any one person, with all rows",
}
"""What may change between neighbours, by the unit of privacy."""

PROTECTED = {
    "row": "one row; a person with several rows is protected for one of them",
    "person": "one person",
}
"""By the unit of privacy."""

WEIGHINGS = {
    "share": "a person counts once: all rows of a person share one weight",
    "limit": "at most {rows} rows of a person count, the first ones",
    "mean": "a person counts once: as the mean of the person's rows",
}
"""How rows of persons are weighed."""
WEIGHTS = "survey weights by column {column}, at most {most:g}"

ASSUMPTIONS = {
    "person-is-all-rows-of-an-id": "a person is all rows with one id: somebody with several ids is "
    "protected for one of them, and a row without an id is a person of its own",
    "person-is-one-row": "a person is one row: a person with several rows is protected for one of "
    "them",
    "bounds-chosen-without-data": "the bounds were chosen without looking at the data",
    "bounds-found-with-part-of-eps": "the bounds were found with a part of eps, and may be "
    "published",
    "bounds-read-from-data": "the bounds were read from the data and leak them",
    "settings-chosen-without-data": "k, mechanism, gamma, columns and all other settings were "
    "chosen without looking at the data: what a choice based on the data reveals is not covered",
    "earlier-steps-not-fitted": "only what happened inside the estimator's fit is covered: "
    "whatever changed the records before, such as an earlier step of a pipeline, works row by row "
    "and was not fitted to them, as dpkv.PublicScaler is not",
    "unusable-tables-refused": "the guarantee is about tables that the reader accepts: every "
    "value is a finite number of at most 2^53, or the table is refused",
    "unusable-cells-filled": "a cell that is missing, or not what its column holds, has the value "
    "that the column's public rule gives it, whatever else its row holds",
    "unusable-rows-count-nothing": "a row with a cell that is missing, or not what its column "
    "holds, counts for nothing in columns whose public rule says so, and is one of the rows all "
    "the same",
    "unusable-cells-are-a-category": "a cell that is missing, or not one of its column's "
    "categories, is a category of its own where the column's public rule says so",
    "sound-machine-and-randomness": "the curator's machine, the operating system's randomness and "
    "OpenDP's sampler are sound",
    "only-centers-and-record-published": "only the centres and this record are published: not the "
    "workspace, nor how long the release took or how much memory it used",
    "only-centers-synopsis-and-record-published": "only the centres, the private synopsis and this "
    "record are published: not the workspace, nor how long the release took or how much memory it "
    "used",
    "releases-add-up": "other releases about the same people add up: a ledger keeps the sum of one "
    "account in one workspace, and knows of no other",
    "one-relation-per-account": "all releases of one account are for one relation: a replace-one "
    "release publishes the number of records, and no add-remove guarantee for the same table "
    "survives that",
    "fingerprint-key-secret": "the workspace's fingerprint key stays secret: whoever has it can "
    "test a guess of the whole table",
}

NOT_PROTECTED = {
    "record-count": "the number of records",
    "person-count": "the number of persons",
    "at-least-one-person": "that there is at least one person",
    "at-least-one-record": "that there is at least one record",
    "center-count": "the number of centres",
    "bounds": "the bounds",
    "bounds-paid-for": "the bounds, whose own cost is part of eps",
    "bounds-of-data": "the bounds, which are the data's extreme values",
    "column-names": "the names of the columns",
    "all-rows-usable": "that every value is a finite number of at most 2^53: there would be no "
    "release otherwise",
    "time-and-memory": "running time and memory use, to whoever can watch the machine",
    "noise-from-records": "the noise, which depends on the records",
}

WARNINGS = {
    "simulated": NOT_RELEASABLE,
    "published-noise": f"published noise: {CONDITIONAL}",
    "bounds-of-data": f"the bounds were read from the data, which leaks them: {CONDITIONAL}",
}
"""What must be said wherever the release is mentioned."""

BOUNDS_PROOFS = {
    "given": "{why}",
    "private": "{why}; bounds by noisy histograms, whose price is added",
    "data": "{why}; nothing covers the bounds",
}
"""Why a price holds, by how the bounds are known."""

MODELS = {"central": "a trusted curator holds the records"}

RANDOMNESS = {
    "operating-system": "the operating system's: Python's secrets module for picks, OpenDP for "
    "noise, and a numpy generator with a seed from the operating system where no proof relies on "
    "it; nobody can choose a seed",
    "seeded": "a seeded numpy generator, for simulation only",
}

CHOICES = {
    "smallest-predicted-error": "smallest predicted error of a centre, as a share of half the "
    "width of the bounds: {predicted}",
    "private-record-count": "the default where the error cannot be predicted, because the number "
    "of records is private",
    "use-for-delta": "the mechanism that can make use of delta",
}
"""Why ``auto`` took a mechanism."""

UNTOLD = {
    "single-records-released": "each centre is a single record with noise, and nothing is asked "
    "about clusters: no sizes, errors or radii",
    "blocks-averaged": "centres are averages over blocks, and nothing is asked about clusters: no "
    "sizes, errors or radii",
    "distances-not-asked": "counts and sums say nothing about distances: no radii, no potential",
    "not-estimated": "no sizes, errors or radii are estimated",
}
"""Why a mechanism cannot tell everything about its clusters."""

ERRORS_COVER = (
    "Standard errors cover the noise. They do not cover records that were cut to the bounds, "
    "outliers whose pull was cut short, or records near a border that another centre would claim."
)

PARTS = {
    # steps
    "uniform-pick": "the first round: a record picked uniformly, released with noise",
    "smoothed-pick": "each later round: a record picked by smoothed D^2, released with noise",
    "noisy-center": "each centre: a record released with noise",
    "unproved-center": "each centre: a record released with noise that nothing proves",
    "block-centers": "the sum of the blocks' centres",
    "cluster-counts": "the counts of the clusters",
    "cluster-sums": "the sums of the clusters",
    "core-columns": "where the records are in wide bounds: histograms of all columns",
    "core-reach": "how far they reach around there",
    "cell-tree": "the tree of cells",
    "cell-counts": "the counts of the cells",
    "cell-places": "the places of records in their cells",
    "residual-norms": "each Lloyd step: histograms of residual norms",
    "residual-sums": "each Lloyd step: sums of residuals",
    "column-histograms": "the bounds: histograms of all columns",
    "record-count": "the number of records",
    # what noise is added to
    "center-coordinate": "each coordinate of each centre",
    "block-sum-coordinate": "each coordinate of the sum over the blocks",
    "cluster-count": "each count of a cluster",
    "cluster-sum-coordinate": "each coordinate of each sum of a cluster",
    "core-column-bin": "each bin of a column, to see where the records are",
    "core-reach-bin": "each count of how far they reach",
    "cell-test": "each test of a cell",
    "cell-count": "each count of a cell",
    "cell-place": "each place in a cell",
    "residual-norm-bin": "each bin of residual norms",
    "residual-sum-coordinate": "each coordinate of each sum of residuals",
    "column-histogram-bin": "each bin of each column's histogram",
    # what the integers count that noise is added to
    "grid-steps": "grid steps",
    "records": "records",
    "clip-radii": "clip radii",
    # how noise is distributed
    "discrete-laplace": "discrete Laplace noise",
    "discrete-gaussian": "discrete Gaussian noise",
    "window": "a window around the record, or anywhere",
}
"""The parts of the mechanisms that come with dpkv."""

PARTS_OF_PERSONS = {
    "record-count": "the number of persons",
    "records": "persons",
    "block-centers": "the sum of the centres of blocks of persons",
}
"""Where what is counted are persons."""

_LARGEST_ODDS = 20.0  # of eps
_LAST_POWER = 700.0
"""e^eps is a float up to here."""


@dataclass(frozen=True)
class Explanation:
    """All that a record says, in words."""

    title: str
    statement: str
    warnings: tuple[str, ...]
    protects: str
    why: str
    chosen: str | None
    """Why this mechanism, where the choice was left to dpkv."""
    steps: tuple[str, ...]
    noise: tuple[str, ...]
    model: str
    randomness: str
    assumptions: tuple[str, ...]
    not_protected: tuple[str, ...]


def explain(record: ReleaseRecord) -> Explanation:
    """Return all that a record says."""
    promise = record.guarantee
    return Explanation(
        title=title(record),
        statement=statement(promise),
        warnings=warnings(record),
        protects=protects(record.plan, promise),
        why=why(record),
        chosen=choice(record.plan),
        steps=tuple(step_words(step, record) for step in record.steps),
        noise=tuple(noise_words(noise, record) for noise in record.noise),
        model=MODELS[record.model],
        randomness=RANDOMNESS[record.randomness],
        assumptions=assumptions(promise),
        not_protected=tuple(NOT_PROTECTED[code] for code in record.not_protected),
    )


def statement(promise: Guarantee) -> str:
    """Return what a guarantee promises, in one sentence or two for a privacy officer."""
    if promise.eps is None:
        return STATEMENTS[promise.status]
    template = STATEMENTS["proved" if promise.delta == "0" else "proved-with-delta"]
    return template.format(
        eps=promise.eps,
        delta=promise.delta,
        change=CHANGES[promise.unit, promise.neighbours.value],
        factor=factor(promise.eps),
    )


def protects(plan: Plan, promise: Guarantee) -> str:
    """Return what is protected, and how it is told apart."""
    column = plan.unit.person_column
    named = "" if column is None else f" (column {column})"
    unproved = "" if promise.end_to_end else "nothing that is proved; the noise is for "
    return f"{unproved}{PROTECTED[promise.unit]}{named}"


def weighing(plan: Plan) -> str | None:
    """Return how rows are weighed; None where each counts one."""
    unit, told = plan.unit, []
    if unit.persons is not None:
        told.append(WEIGHINGS[unit.persons].format(rows=unit.rows_per_person))
    if unit.weight_column is not None:
        told.append(WEIGHTS.format(column=unit.weight_column, most=unit.most_weight))
    return "; ".join(told) or None


def factor(eps: str) -> str:
    """Return e^eps, with its value where floats have one and four digits tell it from 1."""
    number = float(eps)
    value = f"{math.exp(number):.4g}" if number < _LAST_POWER else ""
    return f"e^{eps}" if value in ("", "1") else f"e^{eps} = {value}"


def odds(eps: str) -> str | None:
    """Return what eps means for even odds; None where the figure would say nothing to anybody."""
    number = float(eps)
    if number > _LARGEST_ODDS:
        return None
    return (
        "a fact about whoever is protected, at even odds before, becomes "
        f"{math.exp(number):.3g} to 1 at most, whatever else is known."
    )


def assumptions(promise: Guarantee) -> tuple[str, ...]:
    """Return what a guarantee takes for granted."""
    return tuple(ASSUMPTIONS[code] for code in promise.assumptions)


def warnings(record: ReleaseRecord) -> tuple[str, ...]:
    """Return what must be said wherever the release is mentioned."""
    return (*(WARNINGS[code] for code in record.notes), *filled_centers(record))


def title(record: ReleaseRecord) -> str:
    """Return what the mechanism is called."""
    kind = _kind(record)
    return record.plan.mechanism if kind is None else kind.title


def why(record: ReleaseRecord) -> str:
    """Return why the price holds."""
    kind, promise = _kind(record), record.guarantee
    return BOUNDS_PROOFS[promise.bounds].format(why=promise.proof if kind is None else kind.why)


def choice(plan: Plan) -> str | None:
    """Return why dpkv took the mechanism; None where it was asked for by name."""
    if plan.chosen is None:
        return None
    shown = ", ".join(
        f"{one.mechanism} {math.sqrt(one.error):.2g}" for one in plan.chosen.predicted
    )
    return CHOICES[plan.chosen.rule].format(predicted=shown)


def step_words(step: StepRecord, record: ReleaseRecord) -> str:
    """Return what was done, and what it cost."""
    price = f"eps = {step.eps:.4g}" if step.eps is not None else f"rho = {step.rho:.4g} of zCDP"
    often = f", {step.times} times" if step.times > 1 else ""
    return f"{part(step.name, record)}: {price}{often}"


def noise_words(noise: NoiseRecord, record: ReleaseRecord) -> str:
    """Return the noise in its own unit."""
    unit = part(noise.unit, record)
    return f"{part(noise.distribution, record)} on {part(noise.added_to, record)}: sd " + (
        f"{noise.sd:.4g} {unit}"
    )


def part(code: str, record: ReleaseRecord) -> str:
    """Return what a code of the record's mechanism stands for; the code where nobody says."""
    kind = _kind(record)
    own = {} if kind is None else kind.words
    of_persons = PARTS_OF_PERSONS if record.plan.unit.persons in ("share", "mean") else {}
    return own.get(code) or of_persons.get(code) or PARTS.get(code, code)


def _kind(record: ReleaseRecord) -> type[Mechanism] | None:
    """Return the mechanism; None where a record names one that does not exist."""
    try:
        return find_kind(record.plan.mechanism, record.guarantee.proof)
    except KeyError:
        return None

"""What an audit found, as frozen JSON: the one object that every form of the report is made from.

A field that depends on the private records beyond the release itself says so by its place: it is in
``Audit.curator`` or in a part whose docstring says curator-only. ``Audit.public()`` leaves those
out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from dpkv import __version__
from dpkv.errors import UsageError
from dpkv.releases.codes import Unit
from dpkv.releases.frozen import Frozen
from dpkv.releases.record import software_versions


class NoiseFact(Frozen):
    """Noise that was added, in words."""

    added_to: str
    sd: float
    unit: str


class Density(Frozen):
    """About how many records lie where, from the private cells: over two columns, or over one."""

    columns: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    """Of the bins, in the columns' units."""
    records: tuple[tuple[float, ...], ...]
    """By the first column, then by the second; of one column, a single row."""


class Publication(Frozen):
    """What page one says of a release: from its record, its synopsis, and the ledger and keys here.

    Nothing of it depends on the records beyond the release.
    """

    created: str
    publisher: str | None
    data_about: str | None
    purpose: str | None
    charged: str | None
    """Of the budget; None where nobody was charged."""
    spent: str | None
    """In all, as the ledger here knows; None where there is none."""
    budget: str | None
    left: str | None
    signed: str
    """By whom, in words."""
    checks: int
    """How many checks of the record passed before it was written about."""
    kind: str
    """What the released mechanism is called, in the registry."""
    fewest: int | None
    most: int
    """Where the number of centers was chosen privately, from how many; else they are ``most``."""
    curve: tuple[float, ...]
    """The private potentials for 1, 2, ... centers, where the number was chosen by them."""
    center_sd: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...]
    """Of the groups; both are empty where the mechanism does not tell."""
    noise: tuple[NoiseFact, ...]
    densities: tuple[Density, ...]


class Subject(Frozen):
    """What was audited: a table that may be released from, or a release and its table."""

    label: str
    release_id: str | None
    statement: str
    """What the release promises, or would."""
    assumptions: tuple[str, ...]
    eps: str
    neighbours: str
    unit: Unit
    """What neighbours differ in: a row, or all rows of a person."""
    protects: str
    missing: str
    """What became of missing cells, by which public rule."""
    n_records: int | None
    """None in a public audit where the relation protects it."""
    n_features: int
    columns: tuple[str, ...]
    bounds: Literal["given", "private", "data"]
    domain: dict[str, object]
    mechanism: str
    """The mechanism that the verdict is about."""
    title: str
    end_to_end: bool
    ks: tuple[int, ...]
    released_centers: tuple[tuple[float, ...], ...] | None
    vouched_by: tuple[str, ...] | None
    """Who says that the record of the release is what happened; None where there is no release."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The released groups as people read them, a row each after the header; from the record."""
    groups_note: str = ""
    """What errors cover, or why there are none."""
    publication: Publication | None = None
    """What the release says of itself; None where nothing was released."""
    sample: int | None = None
    """Of how many rows the curator's part is, where not of all. Curator-only."""


NOT_VOUCHED = (
    "nobody vouches for the record: nothing here shows that its centres came from this mechanism"
)


def vouched_words(names: tuple[str, ...]) -> str:
    """Return who vouches for a record, in words."""
    if not names:
        return "by nobody: no ledger here has it, and no trusted key signed it"
    return f"by {' and '.join(names)}"


class CalibrationRow(Frozen):
    """Noise, as standard deviations in working coordinates. ``published`` is curator-only."""

    k: int
    certified_eps_tilde: float
    certified: float
    laplace: float
    published_eps_tilde: float | None
    published: float | None
    published_note: str


class WorstCaseLoss(Frozen):
    """The largest loss found over tables, neighbours and outputs: no data, no confidence level."""

    mechanism: str
    k: int
    claimed_eps: float
    loss: float
    witness_file: str | None
    violates: bool


class QuestionLoss(Frozen):
    """What a question of a run was found to lose, beside its price."""

    name: str
    """A code."""
    loss: float | None
    """None where an answer is impossible on the other table: no price covers that."""
    price: float | None
    """None where nothing proves one."""
    unit: Literal["eps", "rho"]


class RunLoss(Frozen):
    """The largest loss of a whole run found over tables, neighbours and adversarial answers.

    No data, no confidence level: it is of the mechanism alone.
    """

    mechanism: str
    k: int
    n_records: int
    """Of the table where it was found."""
    claimed_eps: float
    price: float
    loss: float | None
    """None where it is infinite."""
    share: float | None
    """Of the price."""
    questions: tuple[QuestionLoss, ...]
    tables: str
    """The two tables, in words."""
    violates: bool
    problem: str = ""
    """What breaks the claim, in words."""
    breaks_plan: bool = False
    """Whether the mechanism asks what it has not planned: a curator stops every run of it."""
    witness_file: str | None = None
    """The file with the run, where it is the largest and can be recomputed."""


class DataLoss(Frozen):
    """Losses of releases from the curator's own records. Curator-only."""

    mechanism: str
    k: int
    claimed_eps: float
    release_loss: float | None
    """Of the audited release, against its worst neighbour; None where there is no release."""
    simulated_losses: tuple[float, ...]
    """Of simulated releases, each against its worst neighbour."""
    n_replacements: int


class SampledBound(Frozen):
    """A lower bound on eps from runs on two neighbouring tables, at confidence 1 - alpha."""

    mechanism: str
    k: int
    claimed_eps: float
    lower_bound: float
    alpha: float
    runs_a_side: int
    hits: tuple[int, int]
    """Certified runs in the event, under either table."""
    method: str
    violates: bool


class Conformance(Frozen):
    """A goodness-of-fit test of the code that draws."""

    name: str
    statistic: float
    p_value: float
    level: float
    """The test fails below this p-value, which it does by chance this often."""
    runs: int
    passed: bool
    detail: str


class PublishedBound(Frozen):
    """Theorem 5 on random small instances, by enumeration with distances to the picked records."""

    instances: int
    tightest: float
    """The largest likelihood ratio over its bound; above 1 the bound is violated."""
    violations: int
    violations_as_run: int
    """The same with distances to the released centers, as Algorithm 0 is run."""


class UtilityRow(Frozen):
    """Potentials of one way to find k centers, over runs. Curator-only."""

    name: str
    k: int
    eps: float
    runs: int
    potential: float | None
    """The mean."""
    over_optimum: float | None
    """Mean potential over that of k-means without privacy."""
    over_optimum_interval: tuple[float, float] | None
    ratio: float | None
    """rho'_phi: this potential over that of certified k-variates++, of the means."""
    ratio_interval: tuple[float, float] | None
    own_ratio: float | None = None
    """This potential over that of the released mechanism, of the means."""
    own_ratio_interval: tuple[float, float] | None = None
    private: bool
    failure: str | None = None
    """Why it did not run, or some of its runs did not."""


class Rival(Frozen):
    """Something compared with, its version, and what is known of it."""

    name: str
    what: str
    version: str
    note: str


class Verdict(Frozen):
    """The answer on one screen."""

    holds: bool
    headline: str
    reasons: tuple[str, ...]
    lower_bound: float
    """The largest lower bound on eps that was found, by whatever method."""
    lower_bound_method: str
    claimed_eps: float
    utility: str | None
    """The headline on accuracy. Curator-only."""


class AuditSettings(Frozen):
    """How the audit was run."""

    seed: int
    quick: bool
    runs: int
    alpha: float
    command: str
    planted_fault: str | None = None


class Audit(Frozen):
    """Everything an audit found."""

    schema_version: Literal[1] = 1
    kind: Literal["audit"] = "audit"
    visibility: Literal["public", "curator-only"] = "curator-only"
    dpkv_version: str = __version__
    versions: dict[str, str] = Field(default_factory=software_versions)
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    subject: Subject
    settings: AuditSettings
    verdict: Verdict
    calibration: tuple[CalibrationRow, ...]
    worst_cases: tuple[WorstCaseLoss, ...]
    run_losses: tuple[RunLoss, ...] = ()
    data_losses: tuple[DataLoss, ...] = ()
    sampled: tuple[SampledBound, ...]
    conformance: tuple[Conformance, ...]
    published_bound: PublishedBound | None
    utility: tuple[UtilityRow, ...] = ()
    rivals: tuple[Rival, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return self.model_dump_json(indent=2) + "\n"

    def public(self) -> Audit:
        """Return the audit without everything that depends on the data beyond the release.

        What stays follows from public facts, the release and fresh randomness. That is so only
        where the guarantee is end to end: elsewhere noise or bounds are the data's own.
        """
        subject = self.subject
        if not subject.end_to_end:
            raise UsageError(
                "--public needs a release that is private end to end: this one's noise or bounds "
                "depend on the data."
            )
        private_m = subject.neighbours == "add-remove"
        known = {
            "label": subject.release_id
            or ("a table" if subject.released_centers is None else "a release"),
            "n_records": None if private_m else subject.n_records,
            "sample": None,
        }
        rows = tuple(
            row.model_copy(
                update={"published": None, "published_eps_tilde": None, "published_note": ""}
            )
            for row in self.calibration
        )
        return self.model_copy(
            update={
                "visibility": "public",
                "subject": subject.model_copy(update=known),
                "settings": self.settings.model_copy(update={"command": "dpkv audit --public"}),
                "calibration": () if private_m else rows,
                "data_losses": (),
                "utility": (),
                "rivals": (),
                "verdict": self.verdict.model_copy(update={"utility": None}),
            }
        )

"""An audit from beginning to end: sound mechanisms hold, planted faults are named, nothing leaks.

Tables are small and searches short; what a report says is the same at any size.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dpkv.audits import job, privacy, run
from dpkv.audits.conformance import conformance_tests
from dpkv.audits.faults import FAULTS
from dpkv.audits.losses import exact_losses, list_replacements
from dpkv.audits.privacy import Effort
from dpkv.audits.publication import Opened
from dpkv.audits.published_ratio_bound import audit_ratio_bound
from dpkv.audits.report.context import context
from dpkv.audits.report.pages import markdown
from dpkv.audits.results import Audit, Conformance, DataLoss, PublishedBound, SampledBound
from dpkv.audits.run import Audited, Job, run_audit
from dpkv.audits.run_witness import RunWitness, check_run_witness
from dpkv.audits.witness import Witness, check_witness
from dpkv.domain import Box, Domain, L1Ball
from dpkv.errors import ParameterError, UsageError
from dpkv.mechanisms import MECHANISMS, Published
from dpkv.noise import Entropy
from dpkv.releases import InputTable, Plan, ReleaseRecord, settle
from dpkv.releases.produce import carry_out
from dpkv.releases.settling import mechanism_of
from dpkv.releases.verify import Check

M = 120
SQUARE = Box((-10.0, -10.0), (10.0, 10.0))
COLUMNS = ("x", "y")
ALONE = np.empty(0)
"""Stands for a table that is not there."""
PART_RUNS = 1_500
"""Of each part of a synopsis: enough to see a planted fault, but for one."""


def sampled_in_full(names: Iterable[str], *few: str) -> list[Any]:
    """Return the names, those that must be run as often as an audit does as statistical tests."""
    return [pytest.param(n, marks=pytest.mark.statistical) if n in few else n for n in names]


class SmallJob(Job):
    """A quick audit with shorter searches and fewer runs."""

    @property
    def effort(self) -> Effort:
        in_ball = isinstance(self.domain, L1Ball)  # where moving centers inside takes long
        return Effort(3, 2_000 if in_ball else 40_000, 240, 3, 1e-6, self.seed)


@pytest.fixture(autouse=True)
def _without_what_is_tested_elsewhere(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Conformance is tested once, the published bound follows from the seed alone, sampled bounds
    from what is run, and a classifier's threads would only wait for each other."""
    if request.node.get_closest_marker("statistical") is None:
        monkeypatch.setattr(privacy, "FEWEST_PART_RUNS", PART_RUNS)
    monkeypatch.setattr(run, "audit_ratio_bound", published_bound)
    monkeypatch.setattr(run, "conformance_tests", conformance)
    monkeypatch.setattr(run, "sampled_bounds", sampled_once)
    import_module("sklearn.ensemble")  # before its threads can be limited
    with threadpool_limits(1):
        yield


@functools.cache
def conformance(entropy: type[Entropy], *, runs: int) -> tuple[Conformance, ...]:
    return conformance_tests(entropy, runs=runs)


@functools.cache
def published_bound(_instances: int, seed: int) -> PublishedBound:
    return audit_ratio_bound(20, seed)


_sampled: dict[Any, tuple[SampledBound, ...]] = {}


def sampled_once(
    calibrated: privacy.Calibrator, n_clusters: int, eps: Decimal, effort: Effort
) -> tuple[SampledBound, ...]:
    """Sample what was not sampled before: the same mechanisms, at the same sizes and effort."""
    probe = calibrated(max(privacy.SIZES), n_clusters)
    sizes = [(size, n_clusters) for size in privacy.SIZES if size >= n_clusters]
    run_on = tuple(calibrated(*size) for size in (*sizes, *probe.telling_sizes(n_clusters)))
    key = (run_on, n_clusters, eps, effort, privacy.FEWEST_PART_RUNS)
    if key not in _sampled:
        _sampled[key] = privacy.sampled_bounds(calibrated, n_clusters, eps, effort)
    return _sampled[key]


def table(m: int = M, seed: int = 0, d: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0, 2, (m, d)) + 4 * rng.integers(-1, 2, (m, 1)), -9.9, 9.9)


def plan_for(domain: Domain | None = SQUARE, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "k": 2,
        "eps": "1",
        "bounds": "given" if domain is not None else "data",
        "columns": COLUMNS,
        "domain": domain,
    }
    return Plan.of(**{**fields, **changes})


def audited(
    values: np.ndarray | None = None,
    plan: Plan | None = None,
    domain: Domain = SQUARE,
    **changes: Any,
) -> Audited:
    fields: dict[str, Any] = {
        "values": None if values is ALONE else table() if values is None else values,
        "columns": COLUMNS,
        "label": "records.csv",
        "domain": domain,
        "plan": plan_for(domain) if plan is None else plan,
        "ks": (2,),
        "quick": True,
        "runs": 2,
        "utility": False,
    }
    if values is ALONE:
        fields["n_units"] = M
    return run_audit(SmallJob(**{**fields, **changes}))


def opened(record: ReleaseRecord) -> Opened:
    """Return a record as an audit takes it, without a ledger and unverified."""
    return Opened(record, (), (), None, None)


def repeatable(audit: Audit) -> dict[str, Any]:
    """Return an audit without the time, and without what the operating system's draws decide."""
    fields = json.loads(audit.to_json())
    del fields["created"]
    for test in fields["conformance"]:
        del test["statistic"], test["p_value"]
    return fields


# -- both directions -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled_in_full(MECHANISMS, "synopsis"))
def test_sound_mechanisms_hold(name):
    found = audited(plan=plan_for(mechanism=name))
    audit, verdict = found.audit, found.audit.verdict
    assert verdict.holds, verdict.reasons
    assert verdict.reasons == ()
    assert verdict.headline == "No violation of eps = 1 (replace-one) was found"
    assert 0 <= verdict.lower_bound <= verdict.claimed_eps == 1.0
    assert all(test.passed for test in audit.conformance)
    assert audit.sampled and not any(bound.violates for bound in audit.sampled)
    assert audit.settings.planted_fault is None
    assert audit.subject.mechanism == name
    assert audit.subject.end_to_end
    exact = name in ("kvariates", "laplace", "forgy")
    assert len(audit.worst_cases) == exact
    assert len(audit.data_losses) == 1
    run = f"witness-run-{name}.json"
    assert list(found.witnesses) == ([f"witness-{name}-k2.json"] if exact else []) + [run]
    for witness in found.witnesses.values():
        assert all(check.passed for check in checks_of(witness))
    assert max(one.share for one in audit.run_losses) > 0.9
    assert max(one.loss for one in audit.run_losses) <= 1.0 + 1e-9


def checks_of(witness: Witness | RunWitness) -> tuple[Check, ...]:
    """Return the checks of a witness of either kind."""
    if isinstance(witness, RunWitness):
        return check_run_witness(witness)
    return check_witness(witness)


REASONS = {
    "half-noise": ["times likelier under a neighbour", "runs show eps >= ", "its steps cost 4."],
    "window-ratio": ["times likelier under a neighbour", "its steps cost "],
    "no-smoothing": ["times likelier under a neighbour", "runs show eps >= ", "its steps cost "],
    "papers-eps-tilde": ["an output is e^20.6", "runs show eps >= "],
    "float-noise": ["draws lie on the grid: 4000 of 4000 draws are no whole numbers"],
    "swapped-split": ["its steps cost 1.21", "more than claimed"],
    "synopsis-sensitivity": ["runs show eps >= ", "claimed 2", "its steps cost 1.9"],
    "synopsis-radius": ["runs show eps >= ", "claimed 2"],
    "synopsis-decay": ["runs show eps >= ", "claimed 2"],
    "synopsis-exact-count": ["an answer is impossible on a neighbour"],
    "extra-question": ["one question more than its plan has"],
    "weights-above-person": ["runs show eps >= ", "claimed 2"],
}


@pytest.mark.parametrize("name", sampled_in_full(FAULTS, "synopsis-decay"))
def test_planted_faults_are_named(name):
    found = audited(plant=name)
    verdict = found.audit.verdict
    assert not verdict.holds
    assert verdict.headline == "The claim eps = 1 (replace-one) is violated"
    told = "; ".join(verdict.reasons)
    for reason in REASONS[name]:
        assert reason in told
    assert found.audit.settings.planted_fault == name
    refuted = [not checks_of(witness)[-1].passed for witness in found.witnesses.values()]
    if name in ("half-noise", "window-ratio", "no-smoothing", "papers-eps-tilde"):
        assert refuted and all(refuted)
        assert verdict.lower_bound > 1


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "synopsis-decay"])
def test_faults_are_named_for_other_tables_too(name):
    """One column and a small eps; what takes most runs to be found is tried above alone."""
    line = Box((0.0,), (1.0,))
    plan = plan_for(line, columns=("x",), eps="0.1")
    found = audited(table(30, d=1), plan, line, columns=("x",), plant=name)
    assert not found.audit.verdict.holds


def test_a_fault_in_a_ball_is_named():
    ball, columns = L1Ball((0.0, 0.0, 0.0), 30.0), ("x", "y", "z")
    found = audited(
        table(30, d=3),
        plan_for(ball, columns=columns),
        ball,
        columns=columns,
        plant="half-noise",
    )
    assert not found.audit.verdict.holds


def test_an_unknown_fault_is_refused_at_once():
    with pytest.raises(ParameterError, match="plant must be one of half-noise"):
        audited(plant="no-noise", values=np.zeros((3, 2)))


# -- what the verdict adds up ----------------------------------------------------------------------


def test_the_verdict_names_the_largest_lower_bound():
    audit = audited(ks=(1, 2, 3)).audit
    assert [loss.k for loss in audit.worst_cases] == [1, 2, 3]
    bounds = [loss.loss for loss in audit.worst_cases]
    bounds += [bound.lower_bound for bound in audit.sampled]
    bounds += [loss.loss for loss in audit.run_losses if loss.loss is not None]
    assert audit.verdict.lower_bound == max(bounds)
    assert [row.k for row in audit.calibration] == [1, 2, 3]
    assert [loss.k for loss in audit.data_losses] == [1, 3], "the first and the last k"


def test_a_loss_on_the_records_above_the_claim_is_a_violation(monkeypatch):
    """Two tables and an output refute a claim, wherever they come from."""

    def large(mechanism: Any, *_: Any) -> DataLoss:
        return DataLoss(
            mechanism=mechanism.name,
            k=2,
            claimed_eps=1.0,
            release_loss=None,
            simulated_losses=(0.2, 5.0),
            n_replacements=32,
        )

    monkeypatch.setattr(run, "data_loss", large)
    assert not audited().audit.verdict.holds


@pytest.mark.parametrize("name", ["kvariates", "laplace", "forgy"])
@pytest.mark.parametrize("eps", ["0.7", "1.5"])
def test_a_record_that_loses_exactly_eps_is_no_violation(name, eps):
    """A table of one record in a corner: rounding must not put its loss above the claim."""
    plan = plan_for(mechanism=name, eps=eps, k=1)
    audit = audited(np.array([[-10.0, -10.0]]), plan, ks=(1,)).audit
    assert max(audit.data_losses[0].simulated_losses) == pytest.approx(float(eps), rel=1e-12)
    assert audit.verdict.holds, audit.verdict.reasons


def test_losses_on_the_records_are_those_of_the_release():
    values = table()
    release = carry_out(
        settle(plan_for(), len(values)), InputTable(values, COLUMNS, "records.csv"), None
    ).record
    audit = audited(values, opened=opened(release), plan=release.plan).audit
    (loss,) = audit.data_losses
    grid = SQUARE.grid()
    mechanism = mechanism_of(release.plan, grid, M)
    centers = np.array(release.grid_centers)
    expected = exact_losses(
        mechanism,
        grid.quantise(values).astype(np.int32),
        centers,
        list_replacements(grid, centers),
    )
    assert loss.release_loss == expected.largest
    assert len(loss.simulated_losses) == 3
    assert 0 < max(loss.simulated_losses) <= 1
    assert audit.subject.released_centers == release.centers
    assert audit.subject.release_id == release.release_id


def test_an_audit_of_a_release_is_written_about_what_was_released():
    """Its own baseline, no calibration of another mechanism, and no bound of the paper's."""
    values = table()
    plan = plan_for(mechanism="lloyd")
    release = carry_out(settle(plan, M), InputTable(values, COLUMNS, "x.csv"), None).record
    audit = audited(values, opened=opened(release), plan=release.plan, utility=True).audit
    assert audit.calibration == () and audit.published_bound is None
    assert {bound.mechanism for bound in audit.sampled} == {"lloyd"}
    assert {test.name for test in audit.conformance} == {"draws lie on the grid", "noise"}
    rows = {row.name: row for row in audit.utility}
    assert rows["lloyd"].own_ratio == 1.0 and rows["lloyd"].own_ratio_interval == (1.0, 1.0)
    for name in ("kvariates", "kvariates-published", "kvariates-windows", "forgy", "gupt"):
        assert name in rows, "the paper's comparison is kept whatever was released"
    assert rows["forgy"].own_ratio == pytest.approx(
        rows["forgy"].potential / rows["lloyd"].potential
    )
    assert audit.subject.publication is not None
    assert audit.subject.publication.sizes == release.sizes


def test_a_release_alone_is_audited_without_its_table():
    values = table()
    for mechanism, k in (("kvariates", 2), ("synopsis", (2, 5))):
        plan = plan_for(mechanism=mechanism, k=k)
        release = carry_out(settle(plan, M), InputTable(values, COLUMNS, "x.csv"), None).record
        audit = audited(
            opened=opened(release), plan=release.plan, ks=(release.plan.k,), values=ALONE
        ).audit
        assert audit.verdict.holds and audit.verdict.lower_bound > 0.8
        nothing = audit.data_losses, audit.sampled, audit.conformance, audit.utility, audit.rivals
        assert all(part == () for part in nothing)
        assert any("nothing of the table" in note for note in audit.notes)


def test_a_sample_is_audited_as_a_table_of_its_own_and_says_so():
    audit = audited(table(60), n_units=M, sampled=True, utility=True).audit
    assert audit.subject.n_records == M and audit.subject.sample == 60
    assert audit.public().subject.sample is None
    assert f"60 rows drawn at random from a table of {M}" in markdown(context(audit))
    assert "drawn at random from a table" not in markdown(context(audit.public()))
    assert audit.data_losses[0].release_loss is None and audit.verdict.holds


def test_a_record_that_states_less_noise_than_its_plan_is_not_passed():
    """What was released is what the record describes: half the noise of the plan is a violation, or
    the record is refused as contradicting itself."""
    values = table()
    release = carry_out(
        settle(plan_for(), len(values)), InputTable(values, COLUMNS, "records.csv"), None
    ).record
    described = {**release.mechanism, "noise_scale": release.mechanism["noise_scale"] / 2}
    halved = release.model_copy(update={"mechanism": described})
    try:
        found = audited(values, opened=opened(halved), plan=halved.plan)
    except UsageError:
        return
    assert not found.audit.verdict.holds


# -- the published calibration ---------------------------------------------------------------------


def published_plan(eps_tilde: float, eps: str = "1", k: int = 2) -> Plan:
    plan = plan_for(calibration="published", eps=eps, k=k)
    return plan.model_copy(update={"eps_tilde": eps_tilde})


def test_a_published_release_is_conditional_and_its_loss_is_judged():
    for eps_tilde, holds in ((0.4, True), (6.0, False)):
        audit = audited(plan=published_plan(eps_tilde)).audit
        assert not audit.subject.end_to_end
        assert "conditional on the data" in audit.subject.statement
        assert "differentially private" not in audit.subject.statement
        assert audit.verdict.holds is holds
        (worst,) = audit.worst_cases
        assert worst.violates is not holds
        with pytest.raises(UsageError, match="--public needs a release that is private end to end"):
            audit.public()


def test_every_k_of_a_published_audit_has_the_noise_of_that_k():
    """eps~ is another number for every k: a plan's eps~ is that of its own k alone."""
    found = audited(plan=published_plan(2.5), ks=(2, 3))
    figures = {row.k: row.published_eps_tilde for row in found.audit.calibration}
    assert figures[2] != figures[3]
    other = found.witnesses.get("witness-kvariates-k3.json")
    if other is not None:
        assert other.mechanism["eps_tilde"] == pytest.approx(figures[3])


def test_a_witness_whose_noise_or_bounds_are_the_datas_is_for_the_curator():
    box = Box((-9.0, -9.5), (9.1, 9.2), source="data")
    for found in (
        audited(plan=published_plan(2.5)),
        audited(plan=plan_for(None), domain=box),
    ):
        assert {witness.visibility for witness in found.witnesses.values()} == {"curator-only"}


# -- nothing of the data in a public audit ---------------------------------------------------------


def test_public_audits_of_two_tables_of_the_same_size_are_the_same():
    one, other = (audited(table(seed=seed), utility=seed == 0) for seed in (0, 1))
    assert repeatable(one.audit) != repeatable(other.audit)
    assert repeatable(one.audit.public()) == repeatable(other.audit.public())
    assert {name: witness.to_json() for name, witness in one.witnesses.items()} == {
        name: witness.to_json() for name, witness in other.witnesses.items()
    }


def test_what_a_public_audit_leaves_out():
    audit = audited(utility=True).audit
    assert audit.visibility == "curator-only"
    assert audit.utility and audit.data_losses and audit.verdict.utility
    public = audit.public()
    assert public.visibility == "public"
    assert public.utility == public.data_losses == ()
    assert public.verdict.utility is None
    assert {row.published_eps_tilde for row in public.calibration} == {None}
    assert "records.csv" not in public.to_json()
    assert public.worst_cases == audit.worst_cases
    assert public.sampled == audit.sampled


@pytest.mark.parametrize("mechanism", ["laplace", "forgy", "lloyd"])
def test_under_add_remove_a_public_audit_does_not_tell_the_number_of_records(mechanism):
    plan = plan_for(mechanism=mechanism, neighbours="add-remove")
    one, other = (audited(table(m), plan=plan) for m in (M, M - 1))
    assert one.audit.subject.n_records == M
    assert one.audit.public().subject.n_records is None
    assert repeatable(one.audit.public()) == repeatable(other.audit.public())
    assert {name: witness.to_json() for name, witness in one.witnesses.items()} == {
        name: witness.to_json() for name, witness in other.witnesses.items()
    }


# -- the rest --------------------------------------------------------------------------------------


def test_audits_repeat_by_their_seed(monkeypatch):
    monkeypatch.setattr(run, "sampled_bounds", privacy.sampled_bounds)
    one, again, other = (audited(seed=seed, utility=True).audit for seed in (1, 1, 2))
    assert repeatable(one) == repeatable(again)
    assert one.sampled != other.sampled
    assert one.data_losses != other.data_losses
    assert one.utility != other.utility


def test_an_audit_survives_its_file():
    audit = audited(ks=(1, 2)).audit
    assert Audit.model_validate_json(audit.to_json()) == audit
    assert json.loads(audit.to_json())["kind"] == "audit"


def test_the_audit_tells_how_far_it_is():
    told: list[tuple[str, float]] = []
    audited(progress=lambda label, share: told.append((label, share)), utility=True)
    labels = {label for label, _ in told}
    assert {"searching for the worst case", "sampled bounds", "conformance"} <= labels
    assert {"exact losses", "comparing with rivals"} <= labels
    assert all(0 <= share <= 1 for _, share in told)


def test_the_subject_is_described_in_public_terms():
    audit = audited(label="clinic.csv", command="dpkv audit clinic.csv").audit
    subject = audit.subject
    assert (subject.label, subject.n_records, subject.n_features) == ("clinic.csv", M, 2)
    assert (subject.eps, subject.neighbours, subject.ks) == ("1", "replace-one", (2,))
    assert subject.statement.startswith("The release is 1-differentially private")
    assert Domain.from_dict(subject.domain) == SQUARE
    assert audit.settings.command == "dpkv audit clinic.csv"
    assert subject.publication is None and subject.sample is None


def test_efforts_are_stated_and_quick_ones_are_smaller():
    quick, full = (
        Job(table(), COLUMNS, "x", SQUARE, plan_for(), (2,), quick=quick).effort
        for quick in (True, False)
    )
    assert full.likelihood_runs // 2 >= 100_000, "10^5 certified runs a side"
    assert quick.likelihood_runs < full.likelihood_runs
    assert quick.alpha == full.alpha == 1e-6


def test_a_mechanism_of_another_price_is_not_passed(monkeypatch):
    """A planted fault in the calibration: noise for eps = 2 where 1 is claimed."""
    right = mechanism_of

    def cheaper(plan: Plan, grid: Any, n_records: int) -> Any:
        return right(plan.model_copy(update={"eps": "2"}), grid, n_records)

    monkeypatch.setattr(job, "mechanism_of", cheaper)
    for name in ("kvariates", "gupt"):
        verdict = audited(plan=plan_for(mechanism=name)).audit.verdict
        assert not verdict.holds
        assert verdict.reasons[-1].startswith("its steps cost 2")


def test_a_published_mechanism_has_no_price_and_is_judged_by_its_losses():
    mechanism = Published.calibrate(6.0, n_clusters=2, grid=SQUARE.grid())
    assert mechanism.cost() == Decimal("Infinity")
    assert not any(step.is_priced for step in mechanism.steps())
    reasons = audited(plan=published_plan(6.0)).audit.verdict.reasons
    assert not any("its steps cost" in reason for reason in reasons)

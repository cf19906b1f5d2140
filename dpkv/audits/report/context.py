"""From an audit to the context that every form of the report is printed from."""

from __future__ import annotations

import math

from dpkv.audits.report.blocks import (
    Banner,
    Context,
    Gauge,
    Heading,
    Items,
    Section,
    TableBlock,
    Text,
    VerdictCard,
    plain,
)
from dpkv.audits.report.blocks import Code as CodeBlock
from dpkv.audits.report.calibration import calibration_section, noise_section
from dpkv.audits.report.centers import centers_section
from dpkv.audits.report.frontpage import front_facts
from dpkv.audits.report.numbers import count, exact, lower
from dpkv.audits.report.privacy import privacy_section
from dpkv.audits.report.utility import rivals_section, utility_section
from dpkv.audits.results import Audit, Verdict

_CURATOR = Banner(
    "For the curator only: do not publish",
    "Some figures here depend on the private records. The option --public leaves them out.",
)
_PUBLIC = Banner(
    "Public variant",
    "Left out, because it depends on the private records beyond the release: the published "
    "calibration, the losses on the curator's own records, and the comparison of accuracy.",
)
_METHOD = (
    "An audit can refute a claim; it cannot prove one. The proof is the mechanism's own, and the "
    "verdict says that nothing found contradicts it.",
    "Worst cases are exact: two neighbouring tables, an output, and its probability under both in "
    "closed form. The search never overstates, and may miss a larger loss. It audits the "
    "specification.",
    "Sampled bounds audit the code: it is run on two neighbouring tables, an event is chosen on "
    "one half of the runs and certified on the other, and each bound exceeds the truth with "
    "probability at most its alpha.",
    "Conformance tests compare what the code draws with the exact probabilities. A test fails by "
    "chance as often as its level says.",
    "Losses on the curator's own records compare a release with the same table after any one "
    "record is replaced, by every point of a grid and by the extreme points of the domain.",
    "Accuracy is the potential: the sum of squared distances of the records to their nearest "
    "centre, as a mean over runs, at the same eps and on the same domain for all.",
    "Not audited: side channels such as time and memory, the operating system's randomness, how "
    "the bounds were chosen, and what several releases of the same records cost together.",
)
_SAMPLED = (
    "What depends on the records here, losses and the comparison of accuracy, is of {sample:,} "
    "rows drawn at random from a table of {all:,}, as of a table of its own. Noise weighs more in "
    "a smaller table."
)
_AGAIN = (
    "With the same records, versions and seed, this command repeats every simulated figure. "
    "Conformance tests draw with the operating system's randomness, as a release does, and come "
    "out a little different each time."
)


def context(audit: Audit) -> Context:
    """Return the report of an audit, every number written once."""
    subject = audit.subject
    sections = (
        centers_section(audit),
        Section("assumptions", "Taken for granted", (Items(subject.assumptions),)),
        privacy_section(audit),
        noise_section(audit),
        calibration_section(audit),
        utility_section(audit),
        rivals_section(audit),
        _method(audit),
        _reproducibility(audit),
    )
    return Context(
        title=f"Privacy audit: {subject.label}",
        label=subject.label,
        subtitle=_subtitle(audit),
        visibility=audit.visibility,
        banners=_banners(audit),
        verdict=_verdict(audit),
        sections=tuple(section for section in sections if section.blocks),
    )


def _subtitle(audit: Audit) -> str:
    release = audit.subject.release_id
    audited = f"audited by dpkv {audit.dpkv_version} on {audit.created[:10]}"
    return audited if release is None else f"release {release} · {audited}"


def _banners(audit: Audit) -> tuple[Banner, ...]:
    planted = audit.settings.planted_fault
    own = _PUBLIC if audit.visibility == "public" else _CURATOR
    if planted is None:
        return (own,)
    return (
        Banner(
            "Self-test with a planted fault",
            f"The mechanism was broken on purpose ({planted}) to show that the audit sees it. "
            "This says nothing about any release.",
        ),
        own,
    )


def _verdict(audit: Audit) -> VerdictCard:
    verdict = audit.verdict
    return VerdictCard(
        holds=verdict.holds,
        status=_status(audit),
        headline=verdict.headline,
        reasons=verdict.reasons,
        gauge=_gauge(verdict),
        facts=front_facts(audit),
    )


def _status(audit: Audit) -> str:
    if not audit.verdict.holds:
        return "Violation found"
    unvouched = "; nobody vouches for the record" if audit.subject.vouched_by == () else ""
    return f"No violation found{unvouched}"


def _gauge(verdict: Verdict) -> Gauge:
    bound = lower(verdict.lower_bound, beside=verdict.claimed_eps)
    claimed = exact(verdict.claimed_eps)
    claimed_place, bound_place = _places(verdict.claimed_eps, verdict.lower_bound)
    return Gauge(
        bound=bound,
        claimed=claimed,
        bound_place=bound_place,
        claimed_place=claimed_place,
        method=verdict.lower_bound_method,
        sentence=f"The largest privacy loss found is {bound}; {_meaning(verdict, claimed)}."
        if verdict.lower_bound > 0
        else f"No privacy loss was found, where eps = {claimed} allows one of {claimed}.",
    )


def _meaning(verdict: Verdict, claimed: str) -> str:
    if verdict.lower_bound > verdict.claimed_eps:
        return f"the claim of eps = {claimed} allows no more than {claimed}"
    if verdict.holds:
        return f"eps = {claimed} promises that none exceeds {claimed}"
    return f"the claim of eps = {claimed} allows it, and the violation lies elsewhere"


def _places(claimed: float, bound: float) -> tuple[float, float]:
    """Return where the claim and the bound stand on the gauge, in percent."""
    if not math.isfinite(bound):
        return 40.0, 100.0
    if not math.isfinite(claimed):
        return 100.0, 40.0
    top = max(1.25 * claimed, 1.1 * bound) or 1.0
    return round(100.0 * claimed / top, 2), round(100.0 * max(bound, 0.0) / top, 2)


def _method(audit: Audit) -> Section:
    subject, said = audit.subject, audit.notes
    if subject.sample is not None:
        said = (*said, _SAMPLED.format(sample=subject.sample, all=subject.n_records))
    notes = (Heading("Notes of this audit"), Items(said)) if said else ()
    return Section("method", "Method and limits", (Items(_METHOD), *notes))


def _reproducibility(audit: Audit) -> Section:
    settings = audit.settings
    rows = [
        ("seed, of simulations only", str(settings.seed)),
        ("size", "quick" if settings.quick else "full"),
        ("runs a comparison", count(settings.runs)),
        ("alpha", exact(settings.alpha)),
        ("planted fault", settings.planted_fault or "none"),
        ("created", audit.created),
        ("dpkv", audit.dpkv_version),
        *sorted(audit.versions.items()),
    ]
    return Section(
        "reproducibility",
        "Reproducibility",
        (
            Text(_AGAIN),
            CodeBlock(settings.command),
            TableBlock(
                "settings",
                "Settings and versions",
                ("", ""),
                tuple(plain(*row) for row in rows),
                words=frozenset({0, 1}),
            ),
            Text(f"All figures in full are in audit.json (schema {audit.schema_version})."),
        ),
    )

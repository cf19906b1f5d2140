"""The report's part on privacy: does it hold, and how close."""

from __future__ import annotations

import math
import statistics

from dpkv.audits.report.blocks import (
    Block,
    Cell,
    Heading,
    Picture,
    Section,
    TableBlock,
    Text,
    plain,
    verdict_cell,
    without_repeats,
)
from dpkv.audits.report.numbers import count, exact, lower, number
from dpkv.audits.results import (
    Audit,
    Conformance,
    DataLoss,
    PublishedBound,
    QuestionLoss,
    RunLoss,
    SampledBound,
    WorstCaseLoss,
)
from dpkv.releases.wording import PARTS

_WITHIN, _BEYOND = "within eps", "violation"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def privacy_section(audit: Audit) -> Section:
    """Return worst cases, losses on the data, sampled bounds, conformance, the published bound."""
    relation = Text(
        f"Every figure here is for {audit.subject.neighbours} neighbours. A loss is the logarithm "
        "of how much likelier an output is under one of two neighbouring tables than under the "
        "other; eps-differential privacy says that no loss exceeds eps."
    )
    blocks = (
        relation,
        *_worst_cases(audit),
        *_worst_runs(audit),
        *_data_losses(audit),
        *_sampled_blocks(audit),
        *_conformance(audit),
        *_published_bound(audit.published_bound),
    )
    return Section("privacy", "Privacy", blocks)


def _worst_cases(audit: Audit) -> tuple[Block, ...]:
    if not audit.worst_cases:
        return ()
    heading = Heading("Worst cases")
    table = TableBlock(
        "worst-cases",
        "The largest losses found over all tables, neighbours and outputs, rounded down",
        ("mechanism", "k", "claimed eps", "largest loss", "result", "witness"),
        tuple(_worst_case(row) for row in audit.worst_cases),
        words=frozenset({0, 4, 5}),
        codes=frozenset({5}),
    )
    return heading, Text(_WITNESS), without_repeats(table)


_WITNESS = (
    "These need no confidence level and no private data. Each witness file holds two neighbouring "
    "tables, an output and both log-probabilities; dpkv verify recomputes them independently."
)


def _worst_case(row: WorstCaseLoss) -> tuple[Cell, ...]:
    return (
        *plain(row.mechanism, str(row.k), exact(row.claimed_eps)),
        Cell(lower(row.loss, beside=row.claimed_eps)),
        verdict_cell(row.violates, _WITHIN, _BEYOND),
        Cell(row.witness_file or "none"),
    )


def _worst_runs(audit: Audit) -> tuple[Block, ...]:
    if not audit.run_losses:
        return ()
    table = TableBlock(
        "worst-runs",
        "The largest losses of whole runs found over tables, neighbours and answers, rounded down",
        ("mechanism", "k", "records", "price", "largest loss", "of the price", "result", "witness"),
        tuple(_worst_run(row) for row in audit.run_losses),
        words=frozenset({0, 6, 7}),
        codes=frozenset({7}),
    )
    largest = max(audit.run_losses, key=lambda row: math.inf if row.share is None else row.share)
    parts = ", ".join(_part_of(one) for one in largest.questions)
    tables = Text(f"The largest was found with {largest.tables}. Its questions: {parts}.")
    return Heading("Whole runs"), Text(_RUNS), without_repeats(table), tables


_RUNS = (
    "A run is a sequence of questions and noisy answers of known probability, so its loss is a "
    "sum, and nothing that is computed from the answers loses more. Here every answer is the one "
    "that tells most: reaching the price shows that it is tight, exceeding it is a fault. A "
    "witness holds tables, questions and answers, which dpkv verify asks and recomputes again."
)


def _worst_run(row: RunLoss) -> tuple[Cell, ...]:
    return (
        *plain(row.mechanism, str(row.k), count(row.n_records), number(row.price)),
        Cell("infinite" if row.loss is None else lower(row.loss, beside=row.price)),
        Cell("infinite" if row.share is None else f"{math.floor(row.share * 1000) / 10:.1f} %"),
        verdict_cell(row.violates, _WITHIN, _BEYOND),
        Cell(row.witness_file or "none"),
    )


def _part_of(one: QuestionLoss) -> str:
    loss = "infinite" if one.loss is None else f"{one.loss:.4g}"
    price = "nothing proved" if one.price is None else f"{one.price:.4g}"
    return (
        f"{PARTS.get(one.name, one.name)}: {loss} of {price}{' (rho)' if one.unit == 'rho' else ''}"
    )


def _data_losses(audit: Audit) -> tuple[Block, ...]:
    if not audit.data_losses:
        return ()
    heading = Heading("Losses on the curator's own records")
    table = TableBlock(
        "data-losses",
        "Losses of releases from the curator's own records, each against its worst neighbour",
        ("mechanism", "k", "claimed eps", "audited release", "simulated, median", "largest",
         "runs", "replacements"),
        tuple(_data_loss(row) for row in audit.data_losses),
    )  # fmt: skip
    picture = Picture(
        "losses",
        "How the losses of simulated releases are distributed; the line is the claimed eps. "
        "The axis is logarithmic.",
        "Histograms of privacy losses, one for each number of centres, with the claimed eps as a "
        "line; the table has medians and largest values.",
    )
    return heading, Text(_TYPICAL), picture, without_repeats(table)


_TYPICAL = (
    "What these records would have lost, which is typically far below the worst case. It is no "
    "guarantee, depends on the records, and is for the curator only."
)


def _data_loss(row: DataLoss) -> tuple[Cell, ...]:
    losses = row.simulated_losses
    return plain(
        row.mechanism,
        str(row.k),
        exact(row.claimed_eps),
        number(row.release_loss),
        number(statistics.median(losses) if losses else None),
        number(max(losses, default=None)),
        count(len(losses)),
        count(row.n_replacements),
    )


def _sampled_blocks(audit: Audit) -> tuple[Block, ...]:
    if not audit.sampled:
        return ()
    heading = Heading("Sampled bounds")
    methods = list(dict.fromkeys(row.method for row in audit.sampled))
    table = TableBlock(
        "sampled",
        "Lower bounds on eps from runs of the code on two neighbouring tables, rounded down",
        ("mechanism", "k", "tried at eps", "lower bound", "alpha", "runs a side", "in the event",
         "method", "result"),
        tuple(_bound(row, _LETTERS[methods.index(row.method) % 26]) for row in audit.sampled),
        words=frozenset({0, 8}),
        notes=tuple(f"{_LETTERS[i % 26]}: {method}" for i, method in enumerate(methods)),
    )  # fmt: skip
    apart = {row.claimed_eps for row in audit.sampled} != {audit.verdict.claimed_eps}
    why = (Text(_AT_ANOTHER_EPS),) if apart else ()
    return heading, Text(_CONFIDENCE), *why, without_repeats(table)


_AT_ANOTHER_EPS = (
    "The parts of a mechanism are tried one by one, each with noise for the eps in its own row, at "
    "which few runs show most: all noise is scaled alike, so that a part which kept to that eps "
    "would keep to any. A bound is to be compared with the eps beside it, not with the release's."
)
_CONFIDENCE = (
    "The true eps is at least the bound, except with probability alpha. The counts are the runs "
    "in the event under either table, out of the certifying runs of a side."
)


def _bound(row: SampledBound, method: str) -> tuple[Cell, ...]:
    first, second = row.hits
    return (
        *plain(row.mechanism, str(row.k), exact(row.claimed_eps)),
        Cell(lower(row.lower_bound, beside=row.claimed_eps)),
        *plain(exact(row.alpha), count(row.runs_a_side), f"{count(first)} : {count(second)}"),
        Cell(method),
        verdict_cell(row.violates, _WITHIN, _BEYOND),
    )


def _conformance(audit: Audit) -> tuple[Block, ...]:
    if not audit.conformance:
        return ()
    heading = Heading("Conformance of the sampler")
    table = TableBlock(
        "conformance",
        "What the code draws against the exact probabilities",
        ("test", "statistic", "p-value", "fails below", "draws", "result"),
        tuple(_test(row) for row in audit.conformance),
        words=frozenset({0, 5}),
    )
    return heading, table


def _test(row: Conformance) -> tuple[Cell, ...]:
    return (
        Cell(row.name, row.detail),
        *plain(number(row.statistic), number(row.p_value), exact(row.level), count(row.runs)),
        verdict_cell(not row.passed, "passed", "failed"),
    )


def _published_bound(found: PublishedBound | None) -> tuple[Block, ...]:
    if found is None:
        return ()
    heading = Heading("The published bound")
    table = TableBlock(
        "published-bound",
        "The paper's theorem on random small instances, by enumeration",
        ("instances", "tightest ratio", "violations", "violations as run"),
        (
            plain(
                count(found.instances),
                lower(found.tightest, beside=1.0),
                count(found.violations),
                count(found.violations_as_run),
            ),
        ),
        words=frozenset(),
    )
    return heading, Text(_THEOREM), table


_THEOREM = (
    "The tightest ratio is the largest likelihood ratio over its bound: above 1 the bound is "
    "violated. The theorem measures distances to the picked records; as run, they are measured to "
    "the released centres, for which the paper has no proof. The certified noise does not rest on "
    "this bound."
)

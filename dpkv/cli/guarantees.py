"""``dpkv guarantees``: what the paper promises of each algorithm, in numbers."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.errors import ParameterError

if TYPE_CHECKING:
    from dpkv.paper.comparison import Facts, WrittenFormula

_OPTIONS = {
    "n_clusters": "--k",
    "n_records": "--m",
    "n_features": "--d",
    "n_nodes": "--nodes",
    "smallest_node": "--smallest-node",
    "optimum": "--phi-opt",
    "single_potential": "--phi-1",
    "node_spread": "--spread",
    "probe_spread": "--probe-spread",
    "variance": "--variance",
    "stretching": "--eta",
    "varsigma": "--varsigma",
    "oversampling": "--oversampling",
    "coreset_eps": "--coreset-eps",
    "eps": "--eps",
    "radius": "--radius",
    "separability": "--separability",
}
_LEGEND = (
    "~ order of magnitude: O(.) and Omega(.) evaluated with constant 1, logarithms natural;",
    "* as published: rows B, C and beta rest on the paper's calibration, which is conditional on",
    "the data (dpkv calibrate prints the certified noise).",
    "With an estimated phi_opt, eta or varsigma, a guarantee is an estimate too.",
)
_AS_PUBLISHED = ("B", "C", "beta")


def guarantees(
    k: Annotated[int | None, typer.Option("--k", help="Number of centres.")] = None,
    m: Annotated[int | None, typer.Option("--m", help="Number of records.")] = None,
    d: Annotated[int | None, typer.Option("--d", help="Number of columns.")] = None,
    nodes: Annotated[
        int | None, typer.Option(help="Number of nodes that hold the records.")
    ] = None,
    smallest_node: Annotated[int | None, typer.Option(help="Records on the smallest node.")] = None,
    phi_opt: Annotated[float | None, typer.Option(help="Optimal potential, phi_opt.")] = None,
    phi_1: Annotated[
        float | None, typer.Option("--phi-1", help="Potential of a single centre, phi_1.")
    ] = None,
    spread: Annotated[
        float | None, typer.Option(help="Spread of the nodes, phi_s^F (distributed).")
    ] = None,
    probe_spread: Annotated[
        float | None, typer.Option(help="Spread of a summary, phi_s^probe (streams).")
    ] = None,
    variance: Annotated[
        float | None, typer.Option(help="Variance of all noisy centres, phi_var (private).")
    ] = None,
    eta: Annotated[float | None, typer.Option(help="Stretching by a summary (streams).")] = None,
    varsigma: Annotated[
        float | None, typer.Option(help="Width and accuracy of minibatches (on-line), up to 1.")
    ] = None,
    oversampling: Annotated[
        float | None, typer.Option(help="l of k-means|| (default: 2 k).")
    ] = None,
    coreset_eps: Annotated[float | None, typer.Option(help="Accuracy of a coreset.")] = None,
    eps: Annotated[float | None, typer.Option(help="Privacy parameter.")] = None,
    radius: Annotated[float | None, typer.Option(help="R of the private rows.")] = None,
    separability: Annotated[
        float | None, typer.Option(help="lambda of the sample-aggregate rows.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the paper's approximation guarantees and its comparison table, in numbers.

    A formula whose numbers are not all given is shown as it is written. No data are read.

    Example:  dpkv guarantees --k 10 --m 100000 --nodes 8 --phi-opt 5000 --spread 2000
    """
    from dpkv.paper.comparison import Facts

    if oversampling is None and k is not None:
        oversampling = 2.0 * k
    facts = Facts(
        n_clusters=k,
        n_records=m,
        n_features=d,
        n_nodes=nodes,
        smallest_node=smallest_node,
        optimum=phi_opt,
        single_potential=phi_1,
        node_spread=spread,
        probe_spread=probe_spread,
        variance=variance,
        stretching=eta,
        varsigma=varsigma,
        oversampling=oversampling,
        coreset_eps=coreset_eps,
        eps=eps,
        radius=radius,
        separability=separability,
    )
    _check(facts)
    if as_json:
        output.print_json(_result(facts))
    else:
        _show(facts)


def _check(facts: Facts) -> None:
    """Refuse every bad number, also one that no formula would come to ask for."""
    from dpkv.validation import non_negative_finite, positive_finite, whole_number

    may_be_zero = ("optimum", "node_spread", "probe_spread", "variance", "stretching", "varsigma")
    for name, value in facts.known.items():
        option = _OPTIONS[name]
        if isinstance(value, int):
            whole_number(option, value, at_least=1)
        elif name in may_be_zero:
            non_negative_finite(option, value)
        else:
            positive_finite(option, value)
    if facts.varsigma is not None and facts.varsigma > 1.0:
        raise ParameterError("--varsigma", "at most 1", facts.varsigma)
    if facts.n_records is not None:
        for name in ("n_clusters", "smallest_node"):
            value = getattr(facts, name)
            if value is not None and value > facts.n_records:
                raise ParameterError(_OPTIONS[name], f"at most --m, {facts.n_records}", value)


def _result(facts: Facts) -> dict[str, Any]:
    from dpkv import __version__
    from dpkv.paper.comparison import COMPARISONS, GUARANTEES

    return {
        "schema_version": 1,
        "kind": "guarantees",
        "dpkv_version": __version__,
        "facts": asdict(facts),
        "guarantees": [
            {"algorithm": row.algorithm, "theorem": row.theorem, **_entry(row.entry, facts)}
            for row in GUARANTEES
        ],
        "comparison": [
            {
                "row": row.label,
                "rival": row.rival,
                "reference": row.reference,
                "property": row.compared,
                "theirs": _entry(row.theirs, facts),
                "ours": _entry(row.ours, facts),
            }
            for row in COMPARISONS
        ],
    }


def _entry(entry: WrittenFormula, facts: Facts) -> dict[str, Any]:
    value = entry.value(facts)
    finite = value is not None and math.isfinite(value)
    return {
        "formula": entry.text,
        "order_of_magnitude": entry.order,
        "value": value if finite else None,
        "infinite": value is not None and not finite,
        "missing": [_OPTIONS[name] for name in entry.missing(facts)],
    }


def _show(facts: Facts) -> None:
    from dpkv.paper.comparison import COMPARISONS, GUARANTEES

    output.print_table(
        "guarantees on the expected potential",
        ["algorithm", "theorem", "formula", "value"],
        [
            [row.algorithm, row.theorem, row.entry.text, _number(row.entry, facts)]
            for row in GUARANTEES
        ],
        n_words=3,
    )
    rows = [
        [row.label, row.rival, row.compared, _cell(row.theirs, facts), _cell(row.ours, facts)]
        for row in COMPARISONS
    ]
    for cells in rows:
        cells[-1] += "*" if cells[0] in _AS_PUBLISHED else ""
    header = ["row", "rival", "property", "theirs", "ours"]
    output.print_table("comparison (Table tcomp)", header, rows, n_words=5)
    for sentence in _LEGEND:
        output.say(sentence)
    missing = {name for row in GUARANTEES for name in row.entry.missing(facts)}
    for row in COMPARISONS:
        missing.update(row.theirs.missing(facts), row.ours.missing(facts))
    if missing:
        output.say("for numbers in place of formulas: " + " ".join(_in_order(missing)))


def _in_order(names: set[str]) -> list[str]:
    return [option for name, option in _OPTIONS.items() if name in names]


def _number(entry: WrittenFormula, facts: Facts) -> str:
    value = entry.value(facts)
    if value is None:
        return "needs " + " ".join(_in_order(set(entry.missing(facts))))
    return f"{value:.6g}"


def _cell(entry: WrittenFormula, facts: Facts) -> str:
    value = entry.value(facts)
    if value is None:
        return entry.text
    return ("~ " if entry.order else "") + f"{value:.6g}"

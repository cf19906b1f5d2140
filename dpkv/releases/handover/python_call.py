"""The Python call that would repeat a plan: never the data, never the noise.

A record may come from anybody, so nothing of it reaches the program but as the repr of a plain
value. What the record does not hold, the table above all, is a name at the top for its reader to
set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dpkv.errors import UsageError
from dpkv.grid import GRID_BITS
from dpkv.releases.about import About
from dpkv.releases.plan import Plan
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.request import Request
from dpkv.releases.table_facts import ColumnFacts

NOT_IN_RECORDS = ("header", "encoding", "decimal")
"""Of a request: how the file was spelled, which is nobody else's business."""
_SEED = "SEED"
_ALWAYS = ("k", "eps", "bounds", "mechanism", "neighbours")


def call_text(record: ReleaseRecord) -> str:
    """Return a program of one call, which makes another release by the same plan."""
    plan = record.plan
    if plan.grid_bits != GRID_BITS:
        raise UsageError(
            f"the plan has a grid of 2^{plan.grid_bits} levels, and this dpkv releases on one of "
            f"2^{GRID_BITS}: take the version that wrote the record."
        )
    simulated = record.kind == "simulation"
    schema = None if _is_plain(plan) else _schema(record)
    return "\n".join(_lines(record, simulated, schema)) + "\n"


def _lines(record: ReleaseRecord, simulated: bool, schema: dict[str, Any] | None) -> Iterator[str]:
    plan, promise = record.plan, record.guarantee
    eps, delta = plan.exact_eps, plan.exact_delta  # numbers: they hold no text of anybody's
    told = f"eps = {eps:f}" + (f", delta = {delta:f}" if delta else "")
    yield '"""The call that would repeat the plan of a record, written by dpkv export.'
    yield ""
    if simulated:
        yield "It makes another simulation, with a seed of your own: nothing is charged."
    else:
        yield f"Running it makes another release, with noise of its own, and costs {told} again."
    if not promise.end_to_end:
        yield "The record states no guarantee from end to end, and neither would this call."
    if plan.behind_steps:
        yield "The release was made inside an estimator: earlier steps are not part of the call."
    yield '"""'
    yield ""
    yield "import dpkv"
    if schema is not None:
        yield "from dpkv.tables.schema import TableSchema"
    yield ""
    yield 'TABLE = "table.csv"  # set this: the record does not name the table'
    yield "HEADER = None  # set this for a CSV file: whether its first row holds names"
    for name, told in _missing_from(plan, simulated):
        yield f"{name} = ...  # set this: {told}"
    if schema is not None:
        yield ""
        yield "SCHEMA = TableSchema.model_validate("
        yield from _shown(schema, "    ")
        yield ")"
    yield ""
    yield f"made = dpkv.{'simulate' if simulated else 'release'}("
    yield "    TABLE,"
    for name, value in _arguments(plan, has_schema=schema is not None).items():
        yield f"    {name}={value},"
    yield "    header=HEADER,"
    if simulated:
        yield f"    seed={_SEED},"
    yield ")"
    yield 'made.write("repeated")'


def _missing_from(plan: Plan, simulated: bool) -> Iterator[tuple[str, str]]:
    if _has_ids(plan):
        yield "PERSONS", "one id per row, in the order of the table"
    if simulated:
        yield _SEED, "a whole number; the record does not hold the one that was used"


def _has_ids(plan: Plan) -> bool:
    """Tell whether persons were named by values beside the table, which no record holds."""
    return plan.unit.persons is not None and plan.unit.person_column is None


def _is_plain(plan: Plan) -> bool:
    """Tell whether options alone say what the columns were taken for."""
    table = plan.table
    special = any(one.categories or one.truth_values or one.influence != 1.0 for one in table)
    rules = {(one.missing, one.fill) for one in table}
    told = plan.unit.may_ignore == any(one.missing == "ignore" for one in table)
    return len(rules) == 1 and told and not special


def _arguments(plan: Plan, *, has_schema: bool) -> dict[str, str]:
    """Return the arguments that differ from a request's defaults, as Python source."""
    values = request_values(plan, has_schema=has_schema)
    defaults = {one.name: one.default for one in fields(Request)}
    told = {
        name: value if isinstance(value, _Source) else repr(value)
        for name, value in values.items()
        if name in _ALWAYS or value != defaults[name]
    }
    if has_schema and plan.bounds == "given":
        del told["bounds"]  # the schema has them
    return {name: str(source) for name, source in told.items()}


class _Source(str):
    """Python source, in place of a value."""

    __slots__ = ()


def request_values(plan: Plan, *, has_schema: bool) -> dict[str, Any]:
    """Return what a request must hold for such a plan; ``NOT_IN_RECORDS`` are left out."""
    unit, missing = plan.unit, _rule(plan.table[0])
    about = plan.about or About.model_construct()
    return {
        "k": plan.k if plan.fewest is None else (plan.fewest, plan.k),
        "eps": plan.eps,
        "bounds": _bounds(plan),
        "mechanism": plan.mechanism,
        "neighbours": plan.neighbours.value,
        "calibration": plan.calibration,
        "gamma": plan.gamma,
        "iterations": plan.iterations,
        "density": plan.density,
        "lloyd_steps": plan.lloyd_steps,
        "delta": 0 if plan.delta == "0" else plan.delta,
        "bounds_share": Request.bounds_share if plan.bounds_share is None else plan.bounds_share,
        "scaled": plan.scaled,
        "clamp": plan.clamp,
        "columns": [facts.name for facts in plan.table],
        "schema": _Source("SCHEMA") if has_schema else None,
        "missing": None if has_schema or missing == "refuse" else missing,
        "person": _Source("PERSONS") if _has_ids(plan) else unit.person_column,
        "rows_per_person": unit.rows_per_person,
        "one_row_per_person": "mean" if unit.persons == "mean" else None,
        "publisher": about.publisher,
        "data_about": about.data,
        "purpose": about.purpose,
        "weight": None if has_schema else unit.weight_column,
        "most_weight": None if has_schema else unit.most_weight,
    }


def _rule(facts: ColumnFacts) -> str:
    """Return the rule for missing cells as a person writes it."""
    return f"fill:{facts.fill}" if facts.missing == "fill" else facts.missing


def _bounds(plan: Plan) -> Any:
    if plan.domain is None:
        return plan.bounds
    domain = plan.domain
    if domain["kind"] == "l1-ball":
        center, radius = tuple(domain["center"]), domain["radius"]
        return _Source(f"dpkv.L1Ball({center!r}, {radius!r})")
    return [list(pair) for pair in zip(domain["lower"], domain["upper"], strict=True)]


def _schema(record: ReleaseRecord) -> dict[str, Any]:
    """Return a schema that says of the columns what the plan says.

    A schema has bounds for every number, also where a call finds its own.
    """
    plan = record.plan
    pairs = iter(zip(*record.extent, strict=True))
    found = []
    for facts in plan.table:
        own = [next(pairs) for _ in range(facts.column.width)]
        found.append(_field(facts, own[0]))
    if plan.unit.person_column is not None:
        found.append({"name": plan.unit.person_column, "dpkv": {"role": "person"}})
    if plan.unit.weight_column is not None:
        found.append(_weight_field(plan))
    return {"fields": found}


def _weight_field(plan: Plan) -> dict[str, Any]:
    unit = plan.unit
    assert unit.weight_facts is not None
    settings = {"role": "weight", "missing": unit.weight_facts.missing.kind}
    limits = {"maximum": unit.most_weight}
    return {"name": unit.weight_column, "type": "number", "constraints": limits, "dpkv": settings}


def _field(facts: ColumnFacts, pair: tuple[float, float]) -> dict[str, Any]:
    settings = {"missing": _rule(facts), "influence": facts.influence}
    kind = "number"
    limits: dict[str, Any] = {"minimum": pair[0], "maximum": pair[1]}
    if facts.categories:
        kind, limits = "string", {"enum": list(facts.categories)}
    elif facts.truth_values:
        kind, limits = "boolean", {}
    return {"name": facts.name, "type": kind, "constraints": limits, "dpkv": settings}


def _shown(schema: dict[str, Any], indent: str) -> Iterator[str]:
    yield f'{indent}{{"fields": ['
    for one in schema["fields"]:
        yield f"{indent}    {one!r},"
    yield f"{indent}]}}"

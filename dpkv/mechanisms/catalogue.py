"""The mechanisms by name: calibrated for an eps, and rebuilt from what a record says of them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dpkv.calibration.amplified import DEFAULT_GAMMA
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.mechanisms.gupt import Gupt
from dpkv.mechanisms.kvariates import Forgy, KVariates, Laplace, Published
from dpkv.mechanisms.lloyd import Lloyd
from dpkv.mechanisms.mechanism import Mechanism, Neighbours, refuse_add_remove
from dpkv.mechanisms.synopsis import Synopsis
from dpkv.validation import one_of

_KINDS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (KVariates, Laplace, Forgy, Gupt, Lloyd, Synopsis)
}
MECHANISMS = tuple(_KINDS)
"""The names that a release accepts."""
AUTO = "auto"
"""The name that stands for the mechanism of least predicted error."""
_USES_DELTA = (Synopsis.name,)
_PURE = Decimal(0)
_COVERS_ADD_REMOVE = (Laplace.name, Forgy.name, Lloyd.name, Synopsis.name)
_NEEDS_M = "Their proofs take the number of records as public; under add/remove it is not."


def check_request(
    name: str,
    neighbours: Neighbours,
    iterations: int | None = None,
    delta: Decimal = _PURE,
) -> None:
    """Refuse what no mechanism of that name can do, before any data are read."""
    one_of("mechanism", name, (*MECHANISMS, AUTO))
    if name == AUTO:
        if iterations is not None:
            raise ParameterError("iterations", "left out unless mechanism is 'lloyd'", iterations)
        return
    if delta > 0 and name not in _USES_DELTA:
        raise ParameterError(
            "delta", f"0 for mechanism {name!r}", f"{delta:f}", "Its guarantee is pure eps."
        )
    if name not in _COVERS_ADD_REMOVE:
        refuse_add_remove(name, neighbours, f"{_NEEDS_M} {', '.join(_COVERS_ADD_REMOVE)} do.")
    if iterations is not None and name != Lloyd.name:
        raise ParameterError("iterations", "left out unless mechanism is 'lloyd'", iterations)


def calibrated(
    name: str,
    eps: Decimal,
    *,
    n_records: int,
    n_clusters: int,
    grid: Grid,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    gamma: float = DEFAULT_GAMMA,
    iterations: int | None = None,
    delta: Decimal = _PURE,
) -> Mechanism:
    """Return the mechanism of that name with the least noise that ``eps`` and ``delta`` allow."""
    check_request(name, neighbours, iterations, delta)
    if name == KVariates.name:
        return KVariates.calibrated(
            eps, n_records=n_records, n_clusters=n_clusters, grid=grid, gamma=gamma
        )
    if name == Gupt.name:
        return Gupt.calibrated(eps, n_records=n_records, n_clusters=n_clusters, grid=grid)
    if name == Synopsis.name:
        return Synopsis.calibrated(
            eps, n_clusters=n_clusters, grid=grid, neighbours=neighbours, delta=delta
        )
    if name == Lloyd.name:
        return Lloyd.calibrated(
            eps,
            n_clusters=n_clusters,
            grid=grid,
            neighbours=neighbours,
            n_records=n_records,
            iterations=iterations,
        )
    plain = Forgy if name == Forgy.name else Laplace
    return plain.calibrated(eps, n_clusters=n_clusters, grid=grid, neighbours=neighbours)


def from_description(description: Mapping[str, Any], grid: Grid) -> Mechanism:
    """Rebuild a mechanism from ``describe``; every field is checked by the mechanism itself."""
    fields = dict(description)
    try:
        name = fields.pop("name")
        proof = fields.pop("proof")
        neighbours = Neighbours(fields.pop("neighbours"))
        if any(type(value) not in (int, float, type(None)) for value in fields.values()):
            raise TypeError
        kind: type[Mechanism] = Published if proof == "published" else _KINDS[name]
        mechanism = kind(
            n_clusters=fields.pop("k"),
            grid=grid,
            neighbours=neighbours,
            **fields,
        )
        if describe(mechanism) != dict(description):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, UsageError) else ""
        raise UsageError(f"the description of the mechanism does not make sense{reason}") from None
    return mechanism


def describe(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as plain JSON values, all public."""
    return {
        "name": mechanism.name,
        "proof": mechanism.proof,
        "k": mechanism.n_clusters,
        "neighbours": mechanism.neighbours.value,
        **mechanism.parameters(),
    }

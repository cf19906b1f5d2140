"""The mechanisms by name. The only list of them: help texts, audits and tests read it.

To add one, write its module, a frozen subclass of ``Mechanism``, and add a line here. Everything
that differs between mechanisms is an attribute or a method of theirs.

A mechanism's module is imported when it is first needed, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpkv.errors import ParameterError, UsageError

if TYPE_CHECKING:
    from dpkv.accounting import Neighbours, Unit
    from dpkv.grid import Grid
    from dpkv.mechanisms.mechanism import Mechanism, Terms

AUTO = "auto"
"""The name that stands for the mechanism with the smallest predicted error."""
PAPERS = "kvariates"
"""The paper's own mechanism: ``auto`` shows its prediction beside whichever is taken."""

_HOMES: dict[str, str] = {
    "kvariates": "dpkv.mechanisms.kvariates:KVariates",
    "laplace": "dpkv.mechanisms.kvariates:Laplace",
    "forgy": "dpkv.mechanisms.kvariates:Forgy",
    "gupt": "dpkv.mechanisms.gupt:Gupt",
    "lloyd": "dpkv.mechanisms.lloyd:Lloyd",
    "synopsis": "dpkv.mechanisms.synopsis:Synopsis",
}
_UNPROVED = "dpkv.mechanisms.kvariates:Published"
"""Behind the name of k-variates++ at noise that nothing proves; a record says so."""


class _Names(Mapping[str, "type[Mechanism]"]):
    """The names that a release accepts, and the mechanism of each."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes
        self._known: dict[str, type[Mechanism]] = {}
        self.shipped = tuple(homes)
        """Those that come with dpkv, so that everybody has them."""

    def __getitem__(self, name: str) -> type[Mechanism]:
        if name not in self._known:
            self._known[name] = _imported(self._homes[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def register(self, kind: type[Mechanism]) -> type[Mechanism]:
        """Add a mechanism of somebody's own; also a decorator."""
        if kind.name in self._homes or kind.name == AUTO:
            raise ParameterError("name", "that of no other mechanism", kind.name)
        self._homes[kind.name] = f"{kind.__module__}:{kind.__qualname__}"
        self._known[kind.name] = kind
        return kind

    def forget(self, kind: type[Mechanism]) -> None:
        """Take a mechanism out again."""
        del self._homes[kind.name], self._known[kind.name]


def _imported(home: str) -> type[Mechanism]:
    module, _, name = home.partition(":")
    kind: type[Mechanism] = getattr(import_module(module), name)
    return kind


MECHANISMS = _Names(_HOMES)


def names_in_words() -> str:
    """Return the names as a sentence has them."""
    *others, last = MECHANISMS
    return f"{', '.join(others)} or {last}"


def names_with(ability: str) -> tuple[str, ...]:
    """Return the names of the mechanisms of which an attribute is true."""
    return tuple(name for name, kind in MECHANISMS.items() if getattr(kind, ability))


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


def check_request(
    name: str,
    neighbours: Neighbours,
    iterations: int | None = None,
    delta: Decimal = Decimal(0),
    density: str | None = None,
    lloyd_steps: int | None = None,
    fewest: int | None = None,
    unit: Unit | None = None,
) -> None:
    """Refuse what no mechanism of that name can do, before any data are read."""
    from dpkv.mechanisms.mechanism import DENSITIES  # noqa: PLC0415 (heavy)
    from dpkv.validation import one_of  # noqa: PLC0415 (heavy)

    one_of("mechanism", name, (*MECHANISMS, AUTO))
    kind = None if name == AUTO else MECHANISMS[name]
    if iterations is not None and (kind is None or not kind.takes_iterations):
        able = _either(names_with("takes_iterations"))
        raise ParameterError("iterations", f"left out unless mechanism is {able}", iterations)
    if density is not None:
        one_of("density", density, DENSITIES)
    if density is not None and (kind is None or density not in kind.densities):
        able = _either(names_with("densities"))
        raise ParameterError("density", f"left out unless mechanism is {able}", density)
    if lloyd_steps is not None and (kind is None or not kind.takes_lloyd_steps):
        able = _either(names_with("takes_lloyd_steps"))
        raise ParameterError("lloyd_steps", f"left out unless mechanism is {able}", lloyd_steps)
    if kind is None:
        return
    if fewest is not None and not kind.chooses_number:
        able = _either(names_with("chooses_number"))
        raise ParameterError("k", f"one number unless mechanism is {able} or 'auto'", "a range")
    if delta > 0 and not kind.uses_delta:
        raise ParameterError(
            "delta", f"0 for mechanism {name!r}", f"{delta:f}", "Its guarantee is pure eps."
        )
    if unit is not None and not unit.is_plain and not kind.knows_units:
        able = ", ".join(names_with("knows_units"))
        raise ParameterError(
            "mechanism",
            "one whose proof covers persons and weights",
            name,
            f"Take one of {able}, or leave person and weight out.",
        )
    if unit is not None and not unit.even and kind.needs_even_units:
        able = _either(own for own in MECHANISMS if own not in names_with("needs_even_units"))
        raise ParameterError(
            "mechanism",
            f"{able} where rows may weigh less than others",
            name,
            "Its proof needs every record to weigh the same: leave out survey weights and "
            "rows_per_person, and give missing values the rule refuse or fill.",
        )
    if neighbours not in kind.relations:
        able = ", ".join(own for own, one in MECHANISMS.items() if neighbours in one.relations)
        raise ParameterError(
            "neighbours",
            f"'{kind.relations[0].value}' for {name}",
            neighbours.value,
            f"Its proof takes the number of records as public, and under {neighbours.value} it is "
            f"not; {able} do without.",
        )


def for_terms(name: str, terms: Terms) -> Mechanism:
    """Return the mechanism of that name with the least noise that the terms allow."""
    check_request(
        name,
        terms.neighbours,
        terms.iterations,
        terms.delta,
        terms.density,
        terms.lloyd_steps,
        terms.fewest,
        terms.unit,
    )
    return MECHANISMS[name].for_terms(terms)


def calibrate_mechanism(
    name: str,
    eps: Decimal,
    *,
    n_records: int,
    n_clusters: int,
    grid: Grid,
    **others: Any,
) -> Mechanism:
    """Return the mechanism of that name for ``Terms`` given one by one."""
    from dpkv.mechanisms.mechanism import Terms  # noqa: PLC0415 (heavy)

    return for_terms(
        name, Terms.of(eps, n_records=n_records, n_clusters=n_clusters, grid=grid, **others)
    )


def from_description(description: Mapping[str, Any], grid: Grid) -> Mechanism:
    """Rebuild a mechanism from ``describe``; every field is checked by the mechanism itself."""
    from dpkv.accounting import Neighbours, Unit  # noqa: PLC0415 (heavy)

    fields = dict(description)
    try:
        name = fields.pop("name")
        proof = fields.pop("proof")
        neighbours = Neighbours(fields.pop("neighbours"))
        unit = Unit.from_dict(fields.pop("unit"))
        if any(type(value) not in (int, float, type(None)) for value in fields.values()):
            raise TypeError
        kind = find_kind(name, proof)
        mechanism = kind(
            n_clusters=fields.pop("k"),
            grid=grid,
            neighbours=neighbours,
            unit=unit,
            **fields,
        )
        if describe(mechanism) != dict(description):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, UsageError) else ""
        raise UsageError(f"the description of the mechanism does not make sense{reason}") from None
    return mechanism


def find_kind(name: str, proof: str) -> type[Mechanism]:
    """Return the mechanism that a record names, and whose proof is of that code."""
    from dpkv.mechanisms.mechanism import NO_PROOF  # noqa: PLC0415 (heavy)

    return _imported(_UNPROVED) if proof == NO_PROOF else MECHANISMS[name].of_proof(proof)


def describe(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as plain JSON values, all public."""
    return {
        "name": mechanism.name,
        "proof": mechanism.proof,
        "k": mechanism.n_clusters,
        "neighbours": mechanism.neighbours.value,
        "unit": mechanism.unit.to_dict(),
        **mechanism.parameters(),
    }

"""What must hold for every ledger: sums that never fall short, and no alteration unnoticed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpkv.errors import BudgetError, LedgerError, UsageError
from dpkv.ledger import NEIGHBOURS, Entry, Ledger, budget_units, charge_units

untimed = settings(deadline=None)
on_disk = settings(deadline=None, max_examples=40)

neighbours = st.sampled_from(NEIGHBOURS)
fine = st.decimals(Decimal("1e-40"), Decimal(1_000_000), allow_nan=False, places=40)
coarse = st.integers(1, 10**9).map(lambda n: Decimal(n).scaleb(-9))
epsilons = st.one_of(
    fine.filter(bool), coarse, st.floats(1e-12, 1e6).map(lambda x: Decimal(repr(x)))
)


def charge(
    ledger: Ledger,
    release_id: str,
    eps: Decimal,
    relation: str = "replace-one",
    *,
    end_to_end: bool = True,
) -> Entry:
    return ledger.charge(
        release_id=release_id,
        dataset="d1",
        label="x.csv",
        eps=eps,
        neighbours=relation,
        end_to_end=end_to_end,
        plan_digest="a" * 64,
    ).entry


@untimed
@given(epsilons)
@example(Decimal("0.1"))
@example(Decimal("1000000"))
def test_units_are_the_next_billionth(eps: Decimal) -> None:
    """Against exact fractions, which round nothing."""
    exact = Fraction(eps) * 10**9
    assert charge_units(eps) == ceil(exact) >= exact
    assert budget_units(eps) == floor(exact)


@untimed
@given(epsilons, epsilons)
def test_units_grow_with_eps(one: Decimal, two: Decimal) -> None:
    less, more = sorted((one, two))
    assert charge_units(less) <= charge_units(more)
    assert budget_units(less) <= budget_units(more)


@untimed
@given(st.lists(epsilons, min_size=1, max_size=8))
def test_charges_that_fit_have_eps_that_fit(parts: list[Decimal]) -> None:
    """Rounding up and down never lets the true sum pass the true budget."""
    total = sum(map(Fraction, parts))
    spent = sum(charge_units(part) for part in parts)
    assert Fraction(spent, 10**9) >= total


@on_disk
@given(st.lists(coarse, min_size=1, max_size=6))
@example([Decimal("0.1")] * 5)
@example([Decimal("0.1"), Decimal("0.2"), Decimal("0.3")])
def test_parts_that_add_up_to_the_budget_fit_exactly(parts: list[Decimal]) -> None:
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / ".dpkv")
        ledger.set_budget(dataset="d1", label="x.csv", eps=sum(parts, Decimal(0)))
        for number, part in enumerate(parts):
            charge(ledger, str(number), part)
        assert ledger.read().account("d1").remaining == 0
        with pytest.raises(BudgetError):
            charge(ledger, "one more", Decimal("1e-9"))


small = st.integers(1, 40).map(lambda n: Decimal(n).scaleb(-1))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("budget"), small, neighbours),
        st.tuples(st.just("charge"), small, neighbours),
    ),
    max_size=10,
)


@on_disk
@given(steps)
def test_an_accepted_charge_never_passes_the_budget(
    sequence: list[tuple[str, Decimal, str]],
) -> None:
    """Against a model in exact fractions: the same charges are accepted, the same refused."""
    budget, spent, n_entries, own = None, Fraction(0), 0, None
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / ".dpkv")
        for number, (kind, eps, relation) in enumerate(sequence):
            cost = Fraction(eps)
            if own not in (None, relation):
                with pytest.raises(UsageError, match="do not add up"):
                    if kind == "budget":
                        ledger.set_budget(dataset="d1", label="x.csv", eps=eps, neighbours=relation)
                    else:
                        charge(ledger, str(number), eps, relation)
                continue
            if kind == "budget":
                ledger.set_budget(dataset="d1", label="x.csv", eps=eps, neighbours=relation)
                budget = Fraction(eps)
            elif budget is not None and spent + cost > budget:
                with pytest.raises(BudgetError) as refused:
                    charge(ledger, str(number), eps, relation)
                assert Fraction(refused.value.difference) == spent + cost - budget
                assert len(ledger.verify()) == n_entries
                continue
            else:
                charge(ledger, str(number), eps, relation)
                spent += cost
                assert budget is None or ledger.read().account("d1").spent <= budget
            n_entries += 1
            own = relation
        assert len(ledger.verify()) == n_entries
        account = ledger.read().account("d1")
        assert Fraction(account.spent) == spent
        assert (None if account.remaining is None else Fraction(account.remaining)) == (
            None if budget is None else budget - spent
        )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / ".dpkv")
    ledger.set_budget(dataset="d1", label="x.csv", eps=Decimal(2))
    for number, end in enumerate((True, False) * 2):
        charge(ledger, str(number), Decimal("0.1"), end_to_end=end)
    return ledger


TEXTS = (
    "release_id", "dataset", "label", "neighbours", "unit", "plan_digest", "details", "created",
    "previous", "salt",
)  # fmt: skip
texts = st.text(st.characters(codec="utf-8"), max_size=70) | st.sampled_from(
    ["charge", "budget", *NEIGHBOURS, "d1", "0" * 64, "a" * 64]
)
integers = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
alterations = st.one_of(
    st.tuples(st.sampled_from([*TEXTS, "kind", "digest"]), texts),
    st.tuples(st.sampled_from(["nano_eps", "end_to_end", "number"]), integers),
    st.tuples(
        st.sampled_from(["release_id", "end_to_end", "neighbours", "plan_digest"]), st.none()
    ),
)


@untimed
@given(st.integers(1, 5), alterations)
@example(2, ("end_to_end", 2))
@example(5, ("number", 6))
@example(1, ("release_id", ""))
def test_any_altered_field_is_found(
    original: Ledger, number: int, alteration: tuple[str, str | int | None]
) -> None:
    field, value = alteration
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        shutil.copy(original.path, ledger.path)
        if not altered(ledger, number, field, value):
            assert len(ledger.verify()) == 5  # the copy itself is no alteration
            return
        for call in (ledger.verify, ledger.prepare):
            with pytest.raises(LedgerError, match=r"entry \d (was altered|is missing)"):
                call()


def altered(ledger: Ledger, number: int, field: str, value: str | int | None) -> bool:
    """Set a field behind the ledger's back; tell whether that changed anything."""
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints=ON")
        db.execute("DROP TRIGGER no_update")
        known = db.execute(f"SELECT {field} FROM entries WHERE number = ?", (number,)).fetchone()[0]
        taken = {row[0] for row in db.execute(f"SELECT {field} FROM entries")}
        if field in ("number", "release_id") and value in taken and value is not None:
            return False  # both are unique: SQLite refuses
        db.execute(f"UPDATE entries SET {field} = ? WHERE number = ?", (value, number))
    return bool(known != value)

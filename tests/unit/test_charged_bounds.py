"""Private bounds of a release: charged apart, found once; it stops where noise hides them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpkv
from dpkv.errors import BoundsNotFoundError, BudgetError, UsageError
from dpkv.fingerprints import array_fingerprint
from dpkv.ledger import Ledger
from dpkv.mechanisms import PrivateBounds
from dpkv.noise import OperatingSystemEntropy
from dpkv.records import ArrayRecords, Curator, Question
from dpkv.records.questions import MagnitudeHistograms
from dpkv.releases import verify
from dpkv.releases.verify import failed

WIDE = np.random.default_rng(0).uniform(1.0, 2.0, (2000, 16))
"""Sixteen columns at a small eps: no bin of any column can stand out."""
CLEAR = np.random.default_rng(1).uniform(1.0, 2.0, (20_000, 2))
HIDDEN: dict[str, Any] = {"k": 3, "eps": 0.25, "bounds": "private", "release_id": "mine"}
FOUND: dict[str, Any] = {"k": 3, "eps": 1, "bounds": "private", "release_id": "mine"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".dpkv"


def charged(workspace: Path) -> dict[str | None, Decimal]:
    entries = Ledger(workspace).read().entries
    return {entry.release_id: entry.eps for entry in entries if entry.kind == "charge"}


def failing(*_: object, **__: object) -> Any:
    raise RuntimeError("power cut")


def never(*_: object, **__: object) -> Any:
    raise AssertionError("drawn again")


# --- where noise hides them -------------------------------------------------------------------


def test_a_release_stops_with_the_share_charged_and_nothing_more(workspace: Path) -> None:
    with pytest.raises(BoundsNotFoundError) as stopped:
        dpkv.release(WIDE, **HIDDEN)
    assert charged(workspace) == {"mine:bounds": Decimal("0.025")}
    assert not (workspace / "releases").exists()
    assert stopped.value.columns == tuple(f"x{number}" for number in range(1, 17))
    sentence = str(stopped.value)
    assert "found in x1, x2, x3" in sentence and "x8 and 8 more" in sentence
    assert "share of eps, 0.025, was charged, and nothing more" in sentence
    assert "give public bounds" in sentence and "under a new id" in sentence


def test_asking_again_neither_draws_nor_charges(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BoundsNotFoundError) as first:
        dpkv.release(WIDE, **HIDDEN)
    entries = Ledger(workspace).read().entries
    monkeypatch.setattr(PrivateBounds, "run", never)
    with pytest.raises(BoundsNotFoundError) as again:
        dpkv.release(WIDE, **HIDDEN)
    assert str(again.value) == str(first.value)
    assert Ledger(workspace).read().entries == entries


@pytest.mark.parametrize(
    "changes", [{"eps": 0.5}, {"bounds_share": 0.2}, {"k": 2}, {"mechanism": "lloyd"}]
)
def test_the_id_is_for_one_plan(changes: dict[str, Any], workspace: Path) -> None:
    with pytest.raises(BoundsNotFoundError):
        dpkv.release(WIDE, **HIDDEN)
    with pytest.raises(UsageError, match=r"charged for another release .*: take a new id"):
        dpkv.release(WIDE, **{**HIDDEN, **changes})
    assert charged(workspace) == {"mine:bounds": Decimal("0.025")}


def test_given_bounds_then_finish_under_the_same_id(workspace: Path) -> None:
    with pytest.raises(BoundsNotFoundError):
        dpkv.release(WIDE, **HIDDEN)
    done = dpkv.release(WIDE, **{**HIDDEN, "bounds": (1, 2)})
    assert charged(workspace) == {"mine:bounds": Decimal("0.025"), "mine": Decimal("0.25")}
    assert not failed(verify(done.record, workspace=workspace))


def test_simulations_and_callers_with_an_account_of_their_own_stop_too(workspace: Path) -> None:
    asked = {"k": 3, "eps": 0.25, "bounds": "private"}
    with pytest.raises(BoundsNotFoundError, match=r"0\.025, would be spent"):
        dpkv.simulate(WIDE, **asked, seed=0)
    with pytest.raises(BoundsNotFoundError, match=r"0\.025, was spent"):
        dpkv.release(WIDE, **asked, workspace=None)
    assert not workspace.exists()


# --- two charges ------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("eps", ["1", "0.7", "3.000000001", "2.3333333333333333333"])
def test_both_charges_add_up_to_eps(
    eps: str, share: float, neighbours: str, workspace: Path
) -> None:
    """To the ledger's unit, so that a budget of eps suffices."""
    whole = Decimal(eps).quantize(Decimal("1e-9"), rounding="ROUND_CEILING")
    ledger = Ledger(workspace)
    ledger.prepare()
    fingerprint = array_fingerprint(CLEAR, workspace)
    ledger.set_budget(dataset=fingerprint, label="array", eps=whole, neighbours=neighbours)
    asked = {**FOUND, "eps": eps, "bounds_share": share, "neighbours": neighbours}
    record = dpkv.release(CLEAR, **asked, mechanism="lloyd").record
    assert sum(charged(workspace).values()) == record.charged == whole
    assert not failed(verify(record, workspace=workspace))


def test_a_budget_for_the_share_alone_is_refused_before_it_is_charged(workspace: Path) -> None:
    ledger = Ledger(workspace)
    ledger.prepare()
    fingerprint = array_fingerprint(CLEAR, workspace)
    ledger.set_budget(dataset=fingerprint, label="array", eps=Decimal("0.5"))
    with pytest.raises(BudgetError, match=r"requested eps 1, remaining 0\.5"):
        dpkv.release(CLEAR, **FOUND)
    assert charged(workspace) == {}


def test_a_share_below_the_ledgers_unit_is_refused(workspace: Path) -> None:
    with pytest.raises(UsageError, match=r"bounds_share must be a share of at least eps = 0\.0000"):
        dpkv.release(CLEAR, **{**FOUND, "eps": "0.000000002"})
    assert charged(workspace) == {}


def _no_bounds_drawn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrivateBounds, "run", failing)


def _bounds_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpkv.releases.charged_bounds.write_once", failing)


def _bounds_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "keep", failing)


def _release_not_charged(patch: pytest.MonkeyPatch) -> None:
    charge = Ledger.charge

    def only_bounds(self: Ledger, **asked: Any) -> Any:
        return charge(self, **asked) if asked["release_id"] == "mine:bounds" else failing()

    patch.setattr(Ledger, "charge", only_bounds)


def _no_centers_drawn(patch: pytest.MonkeyPatch) -> None:
    answer = Curator.__call__

    def only_bounds(curator: Curator, question: Question) -> Any:
        return answer(curator, question) if isinstance(question, MagnitudeHistograms) else failing()

    patch.setattr(Curator, "__call__", only_bounds)


def _release_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpkv.releases.produce.keep_first", failing)


CRASHES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool, int]] = {
    "before bounds are drawn": (_no_bounds_drawn, False, 1),
    "before bounds are kept": (_bounds_not_kept, False, 1),
    "before bounds are noted": (_bounds_not_noted, True, 1),
    "between the charges": (_release_not_charged, True, 1),
    "before centers are drawn": (_no_centers_drawn, True, 2),
    "before the release is kept": (_release_not_kept, True, 2),
}


@pytest.mark.parametrize(("crash", "kept", "n_charges"), CRASHES.values(), ids=CRASHES)
def test_after_a_crash_the_id_finishes_with_the_same_bounds_charged_once(
    crash: Callable[[pytest.MonkeyPatch], None],
    kept: bool,
    n_charges: int,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        with monkeypatch.context() as patch:
            crash(patch)
            with pytest.raises(RuntimeError, match="power cut"):
                dpkv.release(CLEAR, **FOUND)
        assert len(charged(workspace)) == n_charges
    path = workspace / "bounds" / "mine.json"
    before = path.read_text() if kept else None
    if kept:
        monkeypatch.setattr(PrivateBounds, "run", never)
    record = dpkv.release(CLEAR, **FOUND).record
    assert kept is False or path.read_text() == before
    assert charged(workspace) == {"mine:bounds": Decimal("0.1"), "mine": Decimal("0.9")}
    assert not failed(verify(record, workspace=workspace))
    assert dpkv.release(CLEAR, **FOUND).record == record


def test_of_two_runs_of_an_id_the_bounds_that_came_first_count(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = PrivateBounds.run
    first: list[Any] = []

    def while_another_runs(self: PrivateBounds, *given: Any, **named: Any) -> Any:
        monkeypatch.setattr(PrivateBounds, "run", draw)
        first.append(dpkv.release(CLEAR, **FOUND).record)
        far = ArrayRecords(np.full((20_000, 2), 1e6))
        others = Curator(far, OperatingSystemEntropy(), self.neighbours, self.schedule())
        return draw(self, others, *given[1:], **named)

    monkeypatch.setattr(PrivateBounds, "run", while_another_runs)
    assert dpkv.release(CLEAR, **FOUND).record == first[0]
    assert first[0].bounds.domain["upper"] == [2.0, 2.0]
    assert sum(charged(workspace).values()) == 1


def test_altered_or_lost_bounds_are_not_drawn_anew(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _release_not_charged(patch)
        with pytest.raises(RuntimeError):
            dpkv.release(CLEAR, **FOUND)
    path = workspace / "bounds" / "mine.json"
    text = path.read_text()
    monkeypatch.setattr(PrivateBounds, "run", never)
    path.write_text(text.replace("2.0", "4.0"))
    with pytest.raises(UsageError, match="restore its file from a backup"):
        dpkv.release(CLEAR, **FOUND)
    path.write_text("{")
    with pytest.raises(UsageError, match=r"mine\.json cannot be read: restore it from a backup"):
        dpkv.release(CLEAR, **FOUND)
    path.unlink()
    with pytest.raises(UsageError, match="were found before, and their file is gone"):
        dpkv.release(CLEAR, **FOUND)
    path.write_text(text)
    dpkv.release(CLEAR, **FOUND)
    path.unlink()  # the release is kept itself
    dpkv.release(CLEAR, **FOUND)
    assert len(charged(workspace)) == 2

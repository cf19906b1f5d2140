"""The scripts of audits/: reference sides calculate what dpkv does, reports are where they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dpkv.audits.losses import exact_losses, list_replacements
from dpkv.ledger import chain
from dpkv.mechanisms import MECHANISMS
from dpkv.noise import SeededEntropy
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.records import run_on_points

ROOT = Path(__file__).resolve().parents[2]


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_numpy_loop_agrees_with_the_random_search() -> None:
    points = np.random.default_rng(0).normal(size=(200, 2))
    draws = random_neighbourhoods(points, 4, 50, np.random.default_rng(1))
    least, fall = script("audits/calibration_speed.py").numpy_estimates(points, draws)
    found = estimate(points, draws)
    np.testing.assert_allclose((found.least_remaining, found.monotonicity), (least, fall))


def test_the_numpy_losses_agree_with_the_exact_ones() -> None:
    module = script("audits/release_speed.py")
    mechanism, points = module.prepared(300, 2, 3)
    output = mechanism.grid.clip(run_on_points(mechanism, points, SeededEntropy(1)).centers)
    tried = list_replacements(mechanism.grid, output, 20)
    expected = module.numpy_losses(mechanism, points, output, tried)
    assert exact_losses(mechanism, points, output, tried).largest == pytest.approx(expected)


def test_the_numpy_release_draws_as_many_centers() -> None:
    module = script("audits/release_speed.py")
    mechanism, points = module.prepared(300, 2, 3)
    assert module.numpy_release(mechanism, points, SeededEntropy(1)).shape == (3, 2)


def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    """The small sample of audits/flipped_ledger.py."""
    counts, bad = script("audits/flipped_ledger.py").campaign(tmp_path, 120, knowing=False)
    assert bad == [] and counts["refused"] > 5 and counts["harmless"] > 5


@pytest.mark.parametrize(("fault", "fate"), [(None, "let through"), (KeyError, "not dpkv's")])
def test_flipped_bits_find_a_chain_that_nobody_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[Exception] | None, fate: str
) -> None:
    def unchecked(*_: object) -> None:
        """The planted fault: no digest is looked at, or the comparison fails itself."""
        if fault is not None and (tmp_path / "tried").exists():
            raise fault

    module = script("audits/flipped_ledger.py")
    monkeypatch.setattr(chain, "fault", unchecked)
    counts, bad = module.campaign(tmp_path, 40, knowing=False)
    assert counts[fate] == len(bad) > 0


def test_one_report_is_committed_and_the_others_are_built() -> None:
    module = script("audits/run_specs.py")
    reports = ROOT / "audits" / "reports"
    assert [folder.name for folder in reports.iterdir()] == list(module.COMMITTED)
    specs = sorted((ROOT / "audits").glob("*.toml"))
    assert len(specs) > len(module.COMMITTED)
    for spec in specs:
        target = module.target_of(spec.stem)
        place = reports if spec.stem in module.COMMITTED else ROOT / "build" / "audits"
        assert target == place / spec.stem


def test_tables_of_accuracy_show_what_was_measured() -> None:
    module = script("audits/accuracy_tables.py")
    for page in (module.README, module.PAGE):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert module.renewed(page, text) == text
        altered = text.replace(" to 1.0", " to 1.1", 1)  # planted fault
        assert altered != text
        assert module.renewed(page, altered) == text


def test_every_mechanism_of_the_registry_is_in_the_table() -> None:
    module = script("audits/accuracy_tables.py")
    ours = {name for name, kind in MECHANISMS.items() if kind.__module__.startswith("dpkv.")}
    assert ours <= set(module.MECHANISMS.values())
    assert set(module.MECHANISMS.values()) == set(module.read("mechanisms_table")["potentials"])

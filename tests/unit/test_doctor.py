"""``dpkv doctor``: every kind of fault is found, and looking changes nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run import in_process

import dpkv
from dpkv import doctor
from dpkv.doctor import Finding
from dpkv.noise import OperatingSystemEntropy

MEBIBYTE = 1 << 20


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a release in its ledger."""
    home = tmp_path / "home"
    points = np.random.default_rng(0).uniform(0, 1, (60, 1))
    dpkv.release(points, k=1, eps=1, bounds=(0, 1), mechanism="laplace", workspace=home)
    return home


def modes(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mode for path in [folder, *sorted(folder.rglob("*"))]}


# -- the workspace ---------------------------------------------------------------------------------


def test_a_sound_workspace_passes_and_stays_as_it_is(workspace: Path) -> None:
    before = modes(workspace)
    assert doctor._workspace(workspace).passed and doctor._ledger(workspace).passed
    assert modes(workspace) == before


def test_a_workspace_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "deep" / "home"
    assert doctor._workspace(missing).passed is None
    assert doctor._ledger(missing).passed is None
    assert not missing.parent.exists()


def test_what_others_may_read_is_named_and_left_so(workspace: Path) -> None:
    workspace.chmod(0o755)
    (workspace / "keys").chmod(0o750)
    before = modes(workspace)
    found = doctor._workspace(workspace)
    assert found.passed is False and "keys" in found.detail and "chmod -R go=" in found.detail
    assert modes(workspace) == before


def test_open_files_in_a_closed_folder_are_closed(workspace: Path) -> None:
    (workspace / "ledger.sqlite").chmod(0o644)
    assert doctor._workspace(workspace).passed


def test_a_link_or_a_file_is_no_workspace(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)
    file = tmp_path / "file"
    file.write_text("")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (link, file, dangling):
        assert doctor._workspace(path).passed is False


def test_an_altered_ledger_is_found(workspace: Path) -> None:
    contents = (workspace / "ledger.sqlite").read_bytes()
    assert contents.count(b"replace-one")
    altered = contents.replace(b"replace-one", b"add-removed")
    (workspace / "ledger.sqlite").write_bytes(altered)
    assert doctor._ledger(workspace).passed is False


# -- the installation ------------------------------------------------------------------------------


def with_versions(monkeypatch: pytest.MonkeyPatch, **others: str | None) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        found = others.get(name.replace("-", "_"), "as it is")
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name) if found == "as it is" else found

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_what_is_installed_is_in_its_ranges() -> None:
    assert doctor._packages().passed and doctor._extras().passed


@pytest.mark.parametrize("found", ["1.0", None])
def test_a_package_out_of_range_or_missing_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    with_versions(monkeypatch, scipy=found)
    wrong = doctor._packages()
    assert wrong.passed is False and "scipy" in wrong.detail


def test_an_extra_may_be_missing_and_not_be_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, pyarrow=None)
    fine = doctor._extras()
    assert fine.passed and "parquet" not in fine.detail
    with_versions(monkeypatch, pyarrow="1.0")
    assert doctor._extras().passed is False


def test_a_newer_python_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_NEWEST_TESTED", (3, 10))
    assert doctor._python().passed is None


# -- the machine -----------------------------------------------------------------------------------


def _refuse(*_: Any) -> bytes:
    raise BlockingIOError


@pytest.mark.skipif(not hasattr(os, "getrandom"), reason="getrandom is of Linux")
@pytest.mark.parametrize("drawn", [_refuse, lambda *_: b"\x07" * 32, lambda *_: bytes(32)])
def test_randomness_that_is_none_is_a_fault(monkeypatch: pytest.MonkeyPatch, drawn: Any) -> None:
    assert doctor._entropy().passed
    monkeypatch.setattr(os, "getrandom", drawn)
    assert doctor._entropy().passed is False


def machine(root: Path, *, free: int, most: str, used: int) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:  {free // 1024} kB\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text(f"{most}\n")
    (root / "sys/fs/cgroup/memory.current").write_text(f"{used}\n")
    return root


def test_memory_is_what_system_and_container_leave(tmp_path: Path) -> None:
    root = machine(tmp_path, free=4096 * MEBIBYTE, most=str(512 * MEBIBYTE), used=100 * MEBIBYTE)
    assert doctor.available_memory(root) == 412 * MEBIBYTE
    (root / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert doctor.available_memory(root) == 4096 * MEBIBYTE
    assert doctor.available_memory(root / "nowhere") is None


@pytest.mark.parametrize(("free", "passed"), [(100, None), (5000, True)])
def test_little_memory_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, free: int, passed: bool | None
) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: free * MEBIBYTE)
    assert doctor._memory().passed is passed


# -- the sampler -----------------------------------------------------------------------------------


class TooLittle(OperatingSystemEntropy):
    """Noise of a third of the scale that was asked for."""

    def add_laplace(self, values: Any, scale: float) -> Any:
        return super().add_laplace(values, scale / 3)


class TooEven(OperatingSystemEntropy):
    """Picks among the first half of what may be picked."""

    def below(self, bound: int) -> int:
        return super().below(max(1, bound // 2))


FAULTS = [(TooLittle, {"noise", "centres"}), (TooEven, {"picks", "centres"})]


def failures() -> set[str]:
    return {one.name.removeprefix("self-test: ") for one in doctor._self_test() if not one.passed}


@pytest.mark.statistical
def test_the_self_test_passes() -> None:
    """Four tests of false-alarm rate 1e-9 each."""
    assert failures() == set()


@pytest.mark.statistical
@pytest.mark.parametrize(("fault", "found"), FAULTS)
def test_planted_fault_in_the_sampler_fails_the_self_test(
    monkeypatch: pytest.MonkeyPatch, fault: type, found: set[str]
) -> None:
    monkeypatch.setattr(doctor, "OperatingSystemEntropy", fault)
    assert found <= failures()


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(doctor, "_self_test", lambda: iter(()))
    return in_process(monkeypatch, capsys, tmp_path, "doctor")


def test_the_command_passes_and_makes_nothing(run: Any, tmp_path: Path) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert "pass: fit to release." in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_command_fails_with_the_reason(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings(_: Path) -> Iterator[Finding]:
        yield Finding("one", True, "good")
        yield Finding("two", False, "bad, do this")

    monkeypatch.setattr(doctor, "examine", findings)
    done: subprocess.CompletedProcess[str] = run()
    assert done.returncode == 3 and "two: bad, do this" in done.stderr
    done = run("--json")
    told = json.loads(done.stdout)
    assert done.returncode == 3 and told["passed"] is False
    assert [one["passed"] for one in told["checks"]] == [True, False]

"""What holds for every test: plain ids, markers by folder, no process that no marker announces, and
no property that fails because the machine is busy, no registry of tables but a temporary one.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import noisy_mean  # noqa: F401 (registers itself)
from support.ids import plain_id
from support.lanes import marker_of, may_start_processes, without_processes

TESTS = Path(__file__).resolve().parent

settings.register_profile("dpkv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpkv")

_SCRATCH = tempfile.TemporaryDirectory(prefix="dpkv-registries-")
_numbers = itertools.count()
os.environ["DPKV_REGISTRY"] = f"{_SCRATCH.name}/fixtures"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of tables of the test's own: the user's stays untouched, and tests apart."""
    path = Path(_SCRATCH.name) / str(next(_numbers))
    monkeypatch.setenv("DPKV_REGISTRY", str(path))
    return path


def pytest_make_parametrize_id(
    config: pytest.Config,  # noqa: ARG001
    val: object,
    argname: str,
) -> str | None:
    return plain_id(val, argname)


def pytest_itemcollected(item: pytest.Item) -> None:
    marker = marker_of(item.path.relative_to(TESTS).parent)
    if marker is not None:
        item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if may_start_processes(item):
        return (yield)
    with without_processes():
        return (yield)

"""What `import dpkv` offers, and what it pulls in."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.run import dpkv as run_dpkv

import dpkv

HEAVY = ("numba", "numpy", "pandas", "scipy", "sklearn", "matplotlib", "opendp", "diffprivlib")

PUBLIC = [
    "Box",
    "BudgetError",
    "Calibration",
    "Domain",
    "DomainError",
    "DpkvError",
    "EngineError",
    "KVariates",
    "L1Ball",
    "LedgerError",
    "ParameterError",
    "PrivateSynopsis",
    "Release",
    "ReleaseRecord",
    "Table",
    "TableError",
    "UsageError",
    "VerificationError",
    "__version__",
    "assign",
    "calibrate",
    "cluster_synopsis",
    "estimate_optimum",
    "expected_potential_bound",
    "forgy",
    "kmeans_plusplus",
    "kvariates",
    "lloyd",
    "noise_terms",
    "ok_means",
    "open_stream",
    "potential",
    "read_synopsis",
    "read_table",
    "release",
    "simulate",
    "sk_means",
]


def test_the_public_names_are_these() -> None:
    assert sorted(dpkv.__all__) == PUBLIC
    assert dir(dpkv) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(dpkv, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        dpkv.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["seed", "--help"],
        ["release", "--help"],
        ["guarantees", "--help"],
        ["ledger", "--help"],
        ["study", "run", "--help"],
        ["datasets", "make", "--help"],
        ["--version"],
    ],
)
def test_help_answers_before_anything_heavy_is_imported(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['dpkv', *{arguments!r}]\n"
        "from dpkv.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as stop:\n    assert not stop.code, stop.code\n"
        f"print('HEAVY', sorted(set(sys.modules) & set({HEAVY!r})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("HEAVY []")


def test_no_command_shows_the_help(tmp_path) -> None:
    result = run_dpkv(cwd=tmp_path)
    assert "seed" in result.stdout + result.stderr

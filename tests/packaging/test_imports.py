"""What `import dpkv` offers, what it pulls in, and which modules may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.run import dpkv as run_dpkv

import dpkv

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numba", "numpy", "pandas", "scipy", "sklearn", "matplotlib", "opendp", "diffprivlib")

PUBLIC = [
    "Box",
    "BudgetError",
    "Calibration",
    "Domain",
    "DomainError",
    "DpkvError",
    "EngineError",
    "L1Ball",
    "LedgerError",
    "ParameterError",
    "PrivateKMeans",
    "PrivateSynopsis",
    "PublicScaler",
    "Release",
    "ReleaseRecord",
    "Table",
    "TableError",
    "UsageError",
    "VerificationError",
    "__version__",
    "assign",
    "audit",
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
    "verify",
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


@pytest.mark.processes
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


@pytest.mark.processes
def test_no_command_shows_the_help(tmp_path) -> None:
    result = run_dpkv(cwd=tmp_path)
    assert "seed" in result.stdout + result.stderr


def imported_by(source: str) -> Iterator[str]:
    """Yield the full names of the modules that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(given.value) for given in node.args if isinstance(given, ast.Constant))


def importers_of(package: str) -> list[str]:
    """Return the files of the package and of the scripts beside it that import another package."""
    files = [path for top in ("dpkv", "audits", "calibrate") for path in (ROOT / top).rglob("*.py")]
    assert len(files) > 200
    return sorted(
        path.relative_to(ROOT).as_posix()
        for path in files
        if package in {n.split(".")[0] for n in imported_by(path.read_text(encoding="utf-8"))}
    )


def test_one_module_imports_diffprivlib() -> None:
    """It is a rival to compare with: dpkv must not come to depend on what it does."""
    assert importers_of("diffprivlib") == ["dpkv/audits/diffprivlib_kmeans.py"]


@pytest.mark.parametrize(
    "source",
    [
        "import diffprivlib.models as m",
        "def f():\n    from diffprivlib.models import KMeans",
        "importlib.import_module('diffprivlib')",
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str) -> None:
    assert {name.split(".")[0] for name in imported_by(source)} == {"diffprivlib"}

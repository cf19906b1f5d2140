"""dpkv: release differentially private cluster centres, and prove what the release costs.

The public names are listed in ``__all__``; they are imported when first used, so that
``import dpkv`` and ``dpkv --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dpkv.audits.api import audit as audit
    from dpkv.calibration import Calibration as Calibration
    from dpkv.calibration import calibrate as calibrate
    from dpkv.domain import Box as Box
    from dpkv.domain import Domain as Domain
    from dpkv.domain import L1Ball as L1Ball
    from dpkv.errors import BudgetError as BudgetError
    from dpkv.errors import DomainError as DomainError
    from dpkv.errors import DpkvError as DpkvError
    from dpkv.errors import EngineError as EngineError
    from dpkv.errors import LedgerError as LedgerError
    from dpkv.errors import ParameterError as ParameterError
    from dpkv.errors import TableError as TableError
    from dpkv.errors import UsageError as UsageError
    from dpkv.errors import VerificationError as VerificationError
    from dpkv.estimator import PrivateKMeans as PrivateKMeans
    from dpkv.releases import PrivateSynopsis as PrivateSynopsis
    from dpkv.releases import Release as Release
    from dpkv.releases import ReleaseRecord as ReleaseRecord
    from dpkv.releases import cluster_synopsis as cluster_synopsis
    from dpkv.releases import read_synopsis as read_synopsis
    from dpkv.releases import release as release
    from dpkv.releases import simulate as simulate
    from dpkv.releases.checking import verify as verify
    from dpkv.scaler import PublicScaler as PublicScaler
    from dpkv.seeding import assign as assign
    from dpkv.seeding import estimate_optimum as estimate_optimum
    from dpkv.seeding import expected_potential_bound as expected_potential_bound
    from dpkv.seeding import forgy as forgy
    from dpkv.seeding import kmeans_plusplus as kmeans_plusplus
    from dpkv.seeding import kvariates as kvariates
    from dpkv.seeding import lloyd as lloyd
    from dpkv.seeding import noise_terms as noise_terms
    from dpkv.seeding import ok_means as ok_means
    from dpkv.seeding import potential as potential
    from dpkv.seeding import sk_means as sk_means
    from dpkv.tables import Table as Table
    from dpkv.tables import open_stream as open_stream
    from dpkv.tables import read_table as read_table

_HOME = {
    "Box": "dpkv.domain",
    "BudgetError": "dpkv.errors",
    "Calibration": "dpkv.calibration",
    "Domain": "dpkv.domain",
    "DomainError": "dpkv.errors",
    "DpkvError": "dpkv.errors",
    "EngineError": "dpkv.errors",
    "L1Ball": "dpkv.domain",
    "LedgerError": "dpkv.errors",
    "ParameterError": "dpkv.errors",
    "PrivateKMeans": "dpkv.estimator",
    "PrivateSynopsis": "dpkv.releases",
    "PublicScaler": "dpkv.scaler",
    "Release": "dpkv.releases",
    "ReleaseRecord": "dpkv.releases",
    "Table": "dpkv.tables",
    "TableError": "dpkv.errors",
    "UsageError": "dpkv.errors",
    "VerificationError": "dpkv.errors",
    "assign": "dpkv.seeding",
    "audit": "dpkv.audits.api",
    "calibrate": "dpkv.calibration",
    "cluster_synopsis": "dpkv.releases",
    "estimate_optimum": "dpkv.seeding",
    "expected_potential_bound": "dpkv.seeding",
    "forgy": "dpkv.seeding",
    "kmeans_plusplus": "dpkv.seeding",
    "kvariates": "dpkv.seeding",
    "lloyd": "dpkv.seeding",
    "noise_terms": "dpkv.seeding",
    "ok_means": "dpkv.seeding",
    "open_stream": "dpkv.tables",
    "potential": "dpkv.seeding",
    "read_synopsis": "dpkv.releases",
    "read_table": "dpkv.tables",
    "release": "dpkv.releases",
    "simulate": "dpkv.releases",
    "sk_means": "dpkv.seeding",
    "verify": "dpkv.releases.checking",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dpkv' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Mechanisms: what can be released, each a frozen description with its prices and its program.

What is not asked for is not imported, so that ``--help`` can read the names at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpkv.mechanisms.registry import AUTO, MECHANISMS, PAPERS

if TYPE_CHECKING:
    from dpkv.accounting import Neighbours as Neighbours
    from dpkv.accounting import Step as Step
    from dpkv.accounting import as_neighbours as as_neighbours
    from dpkv.accounting.split import Split as Split
    from dpkv.mechanisms.choice import Choice as Choice
    from dpkv.mechanisms.choice import Rule as Rule
    from dpkv.mechanisms.choice import choose as choose
    from dpkv.mechanisms.gupt import Gupt as Gupt
    from dpkv.mechanisms.kvariates import Algorithm0 as Algorithm0
    from dpkv.mechanisms.kvariates import Forgy as Forgy
    from dpkv.mechanisms.kvariates import KVariates as KVariates
    from dpkv.mechanisms.kvariates import Laplace as Laplace
    from dpkv.mechanisms.kvariates import Published as Published
    from dpkv.mechanisms.kvariates import WindowKVariates as WindowKVariates
    from dpkv.mechanisms.lloyd import Lloyd as Lloyd
    from dpkv.mechanisms.mechanism import Mechanism as Mechanism
    from dpkv.mechanisms.mechanism import Noise as Noise
    from dpkv.mechanisms.mechanism import Outcome as Outcome
    from dpkv.mechanisms.mechanism import Terms as Terms
    from dpkv.mechanisms.private_bounds import PrivateBounds as PrivateBounds
    from dpkv.mechanisms.registry import calibrate_mechanism as calibrate_mechanism
    from dpkv.mechanisms.registry import check_request as check_request
    from dpkv.mechanisms.registry import describe as describe
    from dpkv.mechanisms.registry import find_kind as find_kind
    from dpkv.mechanisms.registry import for_terms as for_terms
    from dpkv.mechanisms.registry import from_description as from_description
    from dpkv.mechanisms.synopsis import Synopsis as Synopsis

_HOME = {
    "dpkv.accounting": ("Neighbours", "Step", "as_neighbours"),
    "dpkv.mechanisms.private_bounds": ("PrivateBounds",),
    "dpkv.mechanisms.choice": ("Choice", "Rule", "choose"),
    "dpkv.mechanisms.gupt": ("Gupt",),
    "dpkv.mechanisms.kvariates": (
        "Algorithm0",
        "Forgy",
        "KVariates",
        "Laplace",
        "Published",
        "WindowKVariates",
    ),
    "dpkv.mechanisms.lloyd": ("Lloyd",),
    "dpkv.mechanisms.mechanism": ("Mechanism", "Noise", "Outcome", "Terms"),
    "dpkv.mechanisms.registry": (
        "calibrate_mechanism",
        "check_request",
        "describe",
        "for_terms",
        "from_description",
        "find_kind",
    ),
    "dpkv.accounting.split": ("Split",),
    "dpkv.mechanisms.synopsis": ("Synopsis",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["AUTO", "MECHANISMS", "PAPERS", *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dpkv.mechanisms' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)

"""Mechanisms: what can be released, each a frozen description with its proof and one way to run."""

from dpkv.mechanisms.bounds import PrivateBounds
from dpkv.mechanisms.catalogue import (
    AUTO,
    MECHANISMS,
    calibrated,
    check_request,
    describe,
    from_description,
)
from dpkv.mechanisms.choice import Choice, choose
from dpkv.mechanisms.gupt import Gupt
from dpkv.mechanisms.kvariates import Algorithm0, Forgy, KVariates, Laplace, Published
from dpkv.mechanisms.lloyd import Lloyd
from dpkv.mechanisms.mechanism import Mechanism, Neighbours, Noise, Step, as_neighbours
from dpkv.mechanisms.split import Split
from dpkv.mechanisms.synopsis import Synopsis

__all__ = [
    "AUTO",
    "MECHANISMS",
    "Algorithm0",
    "Choice",
    "Forgy",
    "Gupt",
    "KVariates",
    "Laplace",
    "Lloyd",
    "Mechanism",
    "Neighbours",
    "Noise",
    "PrivateBounds",
    "Published",
    "Split",
    "Step",
    "Synopsis",
    "as_neighbours",
    "calibrated",
    "check_request",
    "choose",
    "describe",
    "from_description",
]

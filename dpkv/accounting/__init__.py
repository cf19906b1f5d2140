"""Prices and nothing else: what a step costs, for which relation, and what steps cost together."""

from dpkv.accounting.relation import Neighbours, as_neighbours
from dpkv.accounting.steps import Step, cost_of, gaussian_step, laplace_step
from dpkv.accounting.unit import PERSON, PERSON_SHARES, ROW, Unit

__all__ = [
    "PERSON",
    "PERSON_SHARES",
    "ROW",
    "Neighbours",
    "Step",
    "Unit",
    "as_neighbours",
    "cost_of",
    "gaussian_step",
    "laplace_step",
]

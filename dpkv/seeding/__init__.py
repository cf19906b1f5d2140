"""Seeding: Algorithm 0 once, and each (probe, density) instance of it."""

from dpkv.seeding.algorithm0 import Seeding, kvariates
from dpkv.seeding.densities import (
    CallableDensity,
    Density,
    Dirac,
    Gaussian,
    Moments,
    ProductLaplace,
    UniformOnSubset,
)
from dpkv.seeding.instances import ALGORITHMS, forgy, kmeans_plusplus
from dpkv.seeding.potentials import (
    LloydResult,
    NoiseTerms,
    OptimumEstimate,
    assign,
    estimate_optimum,
    expected_potential_bound,
    lloyd,
    noise_terms,
    potential,
)
from dpkv.seeding.probes import (
    CallableProbe,
    IdentityProbe,
    MinibatchProbe,
    NearestSynopsisProbe,
    Probe,
)
from dpkv.seeding.trials import Found, Problem, Trial, Trials, check_trials, run_trials, solve

__all__ = [
    "ALGORITHMS",
    "CallableDensity",
    "CallableProbe",
    "Density",
    "Dirac",
    "Found",
    "Gaussian",
    "IdentityProbe",
    "LloydResult",
    "MinibatchProbe",
    "Moments",
    "NearestSynopsisProbe",
    "NoiseTerms",
    "OptimumEstimate",
    "Probe",
    "Problem",
    "ProductLaplace",
    "Seeding",
    "Trial",
    "Trials",
    "UniformOnSubset",
    "assign",
    "check_trials",
    "estimate_optimum",
    "expected_potential_bound",
    "forgy",
    "kmeans_plusplus",
    "kvariates",
    "lloyd",
    "noise_terms",
    "potential",
    "run_trials",
    "solve",
]

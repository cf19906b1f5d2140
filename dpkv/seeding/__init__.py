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
from dpkv.seeding.instances import forgy, kmeans_plusplus
from dpkv.seeding.potential import (
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

__all__ = [
    "CallableDensity",
    "CallableProbe",
    "Density",
    "Dirac",
    "Gaussian",
    "IdentityProbe",
    "LloydResult",
    "MinibatchProbe",
    "Moments",
    "NearestSynopsisProbe",
    "NoiseTerms",
    "OptimumEstimate",
    "Probe",
    "ProductLaplace",
    "Seeding",
    "UniformOnSubset",
    "assign",
    "estimate_optimum",
    "expected_potential_bound",
    "forgy",
    "kmeans_plusplus",
    "kvariates",
    "lloyd",
    "noise_terms",
    "potential",
]

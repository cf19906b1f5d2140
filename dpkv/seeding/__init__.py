"""Seeding: Algorithm 0 once, and each (probe, density) instance of it."""

from dpkv.seeding.algorithm0 import Seeding, kvariates
from dpkv.seeding.approximation_guarantees import (
    dk_private_guarantee,
    dk_protected_guarantee,
    kmeans_plusplus_guarantee,
    ok_guarantee,
    printed_sk_guarantee,
    sk_guarantee,
)
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
from dpkv.seeding.kmeans_sharp import SharpSeeding, kmeans_sharp, sharp_stream
from dpkv.seeding.online import (
    OkMeans,
    OnlineSeeding,
    VarsigmaEstimate,
    estimate_varsigma,
    ok_means,
)
from dpkv.seeding.online_facility import OnlineClustering, online_kmeans
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
    NearestPointProbe,
    Probe,
)
from dpkv.seeding.streaming import (
    StreamSeeding,
    StretchingEstimate,
    estimate_stretching,
    sk_means,
    stream_potentials,
)
from dpkv.seeding.summaries import BUILDERS, StreamSummary, summarise_stream
from dpkv.seeding.trials import Found, Problem, Trial, Trials, check_trials, solve

__all__ = [
    "ALGORITHMS",
    "BUILDERS",
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
    "NearestPointProbe",
    "NoiseTerms",
    "OkMeans",
    "OnlineClustering",
    "OnlineSeeding",
    "OptimumEstimate",
    "Probe",
    "Problem",
    "ProductLaplace",
    "Seeding",
    "SharpSeeding",
    "StreamSeeding",
    "StreamSummary",
    "StretchingEstimate",
    "Trial",
    "Trials",
    "UniformOnSubset",
    "VarsigmaEstimate",
    "assign",
    "check_trials",
    "dk_private_guarantee",
    "dk_protected_guarantee",
    "estimate_optimum",
    "estimate_stretching",
    "estimate_varsigma",
    "expected_potential_bound",
    "forgy",
    "kmeans_plusplus",
    "kmeans_plusplus_guarantee",
    "kmeans_sharp",
    "kvariates",
    "lloyd",
    "noise_terms",
    "ok_guarantee",
    "ok_means",
    "online_kmeans",
    "potential",
    "printed_sk_guarantee",
    "sharp_stream",
    "sk_guarantee",
    "sk_means",
    "solve",
    "stream_potentials",
    "summarise_stream",
]

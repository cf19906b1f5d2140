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
from dpkv.seeding.kmeans_sharp import SharpSeeding, kmeans_sharp, sharp_stream
from dpkv.seeding.online import (
    OkMeans,
    OnlineSeeding,
    VarsigmaEstimate,
    estimate_varsigma,
    ok_means,
)
from dpkv.seeding.online_facility import OnlineClustering, online_kmeans
from dpkv.seeding.potential_bounds import (
    kmeans_plusplus_bound,
    online_bound,
    printed_streaming_bound,
    private_bound,
    protected_bound,
    streaming_bound,
)
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
from dpkv.seeding.streaming import (
    StreamSeeding,
    StretchingEstimate,
    estimate_stretching,
    sk_means,
    stream_potentials,
)
from dpkv.seeding.synopses import BUILDERS, Synopses, build_synopses
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
    "NearestSynopsisProbe",
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
    "StretchingEstimate",
    "Synopses",
    "Trial",
    "Trials",
    "UniformOnSubset",
    "VarsigmaEstimate",
    "assign",
    "build_synopses",
    "check_trials",
    "estimate_optimum",
    "estimate_stretching",
    "estimate_varsigma",
    "expected_potential_bound",
    "forgy",
    "kmeans_plusplus",
    "kmeans_plusplus_bound",
    "kmeans_sharp",
    "kvariates",
    "lloyd",
    "noise_terms",
    "ok_means",
    "online_bound",
    "online_kmeans",
    "potential",
    "printed_streaming_bound",
    "private_bound",
    "protected_bound",
    "sharp_stream",
    "sk_means",
    "solve",
    "stream_potentials",
    "streaming_bound",
]

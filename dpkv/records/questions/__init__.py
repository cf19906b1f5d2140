"""The questions that may be asked of records: one file each, with its proof at the top.

A question is public. What it is asked of is not: mechanisms import questions from here and nothing
else of this room.
"""

from dpkv.records.questions.blocks import BlockCenters, block_centers_step
from dpkv.records.questions.cells import (
    PLACE_UNIT,
    CellCounts,
    CellPlaces,
    cells_step,
    places_step,
    scale_for,
)
from dpkv.records.questions.certificate import TreeTest, calibrate_test
from dpkv.records.questions.clusters import (
    ClusterCounts,
    ClusterSums,
    cluster_counts_step,
    cluster_sums_step,
)
from dpkv.records.questions.core import BINS as CORE_BINS
from dpkv.records.questions.core import PARTS as CORE_PARTS
from dpkv.records.questions.core import STRETCHES as CORE_STRETCHES
from dpkv.records.questions.core import (
    CoreColumns,
    CoreReach,
    core_columns_step,
    core_reach_step,
)
from dpkv.records.questions.count import RecordCount, count_step, is_total_private
from dpkv.records.questions.density import Density, LaplaceDensity, WindowDensity
from dpkv.records.questions.extremes import N_MAGNITUDES, MagnitudeHistograms, magnitude_edges
from dpkv.records.questions.pick import NoisyPick, PickProof, PickTerms
from dpkv.records.questions.projection import PublicMap, public_map
from dpkv.records.questions.question import Ask, NoisySums, Question
from dpkv.records.questions.residuals import (
    Clusters,
    NormHistograms,
    ResidualSums,
    norms_step,
    residuals_step,
)
from dpkv.records.questions.splits import CellSplits, first_levels, tree_step
from dpkv.records.questions.tree import Tree, tree_from_splits

__all__ = [
    "CORE_BINS",
    "CORE_PARTS",
    "CORE_STRETCHES",
    "N_MAGNITUDES",
    "PLACE_UNIT",
    "Ask",
    "BlockCenters",
    "CellCounts",
    "CellPlaces",
    "CellSplits",
    "ClusterCounts",
    "ClusterSums",
    "Clusters",
    "CoreColumns",
    "CoreReach",
    "Density",
    "LaplaceDensity",
    "MagnitudeHistograms",
    "NoisyPick",
    "NoisySums",
    "NormHistograms",
    "PickProof",
    "PickTerms",
    "PublicMap",
    "Question",
    "RecordCount",
    "ResidualSums",
    "Tree",
    "TreeTest",
    "WindowDensity",
    "block_centers_step",
    "calibrate_test",
    "cells_step",
    "cluster_counts_step",
    "cluster_sums_step",
    "core_columns_step",
    "core_reach_step",
    "count_step",
    "first_levels",
    "is_total_private",
    "magnitude_edges",
    "norms_step",
    "places_step",
    "public_map",
    "residuals_step",
    "scale_for",
    "tree_from_splits",
    "tree_step",
]

"""The paper's experiments, each as a study that one command runs again.

This package reads its specs and the paper's tables, where they are given, and writes nothing but
``cases.jsonl``; the command line does the rest.
"""

from __future__ import annotations

from importlib import import_module

from dpkv.errors import ParameterError
from dpkv.paper.studies.study import Spec, Study, load_spec

NAMES = ("sublinear-noise", "dk-means", "published-table", "heat-maps", "total-jensen")
"""In the order of the paper's appendix."""

__all__ = ["NAMES", "Spec", "Study", "load_spec", "study_of"]


def study_of(name: str) -> Study:
    """Return the study of that name."""
    if name not in NAMES:
        raise ParameterError("NAME", "one of " + ", ".join(NAMES), name)
    study: Study = import_module(f"dpkv.paper.studies.{name.replace('-', '_')}").STUDY
    return study
